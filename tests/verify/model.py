#!/usr/bin/env python3
"""Checks the host model on the programs of a directory: prediction against measurement, from execve to entry point.

The list is made here, without a look at any figure: every ELF program of the directory (each file once) that ends with 0
within half a second for --version or --help, in the order of a hash of its path. Programs at even places were used to
choose DEVIATION in src/model/predict.rs; those at odd places took no part in anything and are what is judged.

    model.py PREMAIN [--dir /usr/bin] [--fifo] [--calibrate 50s] [--measure 120s] [--out FILE]

Exit code 1 where a limit is missed: median absolute error 8 %, 90th percentile 20 %, coverage of the 95 % interval
between 90 and 99 %.
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys


def programs(directory):
    found = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.realpath(os.path.join(directory, name))
        try:
            with open(path, "rb") as f:
                magic = f.read(4)
        except OSError:
            continue
        if magic == b"\x7fELF" and os.access(path, os.X_OK):
            found[path] = hashlib.sha256(path.encode()).hexdigest()
    return [p for p in sorted(found, key=found.get) if answers(p)]


def answers(path):
    for flag in ("--version", "--help"):
        try:
            done = subprocess.run([path, flag], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=0.5, start_new_session=True)
        except (subprocess.TimeoutExpired, OSError):
            continue
        if done.returncode == 0:
            return True
    return False


def quantile(values, p):
    values = sorted(values)
    at = p * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def summary(files):
    errors = [f["error"] for f in files]
    return {
        "programs": len(files),
        "median_absolute_error": statistics.median(abs(e) for e in errors),
        "p90_absolute_error": quantile([abs(e) for e in errors], 0.9),
        "bias": statistics.median(errors),
        "coverage": sum(f["inside"] for f in files) / len(files),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("premain")
    parser.add_argument("--dir", default="/usr/bin")
    parser.add_argument("--list", help="take the list from this file instead of making it")
    parser.add_argument("--fifo", action="store_true", help="run under SCHED_FIFO: for a machine with other work")
    parser.add_argument("--calibrate", default="50s")
    parser.add_argument("--measure", default="120s")
    parser.add_argument("--model", default="model-verify.json")
    parser.add_argument("--out")
    args = parser.parse_args()
    if args.list:
        with open(args.list) as f:
            paths = f.read().split("\n")[:-1]
    else:
        paths = programs(args.dir)
    prefix = ["chrt", "-f", "40"] if args.fifo else []
    run = lambda *words: subprocess.run([*prefix, args.premain, *words], check=True, stdout=subprocess.PIPE).stdout
    model = json.loads(run("calibrate", "--json", "--model", args.model, "--budget", args.calibrate, *paths))
    checked = json.loads(run("predict", "--check", "--json", "--model", args.model, "--budget", args.measure, *paths))
    place = {p: i for i, p in enumerate(paths)}
    halves = [[], []]
    for f in checked["files"]:
        halves[place[f["path"]] % 2].append(f)
    judged = summary(halves[1])
    limits = {"median_absolute_error": 0.08, "p90_absolute_error": 0.20, "coverage": [0.90, 0.99]}
    met = (judged["median_absolute_error"] <= 0.08 and judged["p90_absolute_error"] <= 0.20
           and 0.90 <= judged["coverage"] <= 0.99)
    result = {
        "judged": judged,
        "used_for_deviation": summary(halves[0]),
        "limits": limits,
        "met": met,
        "drift": checked["summary"]["drift"],
        "rounds": checked["summary"]["rounds"],
        "host": {**model["model"]["host"], "processors": os.cpu_count(), "load_average": os.getloadavg(),
                 "fifo": args.fifo, "machine": platform.machine(), "libc": " ".join(platform.libc_ver())},
        "skipped": checked["skipped"],
        "programs": [{"path": f["path"], "place": place[f["path"]], "predicted_ns": f["predicted_ns"]["value"],
                      "ci95": f["predicted_ns"]["ci95"], "measured_ns": f["measured_ns"],
                      "error": round(f["error"], 4)} for f in checked["files"]],
    }
    text = json.dumps({k: v for k, v in result.items() if k not in ("programs", "skipped")}, indent=1)
    print(text)
    if args.out:
        with open(args.out, "w") as f:
            programs_text = ",\n  ".join(json.dumps(p) for p in result.pop("programs"))
            head = json.dumps(result, indent=1)
            f.write(head[:-2] + ',\n "programs": [\n  ' + programs_text + "\n ]\n}\n")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
