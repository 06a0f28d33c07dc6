"""The facts of a program by name: what experiment files can expect, and what tables show.

Plain names are the file's own; `all_` sums over every object that is loaded; the rest is said by its comment.
"""

# Classes of relocations, as `inspect --json` names them.
CLASSES = ["relative", "relr", "absolute", "glob_dat", "jump_slot", "copy", "irelative", "tls", "other"]

NAMES = {
    "kind": "static, static-pie, exec, pie",
    "libc": "glibc, musl, or none where it cannot be told",
    "loader": "yes where the program names an interpreter",
    "now": "yes where functions are bound before main",
    "relro": "none, partial, full",
    "hash": "the hash tables that the file has: gnu, sysv, gnu+sysv, none",
    **{c: f"relocations of class {c}" for c in CLASSES},
    **{f"all_{c}": f"the same over all objects ({c})" for c in CLASSES},
    "table_bytes": "bytes of the relocation tables",
    "own_pages": "pages that the file's own relocations write",
    "pages": "pages that relocations write, over all objects",
    "relro_pages": "pages made read-only afterwards",
    "needed": "libraries that the file names",
    "objects": "objects loaded, program and loader included",
    "lookups": "symbols that the loader looks up before main",
    "cached": "of the relocations with a symbol, those answered by the loader's one-entry cache",
    "probes": "objects asked, over all look-ups",
    "failed_opens": "opens and stats that fail while libraries are searched",
    "init_functions": "functions called before main",
    "segments": "loadable segments",
    "align": "largest alignment of a loadable segment, bytes",
    "size": "bytes of the file",
    "tls_bytes": "bytes of thread-local storage",
    "faults": "page faults of one start, observed",
    "syscalls": "system calls of one start, observed",
}

# Known only after programs were started.
OBSERVED = {"faults", "syscalls"}


def of_file(file: dict) -> dict:
    """Facts out of one entry of `inspect --json`'s `files`."""
    totals = file["closure"]["totals"]
    objects = file["closure"]["objects"]
    loads = [s for s in file["elf"]["segments"] if s["kind"] == "load"]
    facts = {
        "kind": file["kind"],
        "libc": file["libc"] or "none",
        "loader": "yes" if file["interp"] else "no",
        "now": "yes" if file["bind_now"] else "no",
        "relro": file["relro"]["kind"],
        "relro_pages": file["relro"]["pages"],
        "hash": "+".join(sorted(file["hash"])) or "none",
        "table_bytes": file["relocations"]["table_bytes"],
        "own_pages": file["pages_written"],
        "pages": totals["pages_written"],
        "needed": len(file["needed"]),
        "objects": totals["objects"],
        "lookups": totals["lookups"],
        "cached": totals["lookups_cached"],
        "probes": totals["probes"],
        "failed_opens": totals["failed_opens"],
        "init_functions": totals["init_functions"],
        "segments": len(loads),
        "align": max((s["align"] for s in loads), default=0),
        "size": file["size_bytes"],
        "tls_bytes": file["tls_bytes"],
    }
    for name in CLASSES:
        facts[name] = file["relocations"][name]
        facts[f"all_{name}"] = sum(o["relocations"][name] for o in objects)
    return facts


def observed(command: dict) -> dict:
    """What the probe starts of one entry of `bench --json`'s `commands` saw."""
    probes = command.get("probes") or {}
    syscalls = probes.get("syscalls") or {}
    return {"faults": probes.get("page_faults"), "syscalls": syscalls.get("total_min")}
