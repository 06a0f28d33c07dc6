#!/usr/bin/env python3
"""Compares premain's link facts with what GNU readelf and llvm-readelf read, on all ELF files of this machine.

  types     relocation records by type number, RELR offsets: `readelf -rW`, every file
  header    kind's ingredients, interpreter, NEEDED, RUNPATH, RPATH, SONAME, TLS, BIND_NOW, TEXTREL, init arrays:
            `readelf -hldW`, every file
  packed    RELR and Android's APS2, written by lld for seven machines: `llvm-readelf -r`
  stripped  the same figures without section headers
  machines  REL and RELA of eleven machines, written by lld: `llvm-readelf -r`
  pages     pages written against copy-on-write faults that perf counts inside the loader
  speed     link facts of a program with a million relocations and of LLVM's library against `eu-readelf -r`

Usage: elf.py [--premain PATH] [--only CHECK] [FILE or DIRECTORY]...

Ends with 1 where anything differs, and lists it. A check whose tools are missing says SKIPPED; under CI=true it fails.
"""

import argparse
import collections
import glob
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

failures = 0


def need(*tools):
    missing = [t for t in tools if not shutil.which(t)]
    if missing and os.environ.get("CI") == "true":
        sys.exit(f"{missing[0]} is not installed, and CI must not skip")
    for tool in missing:
        print(f"SKIPPED: {tool} is not installed", file=sys.stderr)
    return not missing


