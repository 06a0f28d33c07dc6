"""What a setting should give: one fact, an operator, and a number, a word, or a fact of the base.

    relr == base.relative        pages <= base.pages + 1        kind == static-pie        hash == gnu+sysv
"""

import operator
import re
from dataclasses import dataclass

OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
FORM = re.compile(
    r"(?P<fact>[a-z_]+) (?P<op>==|!=|>=|<=|>|<) "
    r"(?:base\.(?P<base>[a-z_]+)(?: (?P<sign>[+-]) (?P<offset>\d+))?|(?P<number>\d+)|(?P<word>[a-z][a-z+-]*))"
)


@dataclass(frozen=True)
class Expectation:
    """One line of an `expect` list."""

    text: str
    fact: str
    op: str
    number: int | None
    word: str | None
    base: str | None
    offset: int

    @staticmethod
    def parse(text: str) -> "Expectation":
        """Raises ValueError with what is wrong; whether the facts exist is checked by `facts_named`."""
        found = FORM.fullmatch(text)
        if not found:
            raise ValueError(f"'{text}' is not: FACT OP (NUMBER | WORD | base.FACT [+ NUMBER])")
        offset = int(found["offset"] or 0)
        return Expectation(
            text,
            found["fact"],
            found["op"],
            int(found["number"]) if found["number"] else None,
            found["word"],
            found["base"],
            -offset if found["sign"] == "-" else offset,
        )

    def facts_named(self) -> list[str]:
        """Every fact that must exist."""
        return [self.fact] + ([self.base] if self.base else [])

    def complaint(self, facts: dict, base: dict) -> str | None:
        """None where it holds, else one sentence. A fact that was not observed is a complaint too."""
        have = facts.get(self.fact)
        if self.base:
            want = base.get(self.base)
            want = want + self.offset if isinstance(want, int) else want
        else:
            want = self.number if self.word is None else self.word
        if have is None or want is None:
            return f"{self.text}: not observed"
        if isinstance(have, str) != isinstance(want, str):
            return f"{self.text}: {have!r} and {want!r} cannot be compared"
        if OPERATORS[self.op](have, want):
            return None
        against = f" (base: {want:,})" if self.base and isinstance(want, int) else ""
        return f"{self.text}: it is {have:,}{against}" if isinstance(have, int) else f"{self.text}: it is {have}"
