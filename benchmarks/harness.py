"""Contenders side by side: interleaved in one run, compared as ratios.

Machines are shared and noisy, so a figure by itself means little. Every round runs every contender
once, in an order that rotates; what is reported is the median of each and its ratio to the first.
"""

import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


class Unable(Exception):
    """A contender that cannot do what is measured; the message is what it said."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Something to measure: `run` does the work once and may return its own figure in seconds."""

    name: str
    run: Callable[[], float | None]


@dataclass(slots=True)
class Row:
    name: str
    seconds: list[float] = field(default_factory=list[float])
    failure: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else math.nan

    @property
    def spread(self) -> float:
        """The distance between the quartiles, as a part of the median."""
        if len(self.seconds) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / self.median if self.median else 0.0


@dataclass(slots=True)
class Comparison:
    """One question and its contenders' figures; the first contender is the yardstick."""

    title: str
    rows: list[Row]
    limit: float | None = None
    unit: str = "s"

    def ratio(self, name: str) -> float:
        """How this contender compares with the first: 2.0 takes twice as long."""
        by_name = {row.name: row for row in self.rows}
        return by_name[name].median / self.rows[0].median

    def table(self) -> str:
        width = max(len(row.name) for row in self.rows)
        lines = [self.title]
        lines += [
            f"  {row.name:<{width}}  {self.human(row):>10}  ±{100 * row.spread:3.0f} %"
            f"  {self.ratio(row.name):8.3f} x"
            if row.seconds
            else f"  {row.name:<{width}}  could not: {row.failure}"
            for row in self.rows
        ]
        if self.limit is not None:
            lines.append(f"  goal for {self.rows[-1].name}: at most {self.limit} x")
        return "\n".join(lines)

    def human(self, row: Row) -> str:
        """A row's median with its unit."""
        return human(row.median) if self.unit == "s" else f"{row.median:.1f} {self.unit}"

    def as_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "unit": self.unit,
            "limit": self.limit,
            "rows": [
                {
                    "name": row.name,
                    "median": _or_none(row.median),
                    "spread": row.spread,
                    "ratio": _or_none(self.ratio(row.name)),
                    "rounds": len(row.seconds),
                    "failure": row.failure,
                }
                for row in self.rows
            ],
        }


def compare(
    title: str,
    contenders: Sequence[Contender],
    *,
    rounds: int = 15,
    warmup: int = 1,
    limit: float | None = None,
    unit: str = "s",
) -> Comparison:
    """Run all contenders `rounds` times, interleaved; one that raises `Unable` is left out of it.

    The variable BENCHMARK_ROUNDS is the most rounds.
    """
    rounds = min(rounds, int(os.environ.get("BENCHMARK_ROUNDS", rounds)))
    rows = [Row(contender.name) for contender in contenders]
    for round_number in range(-warmup, rounds):
        for step in range(len(contenders)):
            index = (round_number + step) % len(contenders)
            if rows[index].failure:
                continue
            started = time.perf_counter()
            try:
                own = contenders[index].run()
            except Unable as unable:
                rows[index].failure = str(unable)
                continue
            took = time.perf_counter() - started if own is None else own
            if round_number >= 0:
                rows[index].seconds.append(took)
    return Comparison(title, rows, limit, unit)


def _or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


def report(
    comparisons: Sequence[Comparison],
    argv: Sequence[str] | None = None,
    *,
    notes: Sequence[str] = (),
) -> None:
    """Print the tables and what else is to be said, or with --json the figures."""
    if "--json" in (sys.argv[1:] if argv is None else argv):
        figures = [comparison.as_json() for comparison in comparisons]
        print(json.dumps({"comparisons": figures, "notes": list(notes)}, indent=2))
        return
    print("\n\n".join(comparison.table() for comparison in comparisons))
    if notes:
        print("\n" + "\n".join(notes))


def human(seconds: float) -> str:
    """A time in the unit that fits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"
