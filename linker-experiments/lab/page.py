"""An experiment as text: what was asked, the facts, the times, what is not as it should be, the commands."""

import textwrap

from .judge import Done, Outcome, predicted_difference, prediction_holds, why_not_judged

WIDTH = 110


def time(ns: float) -> str:
    """Three significant digits with a unit."""
    for size, unit, scale in ((999.5, "ns", 1), (999.5e3, "µs", 1e3), (999.5e6, "ms", 1e6), (float("inf"), "s", 1e9)):
        if abs(ns) < size:
            return f"{ns:.0f} ns" if unit == "ns" else f"{digits(ns / scale)} {unit}"
    return ""


def digits(x: float) -> str:
    """Three significant digits; whole numbers from 100 on."""
    size = abs(x)
    return f"{x:.0f}" if size >= 99.95 else f"{x:.1f}" if size >= 9.995 else f"{x:.2f}"


def signed(ns: float) -> str:
    """A difference."""
    return f"+{time(ns)}" if ns >= 0 else time(ns)


def table(headers: list[str], rows: list[list[str]]) -> str:
    """Columns line up; a header with a leading `>` is aligned to the right. Empty columns are left out."""
    kept = [i for i in range(len(headers)) if i == 0 or any(row[i] for row in rows)]
    right = [headers[i].startswith(">") for i in kept]
    lines = [[headers[i].lstrip(">") for i in kept]] + [[row[i] for i in kept] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(kept))]

    def one(line: list[str]) -> str:
        cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right))
        return "  ".join(cells).rstrip()

    return "\n".join(one(line) for line in lines) + "\n"


def number(value: int | str | None) -> str:
    """A count with thousands separated; zero is a dot, so that what differs is seen."""
    if isinstance(value, str):
        return value
    return "" if value is None else "." if value == 0 else f"{value:,}"


FACTS = [
    ("kind", "kind"),
    (">relative", "all_relative"),
    (">relr", "all_relr"),
    (">irelative", "all_irelative"),
    (">pages\u00a0written", "pages"),
    ("relro", "relro"),
    (">objects", "objects"),
    (">look-ups", "lookups"),
    (">cached", "cached"),
    (">probes", "probes"),
    (">failed\u00a0opens", "failed_opens"),
    (">segments", "segments"),
    (">init", "init_functions"),
]


def facts_table(outcomes: list[Outcome]) -> str:
    """What must be done for each setting, over all objects that are loaded. What is the same everywhere and says
    little takes no column."""
    facts = [o.facts for o in outcomes]
    wanted = [(h, k) for h, k in FACTS if worth(k, facts)]
    rows = [
        [o.setting.name, *(number(f.get(k)) for _, k in wanted), size(f)]
        for o, f in zip(outcomes, facts)
    ]
    return table(["setting", *(h.replace("\u00a0", " ") for h, _ in wanted), ">size"], rows)


# Shown even where they do not differ: the facts that are asked for first.
ALWAYS = {"kind", "all_relative", "pages", "relro", "objects", "lookups"}


def worth(key: str, facts: list[dict]) -> bool:
    """Whether a column tells anything."""
    return key in ALWAYS or len({f.get(key) for f in facts}) > 1


def size(facts: dict) -> str:
    """Bytes of the file."""
    kib = facts["size"] / 1024
    return f"{digits(kib)} KiB" if kib < 999.5 else f"{digits(kib / 1024)} MiB"


def times_table(done: Done, outcomes: list[Outcome]) -> str:
    """What each setting costs, against the base of the same rounds."""
    rows = []
    for o in outcomes:
        summary = o.benched["spawn_to_exit_ns"]
        low, high = summary["p50_ci95"] or (None, None)
        interval = f"[{time(low)}, {time(high)}]" if low is not None else ""
        rows.append([o.setting.name, time(summary["p50"]), interval, *against(done, o)])
    headers = ["setting", ">p50", "95 %", ">ratio", "95 %", ">difference", ">predicted", ">faults", "verdict"]
    return table(headers, rows)


