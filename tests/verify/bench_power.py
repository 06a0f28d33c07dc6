#!/usr/bin/env python3
"""Does `premain bench` call what is there, and only that?

usage: bench_power.py PREMAIN

1. A/A: the same program against itself, 40 times at 150 rounds: "faster" or "slower" at most twice.
2. A known effect: 8 KiB more environment, 20 times at 400 rounds with --delta 0: "slower" at least 18 times.
3. 10,000 starts: no sample below half of the control's smallest; our own peak memory below 4 MiB.

Prints what was found and ends with 1 where a bound is broken.
"""
import json
import os
import subprocess
import sys

premain = sys.argv[1]
program = "/bin/true"
failed = False


def bench(*args):
    command = [premain, "bench", "--json", "--probes", "0", *args]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def report(name, ok, text):
    global failed
    failed = failed or not ok
    print(f"{'ok' if ok else 'NOT OK'}: {name}: {text}", flush=True)


def verdicts(n, *args):
    seen, ratios = {}, []
    for seed in range(n):
        d = bench("--seed", str(seed), *args)
        versus = d["commands"][1]["vs_reference"]
        seen[versus["verdict"]] = seen.get(versus["verdict"], 0) + 1
        ratios.append(versus["ratio"])
    ratios.sort()
    return seen, ratios


print(f"host: {os.uname().release}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
seen, ratios = verdicts(40, "-r", "150", program, program)
wrong = seen.get("faster", 0) + seen.get("slower", 0)
report("A/A, 40 x 150 rounds", wrong <= 2, f"{seen}; ratios {ratios[0]:.3f} to {ratios[-1]:.3f}")

pad = "2:PAD=" + "x" * 8192
seen, ratios = verdicts(20, "-r", "400", "--delta", "0", "--env-for", pad, program, program)
report("8 KiB of environment, 20 x 400 rounds", seen.get("slower", 0) >= 18,
       f"{seen}; median ratio {ratios[len(ratios) // 2]:.4f}")

d = bench("-r", "3334", "--samples", program)
floor = min(min(c["spawn_to_exit_ns"]) for c in d["control_samples"])
least = min(d["commands"][0]["samples"]["spawn_to_exit_ns"] + sum((c["spawn_to_exit_ns"] for c in d["control_samples"]), []))
report("10,000 starts, smallest sample", least >= floor / 2, f"{least} ns, the control's smallest {floor} ns")
own = d["setting"]["own_max_rss_bytes"]
report("10,000 starts, our own peak memory", own < 4 << 20, f"{own} bytes")
sys.exit(1 if failed else 0)
