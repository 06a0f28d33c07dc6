"""One experiment file (TOML), read and checked whole before anything is built.

The first `[[setting]]` is the base; each other one changes one thing against it.
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from .expectation import Expectation
from .facts import NAMES

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "programs"
EXPERIMENTS = ROOT / "experiments"
# Bench's own, for one experiment with all its settings.
BUDGET_SECONDS = 8
QUICK_BUDGET_SECONDS = 1.5


class Invalid(Exception):
    """An experiment file that says something that is not understood."""


@dataclass(frozen=True)
class Setting:
    """One way to build the program."""

    name: str
    compiler: str
    flags: list[str]
    library_flags: list[str]
    # Parameters of the program.
    parameters: dict
    env: dict[str, str]
    expect: list[Expectation]
    # A large known effect on time against the base: "slower" or "faster".
    sign: str | None
    # It must not start: words of premain's warning about that.
    fails: str | None
    # An edit of the linked file.
    edit: str | None
    # Why no count of its file can predict it.
    unpredictable: str | None
    quick: bool


@dataclass(frozen=True)
class Experiment:
    """A base, one varied setting, one program."""

    name: str
    title: str
    question: str
    # Name of the program: `programs/NAME.c`, `.rs` or a generator `.py`.
    program: str
    settings: list[Setting]
    # Taken by `make experiments-quick`.
    quick: bool
    budget_seconds: float
    # The init functions of its libraries are measured with the host model: what they do is in no count.
    measure_init: bool = False
    path: Path = field(repr=False, default=Path())

    def quickly(self) -> "Experiment":
        """The same with what the quick run leaves out left out."""
        settings = [s for s in self.settings if s.quick]
        return Experiment(
            self.name, self.title, self.question, self.program, settings, True, QUICK_BUDGET_SECONDS,
            self.measure_init, self.path,
        )  # fmt: skip


TOP_KEYS = {"title", "question", "quick", "budget_seconds", "measure_init", "program", "build", "setting"}
BUILD_KEYS = {"compiler", "flags", "library_flags"}
SETTING_KEYS = {
    "name", "compiler", "flags", "library_flags", "program", "env", "expect", "sign", "fails", "edit", "unpredictable", "quick",
}  # fmt: skip
EDITS = {"drop-section-headers"}


def check(condition: bool, what: str) -> None:
    """Raises Invalid."""
    if not condition:
        raise Invalid(what)


def only_keys(table: dict, keys: set[str], where: str) -> None:
    """Refuses words that nobody reads: a typing error must not be silence."""
    for key in table.keys() - keys:
        raise Invalid(f"{where}: '{key}' is not a key; keys are {', '.join(sorted(keys))}")


def source_of(program: str) -> Path:
    """The file that makes a program."""
    found = [PROGRAMS / f"{program}{suffix}" for suffix in (".py", ".c", ".rs")]
    found = [p for p in found if p.exists()]
    check(len(found) == 1, f"program.name: there is no programs/{program}.py, .c or .rs")
    return found[0]


def words(value, where: str) -> list[str]:
    """A list of strings."""
    check(isinstance(value, list) and all(isinstance(v, str) for v in value), f"{where}: must be a list of strings")
    return value


def read_setting(table: dict, build: dict, program: dict, is_base: bool) -> Setting:
    """One `[[setting]]`, with what `[build]` and `[program]` give to all."""
    name = table.get("name")
    check(isinstance(name, str) and name.strip() == name != "", "setting: needs a name")
    where = f"setting '{name}'"
    only_keys(table, SETTING_KEYS, where)
    expect = []
    for text in words(table.get("expect", []), f"{where}: expect"):
        try:
            expect.append(Expectation.parse(text))
        except ValueError as e:
            raise Invalid(f"{where}: {e}") from None
    for expectation in expect:
        for fact in expectation.facts_named():
            check(fact in NAMES, f"{where}: '{fact}' is not a fact; see linker-experiments/lab/facts.py")
        check(not (is_base and expectation.base), f"{where}: the base cannot expect something of itself")
    sign = table.get("sign")
    check(sign in (None, "slower", "faster"), f"{where}: sign is slower or faster")
    check(not (is_base and sign), f"{where}: the base has no sign")
    check(table.get("edit") in EDITS | {None}, f"{where}: edit is one of {', '.join(EDITS)}")
    parameters = {**program, **table.get("program", {})}
    parameters.pop("name", None)
    return Setting(
        name=name,
        compiler=table.get("compiler", build.get("compiler", "gcc")),
        flags=words(build.get("flags", []), "build.flags") + words(table.get("flags", []), f"{where}: flags"),
        library_flags=words(build.get("library_flags", []), "build.library_flags")
        + words(table.get("library_flags", []), f"{where}: library_flags"),
        parameters=parameters,
        env={k: str(v) for k, v in table.get("env", {}).items()},
        expect=expect,
        sign=sign,
        fails=table.get("fails"),
        edit=table.get("edit"),
        unpredictable=table.get("unpredictable"),
        quick=table.get("quick", True),
    )


def read(path: Path) -> Experiment:
    """Reads one file. Raises Invalid, which names the file."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
        only_keys(table, TOP_KEYS, "file")
        for key in ("title", "question"):
            check(isinstance(table.get(key), str), f"{key}: is missing")
        build, program = table.get("build", {}), table.get("program", {})
        only_keys(build, BUILD_KEYS, "build")
        source_of(program.get("name", ""))
        tables = table.get("setting", [])
        settings = [read_setting(t, build, program, i == 0) for i, t in enumerate(tables)]
        names = [s.name for s in settings]
        check(len(settings) >= 2, "needs a base and at least one other setting")
        check(len(set(names)) == len(names), "two settings have one name")
        check(settings[0].quick and not settings[0].fails, "the base must be built and start in every run")
        check(any(s.expect for s in settings), "expects no fact at all")
        budget = float(table.get("budget_seconds", BUDGET_SECONDS))
        check(0 < budget <= 60, "budget_seconds: between 0 and 60")
        return Experiment(
            path.stem, table["title"], table["question"], program["name"], settings, table.get("quick", False),
            budget, table.get("measure_init", False), path,
        )  # fmt: skip
    except (Invalid, tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise Invalid(f"{path.name}: {e}") from None


def read_all() -> list[Experiment]:
    """Every experiment, by name of file."""
    return [read(path) for path in sorted(EXPERIMENTS.glob("*.toml"))]
