#!/usr/bin/env python3
"""Compares premain's traces with perf, strace and glibc's own LD_DEBUG, on programs of this machine.

  sums        phases follow DESIGN's order and sum to the total, by every back end
  faults      page faults against the median of `perf stat -e page-faults:u`, within 2 %, or 3 faults where that is more (ASLR moves them by one or two)
  syscalls    calls by name against `strace -f -c`, exactly; only programs that strace finds deterministic
  order       objects against LD_DEBUG=files
  share       relocation's share of the loader's time against LD_DEBUG=statistics, within 5 points
              (its cycles lose a digit, its percentages do not)
  distortion  observed median against the untraced one beside it, within 10 %

`share` and `distortion` look at times: they want a quiet machine.

Usage: trace.py [--premain PATH] [--only CHECK[,CHECK]] [--runs N]
"""

import argparse
import collections
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

PHASES = ["fork", "exec", "loader start", "map", "relocate", "construct", "runtime init", "main", "teardown"]
ENV = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "HOME": "/nonexistent"}
COMMANDS = [
    ["/bin/true"], ["/bin/ls", "/"], ["/bin/sh", "-c", "/bin/true; echo x"], ["/usr/bin/git", "--version"],
    ["/usr/bin/make", "--version"], ["/usr/bin/openssl", "version"], ["/usr/bin/perl", "-e", "1"],
    ["/usr/bin/gdb", "--version"], ["/usr/bin/clang", "--version"], ["/usr/bin/ld.lld", "--version"],
]
HEAVY = ("clang", "gdb", "ld.lld", "million")


def run(argv, **more):
    return subprocess.run(argv, env={**ENV, **more}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=300)


class Report:
    def __init__(self):
        self.bad = 0

    def line(self, check, name, ok, text):
        self.bad += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {check:<11} {name:<28} {text}", flush=True)


def trace(premain, argv, runs, backend="auto"):
    done = run([premain, "trace", "--json", "-i", "-r", str(runs), "--backend", backend, "--", *argv])
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["commands"][0]


def name(argv):
    return " ".join([os.path.basename(argv[0]), *argv[1:]])[:28]


def million(directory):
    """A PIE with a million relative relocations, eight bytes apart."""
    source, out = os.path.join(directory, "m.s"), os.path.join(directory, "million")
    with open(source, "w") as f:
        f.write(".data\n.globl main\ntgt:\n.rept 1000000\n.quad tgt\n.endr\n.text\nmain: xor %eax, %eax\nret\n"
                ".section .note.GNU-stack,\"\",@progbits\n")
    subprocess.run(["cc", "-pie", "-o", out, source], check=True)
    return [out]


def check_sums(report, premain, commands, runs):
    for argv in commands:
        for backend in ("auto", "ptrace"):
            c = trace(premain, argv, 3, backend)
            total = sum(p["ns"] for p in c["phases"])
            places = [PHASES.index(p["name"]) for p in c["phases"]]
            ok = total == c["total_ns"] and places == sorted(set(places))
            report.line("sums", name(argv), ok, f"{c['backend']}: {len(places)} phases, {total} of {c['total_ns']} ns")


def check_faults(report, premain, commands, runs):
    for argv in commands:
        seen = []
        for _ in range(21):
            done = run(["perf", "stat", "-x,", "-e", "page-faults:u", "--", *argv])
            line = [l for l in done.stderr.splitlines() if "page-faults" in l]
            seen.append(int(line[-1].split(",")[0]))
        c = trace(premain, argv, 5)
        ours = sum(p["page_faults"]["total"] for p in c["phases"]) + c["child_page_faults"]
        theirs = statistics.median(seen)
        ok = abs(ours - theirs) <= max(3, theirs * 0.02)
        report.line("faults", name(argv), ok, f"{ours} against {theirs:.0f}: {100 * (ours / theirs - 1):+.1f} %")


def strace_counts(argv):
    with tempfile.NamedTemporaryFile("r") as out:
        run(["strace", "-f", "-c", "-o", out.name, "--", *argv])
        counts = {}
        for line in out.read().splitlines():
            f = line.split()
            if len(f) in (5, 6) and f[-1] != "total" and f[3].isdigit():
                counts[f[-1]] = (int(f[3]), int(f[4]) if len(f) == 6 else 0)
        return counts


