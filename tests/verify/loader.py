#!/usr/bin/env python3
"""Compares premain's closures with what the real loaders do, on the programs of this machine.

  counters   lookups, lookups_cached and relative_tagged against the first block of LD_DEBUG=statistics
  order      objects in load order against LD_TRACE_LOADED_OBJECTS=1 (glibc) and --list (musl)
  opens      failed opens and stats against strace of the loader in trace mode
  probes     against the "lookup in file" lines of LD_DEBUG=symbols
  bindings   which object each symbol is bound to against LD_DEBUG=bindings
  speed      the closure of clang against `ldd clang`, and programs a second of `survey /usr/bin`; on a quiet machine

No program's main runs: for `counters` and `probes` a copy is started whose first instructions at the entry point are
replaced by exit(0). The loader has printed its counters by then. Everything else runs the loader alone.

Usage: loader.py [--premain PATH] [--only CHECK] [--sample N] [FILE or DIRECTORY]...
"""

import argparse
import collections
import glob
import json
import os
import random
import re
import shutil
import statistics as statistics_module
import subprocess
import sys
import tempfile
import time

# xor edi, edi; mov eax, 231 (exit_group); syscall
EXIT_X86_64 = bytes.fromhex("31ffb8e70000000f05")


def elf_interp(path):
    """PT_INTERP of a 64-bit little-endian ELF file, or None."""
    try:
        with open(path, "rb") as f:
            head = f.read(64)
            if head[:4] != b"\x7fELF" or head[4] != 2 or head[5] != 1:
                return None
            phoff = int.from_bytes(head[32:40], "little")
            size, count = (int.from_bytes(head[a : a + 2], "little") for a in (54, 56))
            f.seek(phoff)
            table = f.read(size * count)
            for i in range(count):
                p = table[i * size : (i + 1) * size]
                if int.from_bytes(p[:4], "little") == 3:
                    f.seek(int.from_bytes(p[8:16], "little"))
                    return f.read(int.from_bytes(p[32:40], "little")).rstrip(b"\0").decode()
    except OSError:
        return None
    return None


def programs(paths):
    """Every dynamic program below the paths, each file once, by its own path."""
    seen, out = set(), []
    for path in paths:
        names = sorted(glob.glob(os.path.join(path, "*"))) if os.path.isdir(path) else [path]
        for name in names:
            real = os.path.realpath(name)
            if real in seen or not os.path.isfile(real) or not os.access(real, os.X_OK):
                continue
            seen.add(real)
            interp = elf_interp(real)
            if interp:
                out.append((real, interp))
    return out


def clean_env(**extra):
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "HOME": "/nonexistent"}
    env.update(extra)
    return env


class Check:
    def __init__(self, name, wanted):
        self.name, self.wanted = name, wanted
        self.same = 0
        self.different, self.skipped = [], collections.Counter()

    def result(self, path, ok, text=""):
        if ok:
            self.same += 1
        else:
            self.different.append((path, text))

    def report(self):
        total = self.same + len(self.different)
        share = self.same / total if total else 1.0
        verdict = "ok" if share >= self.wanted and total else "FAILED"
        print(f"{self.name}: {self.same} of {total} equal ({100 * share:.2f} %, wanted {100 * self.wanted:g} %): {verdict}")
        for reason, n in sorted(self.skipped.items()):
            print(f"  not compared: {n}: {reason}")
        for path, text in self.different:
            print(f"  differs: {path}: {text}")
        return verdict == "ok"


