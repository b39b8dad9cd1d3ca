"""Contenders side by side: interleaved in one run, compared as ratios.

Machines are shared and noisy, so a figure by itself means little. Every round runs every contender
once, in an order that rotates; what is reported is the median of each and its ratio to the first.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Contender:
    """Something to measure: `run` does the work once and may return its own figure in seconds."""

    name: str
    run: Callable[[], float | None]


@dataclass(slots=True)
class Row:
    name: str
    seconds: list[float] = field(default_factory=list[float])

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

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

    def ratio(self, name: str) -> float:
        """How this contender compares with the first: 2.0 takes twice as long."""
        by_name = {row.name: row for row in self.rows}
        return by_name[name].median / self.rows[0].median

    def table(self) -> str:
        width = max(len(row.name) for row in self.rows)
        lines = [self.title]
        lines += [
            f"  {row.name:<{width}}  {_human(row.median):>10}  ±{100 * row.spread:3.0f} %"
            f"  {self.ratio(row.name):8.3f} x"
            for row in self.rows
        ]
        if self.limit is not None:
            lines.append(f"  goal for {self.rows[-1].name}: at most {self.limit} x")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "limit": self.limit,
            "rows": [
                {
                    "name": row.name,
                    "median_s": row.median,
                    "spread": row.spread,
                    "ratio": self.ratio(row.name),
                    "rounds": len(row.seconds),
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
) -> Comparison:
    """Run all contenders `rounds` times, interleaved."""
    rows = [Row(contender.name) for contender in contenders]
    for round_number in range(-warmup, rounds):
        for step in range(len(contenders)):
            index = (round_number + step) % len(contenders)
            started = time.perf_counter()
            own = contenders[index].run()
            took = time.perf_counter() - started if own is None else own
            if round_number >= 0:
                rows[index].seconds.append(took)
    return Comparison(title, rows, limit)


def report(comparisons: Sequence[Comparison], argv: Sequence[str] | None = None) -> None:
    """Print the tables, or with --json the figures."""
    if "--json" in (sys.argv[1:] if argv is None else argv):
        print(json.dumps([comparison.as_json() for comparison in comparisons], indent=2))
        return
    print("\n\n".join(comparison.table() for comparison in comparisons))


def _human(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"
