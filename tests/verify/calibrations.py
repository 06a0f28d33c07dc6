#!/usr/bin/env python3
"""Calibrates twice, and compares: each cost with the other run's, and with figures that others measured elsewhere.

    calibrations.py PREMAIN [--budget 45s] [--out FILE]

Two costs agree where they differ by less than 10 %, or their 95 % intervals overlap. Exit code 1 where two do not, or
where one is ten times as large or small as published (a glibc program on a virtual machine of 2025, see PUBLISHED).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

SHARE = 0.10
FACTOR = 10.0

# Nanoseconds; what each is made of in the model's terms. The published look-up is of 10,000 names in no order, a library
# is one with four look-ups and one page written, behind DT_HASH a name is compared for each object asked.
PUBLISHED = {
    "page written": (2_150, {"page written": 1}),
    "failed open": (2_000, {"failed open": 1}),
    "relative relocation, dense": (4, {"relative": 1}),
    "packed relative relocation": (0.6, {"relr": 1}),
    "look-up": (74, {"lookup": 1, "line": 2}),
    "further object asked": (5.9, {"probe": 1, "line again": 1}),
    "further object asked, DT_HASH": (67, {"name sysv": 2, "line again": 4}),
    "cached look-up": (3.5, {"cached": 1}),
    "library": (42_000, {"object": 1, "page read": 3, "page written": 1, "lookup": 4, "relro": 1}),
    "IRELATIVE": (5, {"irelative": 1}),
    "init function": (2.7, {"constructor": 1}),
    "segment": (1_600, {"segment": 1}),
    "CPUID": (5_400, {"cpuid": 1}),
}


def calibrate(premain, budget, model):
    words = [premain, "calibrate", "--json", "--budget", budget, "--model", model]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)["model"]


def costs(model):
    """(family, term) to (cost, interval), to the entry point."""
    found = {(t["family"], t["name"]): (t["unit_ns"], t["ci95"]) for t in model["terms"]}
    if model["cpuid_ns"]:
        found["", "cpuid"] = (model["cpuid_ns"], [model["cpuid_ns"]] * 2)
    return found


def agree(a, b):
    (x, (low_x, high_x)), (y, (low_y, high_y)) = a, b
    return abs(x - y) <= SHARE * max(x, y) or (low_x <= high_y and low_y <= high_x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("premain")
    parser.add_argument("--budget", default="45s")
    parser.add_argument("--out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        models = [calibrate(args.premain, args.budget, os.path.join(directory, name)) for name in ("a", "b")]
    first, second = map(costs, models)
    lines, apart = [], 0
    for key in first:
        ok = agree(first[key], second[key])
        apart += not ok
        a, b = first[key], second[key]
        ratio = f"{b[0] / a[0]:.3f}" if a[0] > 0 else "-"
        lines.append(f"{' '.join(key).strip():28} {a[0]:12.2f} {b[0]:12.2f} ns  {ratio:>6}  {'agree' if ok else 'APART'}")
    lines.append(f"{len(first) - apart} of {len(first)} costs agree: within 10 %, or their 95 % intervals overlap")
    far = 0
    for name, (published, parts) in PUBLISHED.items():
        terms = [first.get(("glibc", t)) or first.get(("", t)) for t in parts]
        if None in terms:
            lines.append(f"{name}: not measured here")
            continue
        here = sum(cost * n for (cost, _), n in zip(terms, parts.values()))
        ok = published / FACTOR <= here <= published * FACTOR
        far += not ok
        lines.append(f"{name:30} {here:12.2f} ns here, {published:10} published  {'' if ok else 'FAR'}")
    lines.append(f"{len(PUBLISHED) - far} of {len(PUBLISHED)} within a factor of ten of what others measured elsewhere")
    text = "\n".join([f"host: {json.dumps(models[0]['host'])}, load {os.getloadavg()[0]:.2f}", *lines]) + "\n"
    print(text, end="")
    if args.out:
        with open(args.out, "w") as file:
            file.write(text)
    sys.exit(1 if apart or far else 0)


if __name__ == "__main__":
    main()