def harmless(path, cwd):
    """A copy of a program that ends at its entry point, with everything that $ORIGIN could lead to in place."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    if int.from_bytes(data[18:20], "little") != 62:
        return None
    entry, phoff = (int.from_bytes(data[a : a + 8], "little") for a in (24, 32))
    for i in range(int.from_bytes(data[56:58], "little")):
        p = data[phoff + 56 * i : phoff + 56 * (i + 1)]
        kind = int.from_bytes(p[:4], "little")
        offset, vaddr, filesz = (int.from_bytes(p[a : a + 8], "little") for a in (8, 16, 32))
        if kind == 1 and vaddr <= entry and entry + len(EXIT_X86_64) <= vaddr + filesz:
            at = offset + entry - vaddr
            data[at : at + len(EXIT_X86_64)] = EXIT_X86_64
            break
    else:
        return None
    home = os.path.join(cwd, "copy")
    shutil.rmtree(home, ignore_errors=True)
    directory = os.path.dirname(path)
    own = os.path.join(home, os.path.basename(directory))
    os.makedirs(own)
    for name in os.listdir(os.path.dirname(directory)):
        link = os.path.join(home, name)
        if not os.path.lexists(link):
            os.symlink(os.path.join(os.path.dirname(directory), name), link)
    copy = os.path.join(own, os.path.basename(path))
    with open(copy, "wb") as f:
        f.write(data)
    os.chmod(copy, 0o755)
    return copy


def debug_output(path, cwd, what):
    """What LD_DEBUG writes about a copy of a program; None where no copy can be made."""
    copy = harmless(path, cwd)
    if copy is None:
        return None
    out = os.path.join(cwd, "debug")
    env = clean_env(LD_DEBUG=what, LD_DEBUG_OUTPUT=out)
    run = subprocess.run([copy], cwd=cwd, env=env, timeout=60, stdin=subprocess.DEVNULL, capture_output=True)
    text = ""
    for name in glob.glob(out + ".*"):
        with open(name, errors="replace") as f:
            text += f.read()
        os.unlink(name)
    return text or run.stderr.decode(errors="replace")


def statistics(text):
    names = ("relocations", "relocations from cache", "relative relocations")
    numbers = [re.search(rf"number of {name}: (\d+)", text) for name in names]
    return [int(n.group(1)) for n in numbers] if all(numbers) else None


def check_counters(closures, cwd):
    check = Check("counters (LD_DEBUG=statistics)", 0.99)
    for path, interp, closure in closures:
        if "musl" in interp:
            continue
        text = debug_output(path, cwd, "statistics")
        if text is None:
            check.skipped["no harmless copy for this machine"] += 1
            continue
        real = statistics(text)
        fails = closure.get("fatal") or closure["unresolved"] or [m for m in closure["missing"] if not m["ignored"]]
        t = closure["totals"]
        mine = None if fails else [t["lookups"], t["lookups_cached"], t["relative_tagged"]]
        check.result(path, mine == real, f"premain {mine}, loader {real} {'' if real else text.strip()[-200:]}")
    return check


def traced_objects(path, interp, cwd):
    """(name, path) of every object in the order of the loader's list; path None where it is not found."""
    if "musl" in interp:
        run = subprocess.run([interp, "--list", path], cwd=cwd, env=clean_env(), capture_output=True, text=True)
    else:
        run = subprocess.run([interp, path], cwd=cwd, env=clean_env(LD_TRACE_LOADED_OBJECTS="1"), capture_output=True, text=True)
    out = []
    for line in run.stdout.splitlines():
        m = re.match(r"\t(?:(\S+) => )?(\S.*?) \(0x[0-9a-f]+\)$", line)
        if m:
            out.append((m.group(1) or m.group(2), m.group(2)))
        elif line.endswith("=> not found"):
            out.append((line.split(" => ")[0].strip(), None))
    return out, run


def check_order(closures, cwd):
    glibc, musl = Check("load order (LD_TRACE_LOADED_OBJECTS)", 1.0), Check("load order (musl --list)", 1.0)
    for path, interp, closure in closures:
        check = musl if "musl" in interp else glibc
        real, run = traced_objects(path, interp, cwd)
        if closure.get("fatal"):
            check.result(path, run.returncode != 0, f"premain expects {closure['fatal']}")
            continue
        listed = [p for _, p in real if p and "linux-vdso" not in p and "linux-gate" not in p]
        lost = sorted(n for n, p in real if p is None)
        mine = [o["path"] for o in closure["objects"][1:] if o["in_scope"] or check is musl]
        if check is musl:
            # musl names itself first.
            listed = [p for p in listed if p != interp]
            mine = [p for p in mine if p != interp]
            lost = re.findall(r"Error loading shared library (\S+): ", run.stderr)
            lost.sort()
        missing = sorted(m["name"] for m in closure["missing"] if not m["ignored"])
        ok = listed == mine and lost == missing
        check.result(path, ok, f"premain {mine} missing {missing}, loader {listed} missing {lost}")
    return [c for c in (glibc, musl) if c.same or c.different]


