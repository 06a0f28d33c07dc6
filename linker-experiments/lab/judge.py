"""What came out of an experiment, against what should."""

from dataclasses import dataclass, field

from . import facts
from .experiment import Experiment, Setting

# A prediction of a difference is right within the larger of these, or within the measured interval.
PREDICTION_SHARE = 0.15
PREDICTION_NS = 20_000


@dataclass
class Outcome:
    """One setting, made, or skipped with the reason."""

    setting: Setting
    skipped: str | None = None
    argv: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    # Entries of premain's documents; None where it was not called.
    inspected: dict | None = None
    benched: dict | None = None
    predicted: dict | None = None
    # Why there is no prediction.
    unpredicted: str | None = None
    # What a setting that must not start did.
    refusal: str | None = None
    complaints: list[str] = field(default_factory=list)

    @property
    def facts(self) -> dict:
        """Facts by name, observed ones included."""
        known = facts.of_file(self.inspected) if self.inspected else {}
        return {**known, **facts.observed(self.benched)} if self.benched else known

    def p50(self, metric: str = "spawn_to_exit_ns") -> int | None:
        """The median of a metric."""
        summary = (self.benched or {}).get(metric)
        return summary["p50"] if summary else None

    def ratio(self) -> float | None:
        """Against the base, within rounds."""
        against = (self.benched or {}).get("vs_reference")
        return against["ratio"] if against else None

    def difference(self) -> tuple[float, float, float] | None:
        """Nanoseconds against the base with the 95 % interval, from the interval of the ratio."""
        against = (self.benched or {}).get("vs_reference")
        if not against or not against["ratio_ci95"] or self.p50() is None:
            return None
        base = self.p50() / against["ratio"]
        return (against["difference_ns"], *((r - 1) * base for r in against["ratio_ci95"]))

    def predicted_ns(self) -> int | None:
        """exec to entry, the program's own init functions, and the end of the process."""
        if not self.predicted:
            return None
        more = ("predicted_own_init_ns", "predicted_end_ns")
        return self.predicted["predicted_ns"]["value"] + sum(self.predicted.get(k) or 0 for k in more)


@dataclass
class Done:
    """An experiment that was run."""

    experiment: Experiment
    outcomes: list[Outcome]
    tools: list[str]
    # The bench document; None where nothing was measured.
    bench: dict | None = None

    @property
    def base(self) -> Outcome:
        """What the others are compared with."""
        return self.outcomes[0]

    def complaints(self) -> list[str]:
        """Everything that is not as it should be."""
        return [f"{o.setting.name}: {c}" for o in self.outcomes for c in o.complaints]

    def skipped(self) -> list[str]:
        """Everything that this host could not do."""
        return [f"{o.setting.name}: {o.skipped}" for o in self.outcomes if o.skipped]


def predicted_difference(base: Outcome, outcome: Outcome) -> int | None:
    """Nanoseconds against the base, by the model."""
    a, b = base.predicted_ns(), outcome.predicted_ns()
    return None if a is None or b is None else b - a


BEHIND_ENTRY = (
    "predicted to the entry point, behind which static and dynamic programs, and those of other C libraries, have "
    "different things left to do"
)


def why_not_judged(base: Outcome, outcome: Outcome) -> str | None:
    """Predictions end at the entry point. A static program's C library does behind it what a dynamic one's does before
    it, so the whole starts of the two differ by something else. And what a function does is in no table."""
    if outcome.setting.unpredictable:
        return outcome.setting.unpredictable
    a, b = base.facts, outcome.facts
    return None if all(a[f] == b[f] for f in ("loader", "libc")) else BEHIND_ENTRY


def prediction_holds(base: Outcome, outcome: Outcome) -> bool | None:
    """Whether a predicted difference is where it should be; None where it cannot be judged."""
    predicted, measured = predicted_difference(base, outcome), outcome.difference()
    if predicted is None or measured is None or outcome is base or why_not_judged(base, outcome):
        return None
    value, low, high = measured
    slack = max(PREDICTION_SHARE * abs(value), PREDICTION_NS)
    return min(value - slack, low) <= predicted <= max(value + slack, high)


def judge(done: Done) -> None:
    """Fills in every outcome's complaints."""
    if not done.base.inspected:
        for outcome in done.outcomes[1:]:
            outcome.skipped = outcome.skipped or "there is no base to compare it with"
        return
    for outcome in done.outcomes:
        if not outcome.inspected:
            continue
        if outcome.setting.fails:
            judge_refusal(outcome)
        have, base = outcome.facts, done.base.facts
        for expectation in outcome.setting.expect:
            if done.bench is None and facts.OBSERVED.intersection(expectation.facts_named()):
                continue
            complaint = expectation.complaint(have, base)
            if complaint:
                outcome.complaints.append(complaint)
        judge_sign(outcome)


def judge_sign(outcome: Outcome) -> None:
    """A large known effect must have its sign; whether it is shown beyond noise is bench's verdict, and no matter here."""
    sign, ratio = outcome.setting.sign, outcome.ratio()
    if sign and ratio is not None and (ratio <= 1 if sign == "slower" else ratio >= 1):
        outcome.complaints.append(f"should be {sign} than the base: its ratio is {ratio:.3f}")


def judge_refusal(outcome: Outcome) -> None:
    """It must not have started, and premain must have said so from the file alone."""
    if outcome.refusal is None:
        outcome.complaints.append("it starts, and should not")
    said = outcome.inspected["warnings"] + outcome.inspected["closure"]["warnings"]
    said += [outcome.inspected["closure"]["fatal"] or ""]
    if not any(outcome.setting.fails in text for text in said):
        outcome.complaints.append(f"inspect does not warn of '{outcome.setting.fails}'")
