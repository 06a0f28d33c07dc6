#!/usr/bin/env python3
"""Does `premain check` find a planted regression of 5 %, and none where there is none, on a machine that is loaded half
of the time?

usage: check_power.py PREMAIN [RUNS]

A program that spins for some milliseconds of fixed work is saved as a baseline. Then RUNS times (20) with 5 % more
work, and RUNS times without, `premain check` runs at its default settings, while for half of each run (the first half
and the second by turns) one busy process per processor competes with it. Wanted: exit 1 in at least 19 of 20 with,
and never without. Prints each run, and ends with 1 where a bound is broken. Needs cc.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

premain = os.path.abspath(sys.argv[1])
runs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "spin.c")
work = 2_000_000
here = tempfile.mkdtemp(prefix="premain-check-power-")
os.chdir(here)


def compile_spin(out, steps):
    subprocess.run(["cc", "-O2", f"-DWORK={steps}", "-o", out, source], check=True)


def install(name):
    shutil.copy(name, "app.new")
    os.replace("app.new", "app")


def check(load_first):
    """One check at default settings with the load in one half of it."""
    command = [premain, "check", "baseline.json", "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # The default budget is 10 s.
    if not load_first:
        time.sleep(5.2)
    load = [subprocess.Popen(["./load"], stdout=subprocess.DEVNULL) for _ in range(os.cpu_count())]
    time.sleep(5.0)
    for process in load:
        process.kill()
        process.wait()
    out, err = child.communicate()
    if child.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit {child.returncode}: {err.strip()}")
    return child.returncode, json.loads(out)


compile_spin("same", work)
compile_spin("slow", work + work // 20)
compile_spin("load", -1)
install("same")
subprocess.run([premain, "bench", "-r", "60", "--save-baseline", "baseline.json", "--keep-binaries", "keep", "./app"],
               check=True, stdout=subprocess.DEVNULL)
version = subprocess.run([premain, "--version"], capture_output=True, text=True).stdout.strip()
print(f"{version}; {os.uname().release}, {os.cpu_count()} processors, load before {os.getloadavg()[0]:.1f}")
found = {}
for name in ["slow", "same"]:
    install(name)
    found[name] = 0
    for i in range(runs):
        code, d = check(i % 2 == 0)
        found[name] += code == 1
        gate = d["gates"][0]
        pair = gate["paired"]
        low, high = pair["ratio_ci95"]
        print(f"{name} {i + 1:2}: exit {code}, {gate['outcome']}: {pair['ratio']:.4f} [{low:.4f}, {high:.4f}], "
              f"{pair['pairs']} pairs, limit {gate['limit'] * 100:.1f} %, baseline {gate['baseline'] / 1e6:.2f} ms, "
              f"load {os.getloadavg()[0]:.1f}", flush=True)
ok = found["slow"] >= runs * 19 // 20 and found["same"] == 0
print(f"{'ok' if ok else 'NOT OK'}: 5 % more work found in {found['slow']} of {runs}, "
      f"a regression called without any in {found['same']} of {runs}")
shutil.rmtree(here)
sys.exit(0 if ok else 1)