def check_opens(closures, cwd):
    check = Check("failed opens and stats (strace)", 0.99)
    if not shutil.which("strace"):
        print("SKIPPED: strace is not installed", file=sys.stderr)
        return None
    for path, interp, closure in closures:
        log = os.path.join(cwd, "strace")
        musl = "musl" in interp
        argv = [interp, "--list", path] if musl else [path]
        env = clean_env() if musl else clean_env(LD_TRACE_LOADED_OBJECTS="1")
        calls = "open,openat,stat,newfstatat,lstat"
        if not musl and os.stat(path).st_mode & 0o6000:
            check.skipped["privileged"] += 1
            continue
        command = ["strace", "-f", "-qq", "-o", log, "-e", "trace=" + calls]
        for key, value in env.items():
            command += ["-E", f"{key}={value}"]
        subprocess.run(command + argv, cwd=cwd, capture_output=True)
        with open(log, errors="replace") as f:
            failed = sum(1 for line in f if re.search(r"= -1 E", line))
        if closure.get("fatal"):
            check.skipped["the start fails"] += 1
            continue
        mine = closure["totals"]["failed_opens"]
        check.result(path, mine == failed, f"premain {mine}, strace {failed}")
    return check


def check_probes(closures, cwd, sample):
    exact, near = Check("probes, up to 10 objects (LD_DEBUG=symbols)", 1.0), Check("probes, more objects, within 0.5 %", 1.0)
    fit = [c for c in closures if "musl" not in c[1] and not c[2].get("fatal") and not c[2]["missing"]]
    random.Random(1).shuffle(fit)
    small = [c for c in fit if c[2]["totals"]["objects"] <= 10][:sample]
    large = [c for c in fit if c[2]["totals"]["objects"] > 10][:sample]
    for path, _, closure in small + large:
        text = debug_output(path, cwd, "symbols,statistics")
        check = exact if closure["totals"]["objects"] <= 10 else near
        if text is None or "number of relocations:" not in text:
            check.skipped["no statistics"] += 1
            continue
        real = text.split("runtime linker statistics")[0].count("lookup in file=")
        mine = closure["totals"]["probes"]
        ok = mine == real if check is exact else abs(mine - real) <= 0.005 * real
        check.result(path, ok, f"premain {mine}, loader {real}")
    return [exact, near]


def check_bindings(closures, cwd, sample, premain):
    check = Check("bindings (LD_DEBUG=bindings)", 1.0)
    fit = [c for c in closures if "musl" not in c[1] and not c[2].get("fatal") and not c[2]["missing"]]
    random.Random(2).shuffle(fit)
    for path, _, _ in fit[:sample]:
        text = debug_output(path, cwd, "bindings,statistics")
        if text is None or "number of relocations:" not in text:
            check.skipped["no statistics"] += 1
            continue
        home, own_home = os.path.join(cwd, "copy"), os.path.dirname(os.path.dirname(path))
        pattern = r"binding file (.*) \[0\] to (.*) \[0\]: \w+ symbol `(.*?)'(?: \[(.*)\])?$"
        real = collections.Counter()
        for source, target, symbol, version in re.findall(pattern, text.split("runtime linker statistics")[0], re.M):
            if "linux-vdso" not in source:
                names = [name.replace(home, own_home) for name in (source, target)]
                real[(*names, symbol, version or None)] += 1
        run = subprocess.run([premain, "inspect", "--jsonl", "--symbols=1", path], capture_output=True, text=True, env=clean_env())
        closure = json.loads(run.stdout)["closure"]
        objects = [o["path"] for o in closure["objects"]]
        mine = collections.Counter(
            (objects[b["object"]], objects[b["bound_to"]], b["symbol"], b["version"])
            for b in closure.get("bindings", [])
            if b["bound_to"] is not None
        )
        # What the loader looks up for itself has a term of its own.
        own = {"calloc", "free", "malloc", "realloc", "_r_debug", "__tunable_get_val"}
        extra = [b for b in (real - mine).elements() if b[2] not in own]
        lost = list((mine - real).elements())
        check.result(path, not extra and not lost, f"only the loader {extra[:3]}, only premain {lost[:3]}")
    return check