def check_syscalls(report, premain, commands, runs):
    for argv in commands:
        first, second = strace_counts(argv), strace_counts(argv)
        if first != second:
            print(f"skip syscalls    {name(argv):<28} strace itself counts differently from run to run")
            continue
        found = trace(premain, argv, 1)["syscalls"]["by_name"]
        ours = {n: (r["calls"], r["errors"]) for n, r in found.items()}
        differ = {n: (ours.get(n), first.get(n)) for n in set(ours) | set(first) if ours.get(n) != first.get(n)}
        # What rt_sigreturn gives back is the interrupted call's register: no error of its own.
        differ = {n: d for n, d in differ.items() if n != "rt_sigreturn" or not all(d) or d[0][0] != d[1][0]}
        calls = sum(n for n, _ in ours.values())
        report.line("syscalls", name(argv), not differ, f"{calls} calls of {len(ours)} names" + (f": {differ}" if differ else ""))


def check_order(report, premain, commands, runs):
    for argv in commands:
        with tempfile.TemporaryDirectory() as directory:
            run(argv, LD_DEBUG="files", LD_DEBUG_OUTPUT=os.path.join(directory, "d"))
            files = sorted(os.listdir(directory), key=lambda f: int(f.split(".")[-1]))
            if not files:
                continue
            with open(os.path.join(directory, files[0])) as f:
                text = f.read()
        theirs = []
        # Up to the program's own initialisation: what comes behind are plug-ins.
        for line in text.split("initialize program")[0].splitlines():
            m = re.search(r"file=(\S+) \[0\];\s+generating link map", line)
            if m:
                theirs.append(os.path.realpath(m[1]) if m[1].startswith("/") else m[1])
        c = trace(premain, argv, 1)
        ours = [os.path.basename(o["path"]) for o in c["objects"]]
        # The program is first and the loader, which the kernel mapped, second.
        ours = ours[2:]
        theirs = [resolve(n, c) for n in theirs]
        report.line("order", name(argv), ours == theirs, f"{len(ours)} libraries" + ("" if ours == theirs else f": {ours} against {theirs}"))


def resolve(needed, command):
    """The name of the file behind a DT_NEEDED name, from the paths that premain saw."""
    for o in command["objects"]:
        directory = os.path.dirname(o["path"])
        if os.path.realpath(os.path.join(directory, needed)) == os.path.realpath(o["path"]):
            return os.path.basename(o["path"])
    return needed


def statistics_share(argv):
    done = run(argv, LD_DEBUG="statistics")
    m = re.search(r"time needed for relocation: \d+ cycles \(([0-9.]+)%\)", done.stderr)
    return float(m[1]) if m else None


def check_share(report, premain, commands, runs):
    for argv in commands:
        if not os.path.basename(argv[0]).startswith(HEAVY):
            continue
        theirs = [s for s in (statistics_share(argv) for _ in range(runs)) if s is not None]
        c = trace(premain, argv, runs)
        ns = collections.defaultdict(int, {p["name"]: p["median_ns"] for p in c["phases"]})
        # glibc's total ends before constructors, and begins behind its own bootstrap.
        ours = 100 * ns["relocate"] / (ns["loader start"] + ns["map"] + ns["relocate"])
        expected = statistics.median(theirs)
        report.line("share", name(argv), abs(ours - expected) <= 5, f"{ours:.1f} % against {expected:.1f} %, {len(theirs)} runs")


def check_distortion(report, premain, commands, runs):
    for argv in commands:
        if os.path.basename(argv[0]) not in ("gdb", "clang"):
            continue
        c = trace(premain, argv, runs)
        untraced, traced = c["untraced_total_ns"], c["total_median_ns"]
        text = f"{traced / 1e6:.2f} ms against {untraced / 1e6:.2f} ms untraced: {100 * c['distortion']:+.1f} % ({c['backend']}, {c['marks']})"
        report.line("distortion", name(argv), abs(c["distortion"]) <= 0.10, text)


CHECKS = {
    "sums": (check_sums, []), "faults": (check_faults, ["perf"]), "syscalls": (check_syscalls, ["strace"]),
    "order": (check_order, []), "share": (check_share, ["cc"]), "distortion": (check_distortion, []),
}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--premain", default="target/premain")
    p.add_argument("--only", default=",".join(CHECKS))
    p.add_argument("--runs", type=int, default=31)
    options = p.parse_args()
    premain = os.path.abspath(options.premain)
    report = Report()
    with tempfile.TemporaryDirectory() as directory:
        commands = [c for c in COMMANDS if os.access(c[0], os.X_OK)]
        if shutil.which("cc") and os.uname().machine == "x86_64":
            commands.append(million(directory))
        for check in options.only.split(","):
            function, tools = CHECKS[check]
            missing = [t for t in tools if not shutil.which(t)]
            if missing:
                print(f"SKIPPED: {', '.join(missing)} is not installed", file=sys.stderr)
                report.bad += os.environ.get("CI") == "true"
                continue
            function(report, premain, commands, options.runs)
    print(f"{report.bad} differ")
    return 1 if report.bad else 0


if __name__ == "__main__":
    sys.exit(main())
