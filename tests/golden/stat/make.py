#!/usr/bin/env python3
"""Makes scipy.json: figures by SciPy and NumPy that tests/stat_golden.rs compares ours with.

    python3 -m venv v && v/bin/pip install scipy
    v/bin/python tests/golden/stat/make.py            # writes scipy.json beside this file
    v/bin/python tests/golden/stat/make.py --check    # compares with it, writes nothing; exit 1 where they differ

Data are made here by a fixed generator and stored in the file, so that nothing but the figures depends on
the library. A case is {"what": name, "in": {...}, "out": {...}}.
"""
import itertools
import json
import math
import pathlib
import sys

import numpy as np
import scipy
from scipy import optimize, special, stats

FILE = pathlib.Path(__file__).with_name("scipy.json")
CASES = []


def case(what, given, out):
    def plain(x):
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        if isinstance(x, (list, tuple, np.ndarray)):
            return [plain(v) for v in x]
        if isinstance(x, (bool, np.bool_)):
            return bool(x)
        if isinstance(x, (int, np.integer)):
            return int(x)
        return float(x) if isinstance(x, (float, np.floating)) else x

    CASES.append({"what": what, "in": plain(given), "out": plain(out)})


class Numbers:
    """A linear congruential generator: the same data with every version of everything."""

    def __init__(self, seed):
        self.state = seed

    def unit(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 11) / 2**53

    def normal(self):
        return sum(self.unit() for _ in range(12)) - 6

    def times(self, n, centre=800_000, spread=0.05, spikes=0.05):
        """Start times in ns: a body, a right tail, some spikes."""
        out = []
        for _ in range(n):
            x = centre * math.exp(spread * self.normal())
            if self.unit() < spikes:
                x *= 1 + 5 * self.unit()
            out.append(round(x))
        return out


