"""An experiment as JSON, small enough to keep: what `premain correlate` reads."""

from .judge import Done, Outcome

SUMMARY = ["n", "p5", "p50", "p95", "p50_ci95"]
METRICS = ["spawn_to_exit_ns", "exec_to_exit_ns", "cpu_ns", "minflt"]
FILE = [
    "path", "format", "arch", "size_bytes", "kind", "libc", "interp", "bind_now", "hash", "relocations", "relro",
    "pages_written", "tls_bytes",
]  # fmt: skip


def path(o: Outcome, experiment: str) -> str:
    """A name for the program that is the same in all documents, and says nothing of the machine."""
    return f"{experiment}/{o.inspected['path']}"


def command(o: Outcome, experiment: str) -> dict:
    """One entry of a bench's `commands`, without what nobody reads again."""
    full = o.benched
    kept = {"name": f"{experiment}/{o.setting.name}", "path": path(o, experiment), "role": full["role"], "starts": full["starts"]}
    for metric in METRICS:
        summary = full.get(metric)
        kept[metric] = {k: summary[k] for k in SUMMARY} if summary else None
    kept["vs_reference"] = full["vs_reference"]
    return kept


def file(o: Outcome, experiment: str) -> dict:
    """One entry of an inspect's `files`, with the closure's totals in place of its objects."""
    kept = {k: o.inspected[k] for k in FILE} | {"path": path(o, experiment)}
    closure = o.inspected["closure"]
    kept["segments_loaded"] = o.facts["segments"]
    kept["closure"] = {
        "totals": {**closure["totals"], "irelative": o.facts["all_irelative"], "table_bytes": sum(
            x["relocations"]["table_bytes"] for x in closure["objects"]
        )},
    }  # fmt: skip
    return kept


def document(done: Done, when: str, premain: str) -> dict:
    """Schema `premain.experiment/1`: a bench and an inspect document of the same programs, in the same order."""
    measured = [o for o in done.outcomes if o.benched]
    bench = done.bench or {}
    return {
        "schema": "premain.experiment/1",
        "experiment": done.experiment.name,
        "date": when,
        "premain": premain,
        "bench": {
            "schema": "premain.bench/1",
            "setting": bench.get("setting"),
            "noise": bench.get("noise"),
            "commands": [command(o, done.experiment.name) for o in measured],
        },
        "inspect": {"schema": "premain.inspect/1", "files": [file(o, done.experiment.name) for o in measured]},
        "predict": {"schema": "premain.predict/1", "files": [predicted(o, done.experiment.name) for o in measured if o.predicted]},
    }


def predicted(o: Outcome, experiment: str) -> dict:
    """One entry of a predict's `files`, without its terms."""
    keys = ("predicted_ns", "predicted_own_init_ns", "predicted_end_ns")
    return {"path": path(o, experiment)} | {k: o.predicted[k] for k in keys if k in o.predicted}
