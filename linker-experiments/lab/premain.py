"""The verbs of premain that experiments call, each one document of JSON."""

import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path


# The smallest difference called, whatever the noise: where noise is larger, the word is "not decided".
DELTA = "2%"
# Starts of a program before each one that is timed: beside programs of 30 MB the caches of others were empty.
PRIME = "2"


class Trouble(Exception):
    """premain ended with an error."""


@dataclass(frozen=True)
class Premain:
    """The binary, and the host model to predict with; without a model nothing is predicted."""

    binary: Path
    model: Path | None = None

    def call(self, words: list[str], cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        """One call; nobody judged its exit code yet."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
        return subprocess.run(
            [str(self.binary), *words], cwd=cwd, env={**clean, **(env or {})}, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    def document(self, words: list[str], cwd: Path, env: dict[str, str] | None = None) -> dict:
        """One call with `--json`. Raises Trouble."""
        done = self.call([words[0], "--json", *words[1:]], cwd, env)
        if done.returncode != 0:
            raise Trouble(f"premain {shlex.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def inspect(self, path: str, cwd: Path, env: dict[str, str]) -> dict:
        """The facts of one file with its closure, in the environment that it is started with."""
        return self.document(["inspect", path], cwd, env)["files"][0]

    def predict(self, path: str, cwd: Path, env: dict[str, str]) -> dict:
        """One file's prediction. Raises Trouble where the model knows nothing of such programs."""
        return self.document(["predict", "--model", str(self.model), path], cwd, env)["files"][0]

    def calibrate(self, model: Path, quick: bool, programs: list[Path], cwd: Path) -> None:
        """Measures this host's unit costs, and what the libraries of some programs do at start. Raises Trouble."""
        words = ["calibrate", *(["--quick"] if quick else []), "--model", str(model), "--", *map(str, programs)]
        done = self.call(words, cwd)
        if done.returncode != 0:
            raise Trouble(f"premain {shlex.join(words)}: {done.stderr.strip()}")

    @staticmethod
    def bench_words(names: list[str], argvs: list[list[str]], envs: list[dict], budget_seconds: float) -> list[str]:
        """One bench over all settings, the first is the reference."""
        words = ["bench", "--budget", f"{budget_seconds}s", "--max-runs", "2000", "--probes", "1", "--delta", DELTA,
                 "--prime", PRIME]
        for name in names:
            words += ["--name", name]
        for number, env in enumerate(envs, 1):
            for key, value in env.items():
                words += ["--env-for", f"{number}:{key}={value}"]
        return words + [shlex.join(argv) for argv in argvs]

    def bench(self, names: list[str], argvs: list[list[str]], envs: list[dict], budget_seconds: float, cwd: Path):
        """The document of that bench."""
        return self.document(self.bench_words(names, argvs, envs, budget_seconds), cwd)

    def version(self) -> str:
        """`premain 0.1.0`."""
        return self.call(["--version"], Path.cwd()).stdout.strip()