def distributions():
    for x in [1e-3, 0.5, 1, 1.5, 3.7, 11.99, 12, 100.25, 1e4, 1e7]:
        case("ln_gamma", {"x": x}, {"value": special.gammaln(x)})
    for a, b in [(0.5, 0.5), (2, 3), (5, 0.5), (50, 0.5), (0.5, 200), (400, 390), (30000.5, 29000)]:
        for x in [1e-9, 0.01, 0.3, 0.5, 0.51, 0.9, 0.999]:
            case("beta_inc", {"a": a, "b": b, "x": x}, {"value": special.betainc(a, b, x)})
    for a in [0.5, 1, 2.5, 30]:
        for x in [1e-6, 0.2, 1, 2.9, 31, 80]:
            case("gamma_q", {"a": a, "x": x}, {"value": special.gammaincc(a, x)})
    for x in [-6, -1.5, -0.1, 0, 1e-8, 0.3, 1, 2.5, 6, 15, 26]:
        case("erfc", {"x": x}, {"value": special.erfc(x)})
    for z in [-5, -1, 0, 0.5, 1.96, 4, 8, 20]:
        case("normal_upper", {"z": z}, {"value": stats.norm.sf(z)})
    for p in [1e-15, 1e-6, 0.001, 0.025, 0.2, 0.5, 0.7, 0.975, 0.9999]:
        case("normal_quantile", {"p": p}, {"value": stats.norm.ppf(p)})
    for df in [1, 2, 3.7, 10, 28, 29, 30, 100, 1e5]:
        for t in [0, 0.3, 1, 2.2, 9, 60]:
            case("student_two_sided", {"t": t, "df": df}, {"value": 2 * stats.t.sf(t, df)})
        for c in [0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.9999]:
            case("student_quantile", {"confidence": c, "df": df}, {"value": stats.t.isf((1 - c) / 2, df)})
    for d1, d2 in [(1, 5), (3, 20), (10, 400), (2, 2)]:
        for f in [0.1, 1, 3.3, 20]:
            case("f_upper", {"f": f, "d1": d1, "d2": d2}, {"value": stats.f.sf(f, d1, d2)})
    for n, p in [(10, 0.5), (60, 0.5), (61, 0.5), (1000, 0.5), (100000, 0.5), (40, 0.05)]:
        for k in sorted({0, 1, n // 10, n // 2 - 2, n // 2, n - 1}):
            given = {"k": k, "n": n, "p": p}
            case("binomial", given, {"cdf": stats.binom.cdf(k, n, p), "pmf": stats.binom.pmf(k, n, p)})


def quantiles(r):
    for n in [1, 2, 3, 7, 10, 99, 100, 101, 1000]:
        x = r.times(n)
        out = {"q": np.quantile(x, [0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999]), "mean": np.mean(x)}
        out["stddev"] = np.std(x, ddof=1) if n > 1 else None
        out["mad"] = stats.median_abs_deviation(x)
        out["median_ci"] = median_ci(x)
        case("summary", {"x": x}, out)
    # Large values with a small spread: a one-pass variance loses all digits here.
    x = [10**15 + v for v in r.times(50, 1000)]
    mean = sum(x) / len(x)
    case("summary", {"x": x}, {
        "q": np.quantile(np.array(x) - 10**15, [0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999]) + 10**15,
        "mean": mean, "stddev": np.std(np.array(x) - 10**15, ddof=1),
        "mad": stats.median_abs_deviation(x), "median_ci": median_ci(x)})


def median_ci(x, confidence=0.95):
    """Order statistics by the binomial distribution, by trying every rank."""
    x, n, best = sorted(x), len(x), None
    for k in range((n + 1) // 2):
        if 2 * stats.binom.cdf(k, n, 0.5) <= 1 - confidence + 1e-12:
            best = [x[k], x[n - 1 - k]]
    return best


def walsh(x):
    return [(a + b) / 2 for i, a in enumerate(x) for b in x[i:]]


def exact_signed_rank(d):
    """All 2^n signs of the midranks: the exact distribution with ties, by brute force."""
    d = np.array([v for v in d if v != 0])
    ranks = stats.rankdata(abs(d))
    w = ranks[d > 0].sum()
    sums = [sum(s) for s in itertools.product(*[(0, q) for q in ranks])]
    below, above = sum(s <= w + 1e-9 for s in sums), sum(s >= w - 1e-9 for s in sums)
    return min(1, 2 * min(below, above) / len(sums))


def ranks(r):
    def given(n, shift, scale=1.0):
        return [shift + scale * r.normal() for _ in range(n)]

    for n, shift in [(5, 0.5), (6, 2), (12, 0.3), (20, 0.6), (25, 0.1)]:
        d = given(n, shift)
        t = stats.wilcoxon(d, method="exact")
        case("signed_rank", {"d": d}, {"p": t.pvalue, "w": w_plus(d), "exact": True})
    for n in [6, 10, 14]:
        d = [round(2 * v) / 2 for v in given(n, 0.4)]
        case("signed_rank", {"d": d}, {"p": exact_signed_rank(d), "w": w_plus(d), "exact": True})
    for n, shift, grid in [(26, 0.2, None), (150, 0.1, None), (400, 0.02, None), (60, 0.3, 0.5), (200, 0.1, 0.25)]:
        d = given(n, shift)
        if grid:
            d = [round(v / grid) * grid for v in d]
        t = stats.wilcoxon(d, method="approx", correction=True, zero_method="wilcox")
        case("signed_rank", {"d": d}, {"p": t.pvalue, "w": w_plus(d), "exact": False})
    for n, shift in [(7, 1), (40, 0.3), (300, 0.1)]:
        d = [round(v) for v in given(n, shift)]
        plus, minus = sum(v > 0 for v in d), sum(v < 0 for v in d)
        case("sign_test", {"d": d}, {"p": stats.binomtest(plus, plus + minus).pvalue})
    for n in [1, 2, 9, 80]:
        d = given(n, 0.3)
        case("hodges_lehmann", {"d": d}, {"value": np.median(walsh(d))})
    for m, n, shift, method in [(8, 6, 0.5, "exact"), (25, 25, 0.3, "exact"), (30, 40, 0.2, "asymptotic"), (200, 150, 0.1, "asymptotic")]:
        a, b = given(m, 0), given(n, shift)
        t = stats.mannwhitneyu(b, a, method=method, use_continuity=True)
        case("rank_sum", {"a": a, "b": b}, {"u": t.statistic, "p": t.pvalue})
    a, b = [round(v) for v in given(40, 0, 2)], [round(v) for v in given(30, 1, 2)]
    t = stats.mannwhitneyu(b, a, method="asymptotic", use_continuity=True)
    case("rank_sum", {"a": a, "b": b}, {"u": t.statistic, "p": t.pvalue})
    for m, n in [(5, 7), (40, 60)]:
        a, b = given(m, 0), given(n, 0.5)
        d = sorted(y - x for x in a for y in b)
        rank = math.floor(m * n / 2 - stats.norm.ppf(0.975) * math.sqrt(m * n * (m + n + 1) / 12))
        case("shift", {"a": a, "b": b}, {"value": np.median(d), "ci": [d[rank - 1], d[m * n - rank]]})
    p = [0.01, 0.04, 0.03, 0.005, 0.5, 0.5]
    case("holm", {"p": p}, {"adjusted": holm(p)})
    x = list(np.cumsum(given(100, 0)))
    c = np.array(x) - np.mean(x)
    case("autocorrelation", {"x": x}, {"value": np.sum(c[1:] * c[:-1]) / np.sum(c * c)})


def holm(p):
    order, out, floor = np.argsort(p, kind="stable"), [0.0] * len(p), 0.0
    for i, j in enumerate(order):
        floor = max(floor, min(1.0, (len(p) - i) * p[j]))
        out[j] = floor
    return out


def w_plus(d):
    d = np.array([v for v in d if v != 0])
    return float(stats.rankdata(abs(d))[d > 0].sum())


def paired(r):
    for n, effect in [(6, 1.02), (20, 1.0), (150, 1.02), (400, 1.005)]:
        a = r.times(n)
        b = [round(effect * x) for x in r.times(n)]
        d = [math.log(y / x) for x, y in zip(a, b)]
        t = stats.wilcoxon(d, method="exact") if n <= 25 else stats.wilcoxon(d, method="approx", correction=True)
        case("paired", {"reference": a, "candidate": b}, {
            "ratio": math.exp(np.median(d)), "ci": [math.exp(v) for v in median_ci(d)],
            "hodges_lehmann": math.exp(np.median(walsh(d))), "p": t.pvalue,
            "difference": np.median(np.array(b) - np.array(a))})


def trends(r):
    for n, slope, grid in [(12, 0.1, None), (60, 0.01, None), (50, 0.02, 0.5)]:
        y = [slope * i + r.normal() for i in range(n)]
        if grid:
            y = [round(v / grid) * grid for v in y]
        t = stats.theilslopes(y, np.arange(n), 0.95)
        k = stats.kendalltau(np.arange(n), y, method="asymptotic")
        case("theil_sen", {"y": y}, {"slope": t.slope, "ci": [t.low_slope, t.high_slope], "tau": k.statistic, "p": k.pvalue})


def means(r):
    for n, m in [(5, 7), (30, 12)]:
        a, b = [10 + r.normal() for _ in range(n)], [10.5 + 2 * r.normal() for _ in range(m)]
        for c in [0.8, 0.95, 0.995]:
            out = {"difference": np.mean(b) - np.mean(a)}
            for name, equal in [("pooled", True), ("welch", False)]:
                t = stats.ttest_ind(b, a, equal_var=equal)
                low, high = t.confidence_interval(c)
                out[name] = {"half_width": (high - low) / 2, "df": t.df, "p": t.pvalue}
            case("means", {"a": a, "b": b, "confidence": c}, out)


def fits(r):
    for rows, scale in [(8, [1, 1, 1]), (30, [1, 1000, 1e6, 5]), (60, [1, 1, 1, 1, 1, 1, 1, 1])]:
        width = len(scale)
        a = [[s * r.unit() for s in scale] for _ in range(rows)]
        truth = [(-1 if j % 3 == 2 else 1) * (j + 1) / s for j, s in enumerate(scale)]
        b = [float(np.dot(row, truth)) + 0.1 * r.normal() for row in a]
        w = [0.5 + r.unit() for _ in range(rows)]
        A, root = np.array(a), np.sqrt(w)
        size = np.linalg.norm(A * root[:, None], axis=0)
        x, _ = optimize.nnls(A * root[:, None] / size, np.array(b) * root, maxiter=1000)
        x = x / size
        left = np.array(b) - A @ x
        mean = np.average(b, weights=w)
        case("nnls", {"a": a, "b": b, "w": w}, {
            "x": x, "residuals": left, "condition": np.linalg.cond(A * root[:, None] / size),
            "r_squared": 1 - np.sum(w * left**2) / np.sum(w * (np.array(b) - mean) ** 2)})
    for n, repeats, bend in [(10, 3, 0), (6, 5, 0.2), (20, 1, 0)]:
        x = [float(i) for i in range(n) for _ in range(repeats)]
        y = [3 + 2 * v + bend * v * v + r.normal() for v in x]
        t = stats.linregress(x, y)
        q = stats.t.ppf(0.975, len(x) - 2)
        out = {"slope": t.slope, "intercept": t.intercept, "slope_half_width": q * t.stderr,
               "intercept_half_width": q * t.intercept_stderr, "r_squared": t.rvalue**2, "lack": None}
        if repeats > 1:
            left = np.sum((np.array(y) - t.intercept - t.slope * np.array(x)) ** 2)
            pure = sum(np.sum((np.array(g) - np.mean(g)) ** 2) for g in np.array(y).reshape(n, repeats))
            f = (left - pure) / (n - 2) / (pure / (len(x) - n))
            out["lack"] = {"f": f, "p": stats.f.sf(f, n - 2, len(x) - n)}
        case("line", {"x": x, "y": y}, out)


def close(a, b):
    if isinstance(a, float) and isinstance(b, (int, float)) or isinstance(b, float) and isinstance(a, (int, float)):
        return abs(a - b) <= 1e-10 * max(abs(a), abs(b), 1e-280)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    return a == b


def main():
    distributions()
    quantiles(Numbers(1))
    ranks(Numbers(2))
    paired(Numbers(3))
    trends(Numbers(4))
    means(Numbers(5))
    fits(Numbers(6))
    made_by = f"make.py with SciPy {scipy.__version__}, NumPy {np.__version__}"
    if sys.argv[1:] == ["--check"]:
        stored = json.loads(FILE.read_text())["cases"]
        bad = [i for i, (a, b) in enumerate(zip(stored, CASES)) if not close(a, b)]
        for i in bad:
            print(f"case {i} ({CASES[i]['what']}) differs:\n  stored {stored[i]['out']}\n  made   {CASES[i]['out']}")
        if bad or len(stored) != len(CASES):
            sys.exit(f"{FILE.name}: {len(bad)} of {len(CASES)} cases differ ({len(stored)} stored)")
        print(f"{FILE.name}: all {len(CASES)} cases agree with {made_by}")
        return
    lines = ",\n".join(json.dumps(c) for c in CASES)
    FILE.write_text(f'{{"made_by": {json.dumps(made_by)}, "cases": [\n{lines}\n]}}\n')
    print(f"{FILE.name}: {len(CASES)} cases")


main()