def against(done: Done, o: Outcome) -> list[str]:
    """Ratio, interval, difference, predicted difference, faults, verdict."""
    faults = number(o.facts.get("faults"))
    versus = o.benched.get("vs_reference")
    if not versus:
        return ["", "", "", "", faults, "base"]
    low, high = versus["ratio_ci95"] or (float("nan"), float("nan"))
    predicted = predicted_difference(done.base, o)
    mark = {True: "", False: " !", None: ""}[prediction_holds(done.base, o)]
    mark = " ~" if why_not_judged(done.base, o) else mark
    return [
        f"{versus['ratio']:.3f}",
        f"[{low:.3f}, {high:.3f}]",
        signed(versus["difference_ns"]),
        "" if predicted is None else signed(predicted) + mark,
        faults,
        versus["verdict"],
    ]


def paragraph(text: str, indent: str = "  ") -> str:
    """Wrapped."""
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent) + "\n"


def ground(bench: dict) -> str:
    """Floor, noise and rounds, without which no figure means anything."""
    noise, setting = bench["noise"], bench["setting"]
    low, high = noise["aa_ratio_ci95"] or (float("nan"), float("nan"))
    return paragraph(
        f"{setting['rounds']} rounds, interleaved; spawn to exit, warm; floor {time(noise['control_p50_ns'])}; "
        f"the control against itself {low:.3f} to {high:.3f}; smallest difference called {100 * setting['delta']:.1f} %"
    )


def prediction_note(done: Done, outcomes: list[Outcome]) -> str:
    """How predictions did, or why there are none."""
    others = [o for o in outcomes if o is not done.base]
    if not any(o.predicted for o in others):
        reasons = {o.unpredicted for o in outcomes if o.unpredicted}
        return paragraph("no predicted column: " + "; ".join(sorted(reasons)))
    judged = [h for h in (prediction_holds(done.base, o) for o in others) if h is not None]
    out = ""
    if judged:
        marks = "" if all(judged) else " (! marks the others)"
        limits = "15 %, 20 µs or the measured interval"
        out = paragraph(f"predicted differences: {sum(judged)} of {len(judged)} within {limits}{marks}")
    for why in dict.fromkeys(w for w in (why_not_judged(done.base, o) for o in others) if w):
        out += paragraph(f"~ {why}: not judged")
    return out


def text(done: Done, with_commands: bool) -> str:
    """The whole page."""
    e = done.experiment
    out = f"{e.name}: {e.title}\n" + paragraph(e.question) + "\n"
    inspected = [o for o in done.outcomes if o.inspected]
    if inspected:
        out += facts_table(inspected) + "\n"
    measured = [o for o in done.outcomes if o.benched]
    if measured:
        out += times_table(done, measured) + "\n" + ground(done.bench) + prediction_note(done, measured)
    for o in done.outcomes:
        if o.refusal:
            out += paragraph(f"{o.setting.name}: does not start, and inspect says so: {o.refusal}")
    expected = sum(len(o.setting.expect) + bool(o.setting.sign) for o in done.outcomes if not o.skipped)
    complaints = done.complaints()
    if not complaints:
        out += paragraph(f"{expected} facts and signs are as they should be")
    out += "".join(f"  FAILED {c}\n" for c in complaints)
    out += "".join(f"  SKIPPED {s}\n" for s in done.skipped())
    if with_commands:
        out += commands(done)
    return out


def commands(done: Done) -> str:
    """How every setting was made; long lists of like commands are cut in the middle."""
    out = "\ncommands, in the experiment's directory; built with\n"
    out += "".join(f"  {t}\n" for t in done.tools)
    for o in done.outcomes:
        lines = o.commands
        if len(lines) > 6:
            lines = [*lines[:2], f"# {len(lines) - 4} more", *lines[-2:]]
        out += f"{o.setting.name}:\n" + "".join(f"  {line}\n" for line in lines)
        if o.argv:
            env = "".join(f"{k}={v} " for k, v in o.setting.env.items())
            out += f"  {env}{' '.join(o.argv)}\n"
    return out