def seconds(command):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    return time.perf_counter() - start


def check_speed(premain):
    """Medians of one interleaved run."""
    ok = True
    clang = shutil.which("clang")
    if clang and shutil.which("ldd"):
        theirs, ours = ["ldd", clang], [premain, "inspect", "--json", clang]
        pairs = [(seconds(theirs), seconds(ours)) for _ in range(31)]
        ratio = statistics_module.median(b / a for a, b in pairs)
        a, b = (1e3 * statistics_module.median(column) for column in zip(*pairs))
        verdict = "ok" if ratio <= 2 else "FAILED"
        print(f"closure of {clang}: {b:.1f} ms, ldd {a:.1f} ms, ratio {ratio:.2f} (wanted at most 2): {verdict}")
        ok &= ratio <= 2
    survey = [premain, "survey", "/usr/bin", "--jsonl"]
    run = subprocess.run(survey, capture_output=True, text=True)
    count = sum(1 for line in run.stdout.splitlines() if '"closure"' in line)
    rate = count / statistics_module.median(seconds(survey) for _ in range(7))
    verdict = "ok" if rate >= 1000 else "FAILED"
    print(f"survey /usr/bin: {rate:.0f} programs a second, {count} of them, {os.cpu_count()} processors (wanted 1000): {verdict}")
    return ok and rate >= 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--premain", default=os.environ.get("PREMAIN", "target/release/premain"))
    parser.add_argument("--lines", help="a program that prints one {path, closure} a line for the paths on its standard input")
    parser.add_argument("--only", action="append")
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("paths", nargs="*")
    args = parser.parse_args()
    paths = args.paths or ["/usr/bin", "/usr/sbin"] + sorted(glob.glob("/usr/lib/llvm-*/bin"))
    found = programs(paths)
    names = [p for p, _ in found]
    with tempfile.TemporaryDirectory() as cwd:
        if args.lines:
            run = subprocess.run([args.lines, "-"], input="\n".join(names), capture_output=True, text=True, env=clean_env(), cwd=cwd)
        else:
            premain = [os.path.abspath(args.premain), "inspect", "--jsonl", "--", *names]
            run = subprocess.run(premain, capture_output=True, text=True, env=clean_env(), cwd=cwd)
        facts = {d["path"]: d for d in map(json.loads, run.stdout.splitlines())}
        closures = []
        for path, interp in found:
            if "closure" not in facts.get(path, {}):
                print(f"  no closure: {path}: {facts.get(path)}")
                continue
            closures.append((path, interp, facts[path]["closure"]))
        print(f"{len(closures)} programs below {' '.join(paths)}")
        wanted = lambda name: not args.only or name in args.only
        checks = []
        if wanted("order"):
            checks += check_order(closures, cwd)
        if wanted("opens"):
            checks.append(check_opens(closures, cwd))
        if wanted("counters"):
            checks.append(check_counters(closures, cwd))
        if wanted("probes"):
            checks += check_probes(closures, cwd, args.sample)
        if wanted("bindings") and not args.lines:
            checks.append(check_bindings(closures, cwd, args.sample, os.path.abspath(args.premain)))
    ok = [c.report() for c in checks if c]
    if wanted("speed") and not args.lines:
        ok.append(check_speed(os.path.abspath(args.premain)))
    sys.exit(0 if all(ok) else 1)


if __name__ == "__main__":
    main()