def output(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode(errors="replace")


def report(name, checked, bad, limit=10):
    global failures
    failures += len(bad)
    verdict = "ok" if not bad else "NOT OK"
    print(f"{verdict}: {name}: {checked - len(bad)} of {checked} equal", flush=True)
    for line in bad[:limit]:
        print(f"  {line}")


def elf_files(paths):
    """ELF programs and libraries, each file once. Object files are the linker's business."""
    seen = set()
    for path in paths:
        names = [path] if os.path.isfile(path) else [os.path.join(d, f) for d, _, fs in os.walk(path) for f in sorted(fs)]
        for name in names:
            try:
                info = os.stat(name)
                if (info.st_dev, info.st_ino) in seen or not os.path.isfile(name):
                    continue
                with open(name, "rb") as f:
                    head = f.read(20)
            except OSError:
                continue
            order = "big" if head[5:6] == b"\x02" else "little"
            if head[:4] == b"\x7fELF" and int.from_bytes(head[16:18], order) in (2, 3):
                seen.add((info.st_dev, info.st_ino))
                yield name


def inspect(premain, files):
    """Facts by path, in batches that fit a command line."""
    facts = {}
    for i in range(0, len(files), 200):
        for line in output(premain, "inspect", "--jsonl", "--no-closure", *files[i : i + 200]).splitlines():
            entry = json.loads(line)
            path = entry["path"]
            facts[path if isinstance(path, str) else path["lossy"]] = entry
    return facts


RECORD = re.compile(r"^([0-9a-f]{8,16}) +([0-9a-f]{8,16}) +R_")


def readelf_types(path, tool="readelf"):
    """Counts by type number, and the number of RELR offsets."""
    types, relr = collections.Counter(), 0
    for line in output(tool, "-rW", path).splitlines():
        if m := RECORD.match(line.strip()):
            info = int(m.group(2), 16)
            # 32-bit files have 8 bits of type, 64-bit ones 32.
            types[info & (0xFF if len(m.group(1)) == 8 else 0xFFFFFFFF)] += 1
        elif m := re.match(r"^ +(\d+) offsets", line):
            relr += int(m.group(1))
    return types, relr


def our_types(facts):
    return collections.Counter({t["type"]: t["count"] for t in facts["elf"]["relocation_types"]})


def check_types(premain, files):
    if not need("readelf"):
        return
    facts, bad = inspect(premain, files), []
    for path in files:
        theirs, relr = readelf_types(path)
        f = facts.get(path, {})
        if "unreadable" in f or not f:
            bad.append(f"{path}: {f.get('unreadable', 'no line')}")
        elif our_types(f) != theirs or f["relocations"]["relr"] != relr:
            bad.append(f"{path}: types {dict(our_types(f))} {dict(theirs)}, relr {f['relocations']['relr']} {relr}")
    report("relocation records by type, and RELR", len(files), bad)


def tag(text, name):
    return re.findall(rf"\({name}\) +(.*)", text)


def in_brackets(values):
    return [re.search(r"\[(.*)\]", v).group(1) for v in values if re.search(r"\[(.*)\]", v)]


def expected_header(path):
    text = output("readelf", "-hldW", path)
    word = 8 if "ELF64" in text else 4
    interp = re.search(r"Requesting program interpreter: (.*)\]", text)
    tls = re.search(r"^ +TLS +\S+ \S+ \S+ \S+ (\S+)", text, re.M)
    flags, flags_1 = " ".join(tag(text, "FLAGS")), " ".join(tag(text, "FLAGS_1"))
    size = lambda name: sum(int(v.split()[0]) for v in tag(text, name)) // word
    split = lambda values: [part for v in values for part in v.split(":")] if values and values[0] else []
    dynamic = "Dynamic section at offset" in text
    return {
        "interp": interp.group(1) if interp else None,
        "needed": in_brackets(tag(text, "NEEDED")),
        "runpath": split(in_brackets(tag(text, "RUNPATH"))),
        "rpath": split(in_brackets(tag(text, "RPATH"))),
        "soname": (in_brackets(tag(text, "SONAME")) or [None])[0],
        "tls_bytes": int(tls.group(1), 16) if tls else 0,
        "bind_now": "BIND_NOW" in flags or "NOW" in flags_1.split() or bool(tag(text, "BIND_NOW")),
        "textrel": "TEXTREL" in flags or bool(tag(text, "TEXTREL")),
        "init_array": size("INIT_ARRAYSZ") if dynamic else None,
        "has_init": bool(tag(text, "INIT")) if dynamic else None,
        "hash": (["gnu"] if tag(text, "GNU_HASH") else []) + (["sysv"] if tag(text, "HASH") else []),
        "relative_tagged": sum(int(v) for name in ("RELACOUNT", "RELCOUNT") for v in tag(text, name)),
    }


def check_header(premain, files):
    if not need("readelf"):
        return
    facts, bad = inspect(premain, files), []
    for path in files:
        f = facts.get(path, {})
        if "unreadable" in f or not f:
            bad.append(f"{path}: {f.get('unreadable', 'no line')}")
            continue
        if any("debug file" in w for w in f["warnings"]):
            continue
        ours = dict(f, init_array=f["init"]["init_array"], has_init=f["init"]["has_init"])
        ours["relative_tagged"] = f["elf"]["relative_tagged"]
        for field, theirs in expected_header(path).items():
            if field in ("init_array", "has_init") and theirs is None:
                continue
            if ours[field] != theirs:
                bad.append(f"{path}: {field}: {ours[field]} {theirs}")
    report("header facts", len(files), bad)


SOURCE = """
extern int data; extern int f(void); static int own; int *a = &own, *b = &own, *c = &data; static int (*table[40])(void);
int *more[40] = { &own, &own, &own, &own, &own, &own, &own, &own, &own, &own };
int g(void) { return f() + data + (int)(long)table; }
"""

TARGETS = [
    "x86_64-linux-gnu", "i386-linux-gnu", "aarch64-linux-gnu", "aarch64_be-linux-gnu", "arm-linux-gnueabihf",
    "riscv64-linux-gnu", "powerpc64le-linux-gnu", "powerpc64-linux-gnu", "powerpc-linux-gnu", "mips-linux-gnu",
    "mipsel-linux-gnu", "mips64-linux-gnuabi64", "mips64el-linux-gnuabi64",
]
# Machines for which lld packs relative relocations.
PACKS = ["x86_64", "i386", "aarch64-", "arm-", "riscv64", "powerpc64le"]


def newest(name):
    """The tool, or its highest version: LLVM's come with a number in their name."""
    found = [t for t in [name] + [f"{name}-{v}" for v in range(30, 10, -1)] if shutil.which(t)]
    return found[-1] if name == "ld.lld" and shutil.which(name) else (found or [name])[0]


def build(directory, target, *flags):
    """A shared library, or None where this compiler or linker does not know the machine."""
    base = os.path.join(directory, target)
    with open(base + ".c", "w") as f:
        f.write(SOURCE)
    compiled = subprocess.run([newest("clang"), f"--target={target}", "-fPIC", "-O1", "-c", base + ".c", "-o", base + ".o"],
                              capture_output=True, check=False)
    out = base + "-".join(f.strip("-") for f in flags).replace("=", "-") + ".so"
    linked = compiled.returncode == 0 and subprocess.run(
        [newest("ld.lld"), "-shared", base + ".o", "-o", out, *flags], capture_output=True, check=False).returncode == 0
    return out if linked else None


def llvm_counts(path):
    """Records by type name, RELR and packed ones decoded."""
    names = collections.Counter()
    for line in output(newest("llvm-readelf"), "-r", path).splitlines():
        if m := re.match(r"^[0-9a-f]{8,16} +[0-9a-f]{8,16} +(R_\w+)(.*)", line.strip()):
            # MIPS has one type for both: without a symbol it is relative.
            relative = m.group(1) == "R_MIPS_REL32" and not m.group(2).strip(" /R_MIPSNOE64")
            names["R_MIPS_RELATIVE" if relative else m.group(1)] += 1
    return names


def class_of(name):
    for part, word in (("IRELATIV", "irelative"), ("RELATIVE", "relative"), ("GLOB_DAT", "glob_dat"),
                       ("JUMP_SLOT", "jump_slot"), ("JMP_SLOT", "jump_slot"), ("COPY", "copy"), ("NONE", "none")):
        if part in name:
            return word
    return "tls" if re.search("TLS|DTP|TPREL|TPOFF", name) else "absolute"


def check_built(premain, name, builds):
    """Sums by class, with relative and RELR together, since llvm-readelf prints both as records of the relative type."""
    checked, bad = 0, []
    for label, path in builds:
        if not path:
            continue
        checked += 1
        f = inspect(premain, [path])[path]
        theirs = collections.Counter()
        for kind, count in llvm_counts(path).items():
            theirs[class_of(kind)] += count
        r = f["relocations"]
        ours = collections.Counter({k: v for k, v in r.items() if k not in ("total", "table_bytes", "relr") and v})
        ours["relative"] += r["relr"]
        if +ours != +theirs or len(+theirs) < 2:
            bad.append(f"{label}: ours {dict(+ours)}, llvm-readelf {dict(+theirs)}")
    report(f"{name}, against llvm-readelf", checked, bad)
    if checked == 0:
        print(f"SKIPPED: {name}: clang and lld here build none of these machines", file=sys.stderr)


def check_machines(premain, _files):
    if not need(newest("clang"), newest("ld.lld"), newest("llvm-readelf")):
        return
    with tempfile.TemporaryDirectory() as d:
        check_built(premain, "machines", [(t, build(d, t)) for t in TARGETS])


def check_packed(premain, _files):
    if not need(newest("clang"), newest("ld.lld"), newest("llvm-readelf")):
        return
    with tempfile.TemporaryDirectory() as d:
        packers = ["--pack-dyn-relocs=relr", "--pack-dyn-relocs=android", "--pack-dyn-relocs=android+relr"]
        targets = [t for t in TARGETS if t.startswith(tuple(PACKS))]
        check_built(premain, "RELR and Android", [(f"{t} {p}", build(d, t, p)) for t in targets for p in packers])


def without_sections(path, out):
    data = bytearray(open(path, "rb").read())
    wide, order = data[4] == 2, "little" if data[5] == 1 else "big"
    shoff, size = (40, 8) if wide else (32, 4)
    data[shoff : shoff + size] = bytes(size)
    shnum = 60 if wide else 48
    data[shnum : shnum + 4] = (0).to_bytes(2, order) * 2
    with open(out, "wb") as f:
        f.write(data)


def check_stripped(premain, files):
    bad, checked = [], 0
    drop = ("path", "warnings", "kind", "init")
    with tempfile.TemporaryDirectory() as d:
        for path in files:
            size = os.path.getsize(path)
            if size > 64 << 20:
                continue
            out = os.path.join(d, "stripped")
            without_sections(path, out)
            whole, bare = inspect(premain, [path])[path], inspect(premain, [out])[out]
            if "unreadable" in whole or any("debug file" in w for w in whole["warnings"]):
                continue
            checked += 1
            same = [k for k in whole if k not in drop and whole[k] != bare.get(k)]
            if whole["kind"] != bare.get("kind") or same:
                bad.append(f"{path}: {whole['kind']} {bare.get('kind')} {same}")
    report("the same without section headers", checked, bad)


# xor edi, edi; mov eax, 231 (exit_group); syscall
EXIT_X86_64 = bytes.fromhex("31ffb8e70000000f05")
MOST_PROGRAMS = 60


def ends_at_entry(path, facts, out):
    """A copy that exits at its entry point, where the loader has done its work. False where there is none."""
    data = bytearray(open(path, "rb").read())
    entry = facts["elf"]["entry"]
    for s in facts["elf"]["segments"]:
        if s["kind"] == "load" and s["vaddr"] <= entry < s["vaddr"] + s["file_bytes"]:
            at = entry - s["vaddr"] + s["offset"]
            data[at : at + len(EXIT_X86_64)] = EXIT_X86_64
            with open(out, "wb") as f:
                f.write(data)
            os.chmod(out, 0o755)
            return True
    return False


def faults(program, directory, library_path=""):
    """Start of each mapped file, and (address, file of the instruction) of each page fault."""
    env = dict(os.environ, LD_LIBRARY_PATH=library_path) if library_path else None
    data = os.path.join(directory, "perf.data")
    subprocess.run(["perf", "record", "-q", "-e", "page-faults", "-c", "1", "-d", "-o", data, program],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, env=env)
    text = output("perf", "script", "-i", data, "-F", "comm,ip,addr,dso", "--show-mmap-events")
    bases, hits = {}, []
    for line in text.splitlines():
        if m := re.search(r"\[0x([0-9a-f]+)\(0x[0-9a-f]+\) @ (0x[0-9a-f]+|0) .*\]: \S+ (/\S+)", line):
            if int(m.group(2), 16) == 0:
                bases.setdefault(os.path.realpath(m.group(3)), int(m.group(1), 16))
        elif m := re.search(r"([0-9a-f]+) \(.*?\) +([0-9a-f]+) .*\(([^()]*)\)$", line):
            hits.append((int(m.group(1), 16), int(m.group(2), 16), m.group(3)))
    return bases, hits


def other_writes(facts):
    """Pages of the image that the loader writes for other reasons: it adds the load address to entries of the dynamic
    table, and fills the rest of the last page of the file's data with zeros."""
    pages = set()
    for s in facts["elf"]["segments"]:
        if s["kind"] == "dynamic":
            pages |= set(range(s["vaddr"] >> 12, (s["vaddr"] + s["memory_bytes"] - 1 >> 12) + 1))
        elif s["kind"] == "load" and "w" in s["flags"] and s["memory_bytes"] > s["file_bytes"]:
            pages.add(s["vaddr"] + s["file_bytes"] >> 12)
    return pages


def pages_of_program(premain, path, directory):
    """(predicted, observed) pages over all objects but the loader, or None where that cannot be had."""
    document = json.loads(output(premain, "inspect", "--json", path) or "{}")
    entry = (document.get("files") or [{}])[0]
    closure = entry.get("closure") or {}
    if entry.get("kind") not in ("pie", "exec"):
        return None
    if not closure.get("loader") or closure["missing"] or closure["fatal"] or "unreadable" in entry:
        return None
    if not 10 <= closure["totals"]["pages_written"] <= 2000:
        return None
    # The copy lies elsewhere: it finds the same libraries by other means.
    origin = os.path.dirname(os.path.realpath(path))
    own = [d.replace("$ORIGIN", origin) for d in entry["runpath"] if "$ORIGIN" in d]
    copy = os.path.join(directory, "program")
    if not ends_at_entry(path, entry, copy):
        return None
    bases, hits = faults(copy, directory, ":".join(own))
    predicted = observed = 0
    for o in closure["objects"]:
        if o["found_by"] == "interpreter":
            continue
        file = copy if o["found_by"] == "program" else os.path.realpath(o["path"])
        facts = json.loads(output(premain, "inspect", "--json", "--pages", "--no-closure", file))["files"][0]
        if "unreadable" in facts:
            sys.exit(f"{path}: {file}: {facts['unreadable']}")
        if file not in bases and facts["kind"] != "exec":
            return None
        base = 0 if facts["kind"] == "exec" else bases[file]
        # Pages of the file: those of .bss are not copied but made of zeros, by whoever touches them first.
        writable = [(s["vaddr"] >> 12, s["vaddr"] + s["file_bytes"] - 1 >> 12) for s in facts["elf"]["segments"]
                    if s["kind"] == "load" and "w" in s["flags"] and s["file_bytes"]]
        of_file = lambda page: any(first <= page <= last for first, last in writable)
        ours = {p["addr"] >> 12 for p in facts["written_pages"] if of_file(p["addr"] >> 12)}
        theirs = set()
        for addr, _, dso in hits:
            # The kernel's own writes are those of execve, which come before the loader's.
            if ("ld-linux" in dso or "kernel" in dso) and of_file(addr - base >> 12):
                theirs.add(addr - base >> 12)
        predicted += len(ours)
        observed += len(theirs - (other_writes(facts) - ours))
    return predicted, observed


def check_pages(premain, files):
    if not need("perf"):
        return
    bad, compared, sums = [], 0, [0, 0]
    ranked = [json.loads(line) for line in output(premain, "survey", "--jsonl", "--sort", "pages", *files).splitlines()]
    largest = [r["path"] for r in ranked if "work" in r]
    others = random.Random(7).sample(files, len(files))
    with tempfile.TemporaryDirectory() as d:
        # Perf gives real paths.
        d = os.path.realpath(d)
        for paths, until in ((largest, MOST_PROGRAMS // 2), (others, MOST_PROGRAMS)):
            for path in paths:
                pair = pages_of_program(premain, path, d) if compared < until else None
                if not pair:
                    continue
                compared += 1
                sums = [a + b for a, b in zip(sums, pair)]
                if abs(pair[0] - pair[1]) > 0.03 * pair[1]:
                    bad.append(f"{path}: predicted {pair[0]}, perf counted {pair[1]}")
    report("pages written, within 3 % of the faults that perf counts in the loader", compared, bad)
    print(f"  together: predicted {sums[0]}, counted {sums[1]}")


def seconds(command):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def at_least(name, ours, theirs, factor, rounds=9):
    """Medians of interleaved rounds: `theirs` must take `factor` times as long as `ours`."""
    global failures
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    mine, other = (statistics.median(side) for side in zip(*pairs))
    ok = other >= factor * mine
    failures += not ok
    print(f"{'ok' if ok else 'NOT OK'}: {name}: {1e3 * mine:.1f} ms against {1e3 * other:.1f} ms, "
          f"{other / mine:.1f} times (wanted {factor})", flush=True)


MILLION = """
.data
.balign 8
t: .rept 1000000
.quad t
.endr
.text
.globl _start
_start: ret
"""


def check_speed(premain, _files):
    if not need("eu-readelf", "gcc", "ldd"):
        return
    with tempfile.TemporaryDirectory() as d:
        source, program = os.path.join(d, "million.s"), os.path.join(d, "million")
        with open(source, "w") as f:
            f.write(MILLION)
        subprocess.run(["gcc", "-nostdlib", "-pie", source, "-o", program], check=True)
        facts = lambda path: [premain, "inspect", "--json", "--no-closure", path]
        at_least("a million relocations against eu-readelf -r", facts(program), ["eu-readelf", "-r", program], 20)
        libraries = glob.glob("/usr/lib/*/libLLVM*.so*") + glob.glob("/usr/lib/llvm-*/lib/libLLVM*.so*")
        libraries = sorted({os.path.realpath(p) for p in libraries}, key=os.path.getsize)
        if libraries:
            name = os.path.basename(libraries[-1])
            at_least(f"{name} against eu-readelf -r", facts(libraries[-1]), ["eu-readelf", "-r", libraries[-1]], 10)
    clang = shutil.which(newest("clang"))
    if clang:
        at_least("closure and look-ups of clang against ldd", [premain, "inspect", "--json", clang], ["ldd", clang], 0.5)
    survey = [premain, "survey", "/usr/bin", "--jsonl"]
    programs = len(output(*survey).splitlines())
    at_least(f"survey of {programs} programs against a second a thousand", survey, ["sleep", f"{programs / 1000:.3f}"], 1)


CHECKS = {
    "types": check_types,
    "header": check_header,
    "machines": check_machines,
    "packed": check_packed,
    "stripped": check_stripped,
    "pages": check_pages,
    "speed": check_speed,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--premain", default="target/premain")
    parser.add_argument("--only", choices=sorted(CHECKS))
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()
    llvm = sorted(p for p in map(lambda v: f"/usr/lib/llvm-{v}", range(11, 30)) if os.path.isdir(p))
    paths = options.paths or ["/usr/bin", "/usr/sbin", *(f"{p}/{d}" for p in llvm[-1:] for d in ("bin", "lib"))]
    files = list(elf_files(paths))
    print(f"{len(files)} ELF files")
    for name, check in CHECKS.items():
        if options.only in (None, name):
            check(options.premain, files)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
