"""Programs made: every command is kept, what is missing is named, and nothing is written outside one directory."""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from . import experiment

# A compiler by the first of its names that is installed.
COMPILERS = {
    "gcc": ["gcc"],
    "clang": ["clang", *(f"clang-{v}" for v in range(22, 12, -1))],
    "musl-gcc": ["musl-gcc"],
    "rustc": ["rustc"],
    "cargo": ["cargo"],
}
# Linkers that `-fuse-ld=` names are found under these.
LINKERS = {"bfd": "ld.bfd", "gold": "ld.gold", "lld": "ld.lld", "mold": "mold"}
# What a linker says of a setting that it does not know: the setting is then not measured, aloud.
UNKNOWN = re.compile(
    r"(unknown|unrecognized|unsupported|invalid) .*(option|argument|keyword|value)|-z \S+ ignored|unknown -z",
    re.IGNORECASE,
)


class Missing(Exception):
    """The host lacks something: the setting is skipped, aloud."""


class BuildFailed(Exception):
    """A compiler or linker failed for another reason than a setting that it does not know."""


@dataclass
class Built:
    """One program, ready to start."""

    # Paths are relative to the experiment's directory.
    argv: list[str]
    commands: list[str]
    # First lines of `--version` of what built it.
    tools: list[str]


@dataclass
class Build:
    """What a program's `build` function gets: one setting, one directory."""

    setting: experiment.Setting
    # Where commands run; programs are started from here too.
    root: Path
    # Where this setting's files go, relative to `root`. All settings' names are equally long, and so are all
    # programs' paths: the kernel copies the path to every new stack.
    directory: str
    commands: list[str] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> dict:
        """Parameters of the program."""
        return self.setting.parameters

    @property
    def flags(self) -> list[str]:
        """Flags of the program's own compilation and link."""
        return self.setting.flags

    @property
    def library_flags(self) -> list[str]:
        """Flags of the libraries'."""
        return self.setting.library_flags

    def path(self, name: str) -> str:
        """A file of this setting, relative to `root`; its directory is made."""
        path = f"{self.directory}/{name}"
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        return path

    def source(self, name: str, text: str) -> str:
        """A generated file; settings with the same text share it."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        stem, _, suffix = name.rpartition(".")
        path = f"src/{stem}-{digest}.{suffix}"
        target = self.root / path
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            # Settings are built side by side: a half-written source must not be seen.
            partial = target.with_name(f"{target.name}.{self.directory}")
            partial.write_text(text)
            partial.rename(target)
        return path

    def copied(self, name: str) -> str:
        """A source of `programs/`, so that commands need no path outside `root`."""
        return self.source(name, (experiment.PROGRAMS / name).read_text())

    def tool(self, name: str) -> str:
        """The command for a compiler or another tool. Raises Missing."""
        for command in COMPILERS.get(name, [name]):
            if shutil.which(command):
                if command not in self.tools:
                    self.tools[command] = version_of(command)
                return command
        raise Missing(f"{name} is not installed")

    def needs_of(self, flags: list[str]) -> None:
        """Raises Missing for a linker that is chosen and not there."""
        for flag in flags:
            chosen = re.search(r"-fuse-ld=(\w+)", flag)
            if chosen:
                self.tool(LINKERS.get(chosen[1], chosen[1]))

    def run(self, argv: list[str], env: dict[str, str] | None = None) -> str:
        """Runs one command in `root` and keeps it; gives its standard output."""
        shown = [f"{k}={shlex.quote(v)}" for k, v in (env or {}).items()]
        self.commands.append(" ".join([*shown, shlex.join(argv)]))
        clean = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
        done = subprocess.run(
            argv, cwd=self.root, env={**clean, "LC_ALL": "C", **(env or {})}, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        said = [line for line in done.stderr.splitlines() if UNKNOWN.search(line)]
        if said:
            raise Missing(said[0].strip())
        if done.returncode != 0:
            raise BuildFailed(f"{shlex.join(argv)}\n{done.stderr.strip()[-2000:]}")
        return done.stdout

    def fetch(self, argv: list[str], env: dict[str, str] | None = None) -> None:
        """Runs a package manager. Raises Missing: without a network there is nothing to measure."""
        try:
            self.run(argv, env)
        except BuildFailed as e:
            raise Missing(f"cannot be fetched: {str(e).splitlines()[-1]}") from None

    @staticmethod
    def installed(package: str) -> None:
        """Raises Missing for a Debian package that is not installed."""
        done = subprocess.run(["dpkg", "-s", package], capture_output=True, check=False)
        if done.returncode != 0:
            raise Missing(f"the package {package} is not installed")

    def compile(self, output: str, sources: list[str], flags: list[str], compiler: str | None = None) -> str:
        """Compiles and links sources into a file of this setting; gives its path."""
        self.needs_of(flags)
        path = self.path(output)
        self.run([self.tool(compiler or self.setting.compiler), *sources, "-o", path, *flags])
        return path

    def library(self, name: str, source: str, flags: list[str] | None = None) -> str:
        """A shared library `name` with that soname from one source."""
        soname = name.rpartition("/")[2]
        own = ["-shared", "-fPIC", f"-Wl,-soname,{soname}", *self.library_flags]
        return self.compile(name, [source], own if flags is None else flags)


def version_of(command: str) -> str:
    """The first line of `--version`, without the path that pip adds."""
    done = subprocess.run([command, "--version"], text=True, capture_output=True, check=False)
    said = (done.stdout or done.stderr).splitlines()
    return said[0].partition(" from ")[0].strip() if said else command


def program_of(name: str):
    """The `build` function of a program: a generator's own, or one compilation of a source."""
    path = experiment.source_of(name)
    if path.suffix != ".py":
        return lambda b: [b.compile("prog", [b.copied(path.name)], b.flags)]
    spec = importlib.util.spec_from_file_location(f"programs.{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build


def drop_section_headers(path: Path) -> None:
    """Zeroes e_shoff, e_shnum and e_shstrndx of a little-endian ELF64 file: loaders do not read them."""
    with path.open("r+b") as file:
        file.seek(0x28)
        file.write(bytes(8))
        file.seek(0x3C)
        file.write(bytes(4))


def build(item: experiment.Experiment, index: int, setting: experiment.Setting, root: Path) -> Built:
    """Builds one setting. Raises Missing or BuildFailed."""
    b = Build(setting, root, f"{index:02}")
    shutil.rmtree(root / b.directory, ignore_errors=True)
    argv = program_of(item.program)(b)
    if setting.edit == "drop-section-headers":
        drop_section_headers(root / argv[0])
        b.commands.append(f"# then: the section headers of {argv[0]} are dropped (e_shoff, e_shnum, e_shstrndx = 0)")
    return Built(argv, b.commands, sorted(b.tools.values()))


def settle(root: Path) -> None:
    """Drops what was built from the page cache, so that it is read from the disk like installed programs. As it was
    written it lies there in larger pieces, and starts up to a tenth sooner: another one each time."""
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
