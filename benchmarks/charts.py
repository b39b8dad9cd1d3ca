"""Pictures of the figures, as SVG that reads in light and in dark."""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from harness import human

WIDTH = 860
LABEL, BAR_RIGHT = 250, 110
LINE = 20
STYLE = """<style>
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 13px }
  .faint { fill: #6e7781 }
  .bar { fill: #9aa7b4 } .own { fill: #2f81f7 } .axis { stroke: #d0d7de }
  .curve { fill: none; stroke: #9aa7b4; stroke-width: 2 }
  .curve.own { stroke: #2f81f7; fill: none } .curve.second { stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .faint { fill: #9198a1 } .bar { fill: #57606a }
    .own { fill: #58a6ff } .axis { stroke: #30363d }
    .curve { stroke: #768390 } .curve.own { stroke: #58a6ff; fill: none }
  }
</style>"""


def bars(comparisons: Sequence[dict[str, Any]]) -> str:
    """One block of bars for each comparison: shorter is better, on a scale of its own."""
    parts: list[str] = []
    y = 10
    for comparison in comparisons:
        y += LINE
        parts.append(_text(10, y, comparison["title"], "title"))
        most = max(row["median"] or 0.0 for row in comparison["rows"])
        for row in comparison["rows"]:
            y += LINE
            parts.append(_text(LABEL - 8, y, row["name"], anchor="end"))
            parts += _bar(y, row, comparison["unit"], most)
        y += LINE // 2
    return _svg(y + 14, parts)


def _bar(y: int, row: dict[str, Any], unit: str, most: float) -> list[str]:
    if row["median"] is None:
        return [_text(LABEL, y, "could not", "faint")]
    length = max(2.0, (WIDTH - LABEL - BAR_RIGHT) * row["median"] / most)
    own = " own" if row["name"].startswith("openclaw") else ""
    told = human(row["median"]) if unit == "s" else f"{row['median']:.0f} {unit}"
    return [
        f'<rect class="bar{own}" x="{LABEL}" y="{y - 11}" width="{length:.1f}" height="14" rx="2"/>',
        _text(LABEL + length + 6, y, told, "faint"),
    ]


def curves(growths: Sequence[dict[str, Any]]) -> str:
    """A panel for each growth, both axes logarithmic."""
    parts: list[str] = []
    panel_width, panel_height = WIDTH // 2, 240
    for number, growth in enumerate(growths):
        left = (number % 2) * panel_width
        top = (number // 2) * panel_height
        parts += _panel(growth, left + 60, top + 34, panel_width - 90, panel_height - 104)
    rows = (len(growths) + 1) // 2
    return _svg(rows * panel_height, parts)


def _panel(
    growth: dict[str, Any], left: float, top: float, width: float, height: float
) -> list[str]:
    points: list[int] = growth["points"]
    known = [s for curve in growth["curves"] for s in curve["seconds"] if s]
    low, high = math.log10(min(known)), math.log10(max(known))
    span = max(high - low, 0.3)
    first, last = math.log10(points[0]), math.log10(points[-1])

    def x(point: float) -> float:
        return left + width * (math.log10(point) - first) / (last - first)

    def y(seconds: float) -> float:
        return top + height * (1 - (math.log10(seconds) - low) / span)

    parts = [_text(left - 50, top - 16, growth["title"], "title")]
    bottom = top + height
    parts.append(f'<path class="axis" d="M{left} {top}V{bottom}H{left + width}" fill="none"/>')
    parts += [_text(x(p), bottom + 15, _short(p), "faint", anchor="middle") for p in points]
    for seconds in (min(known), max(known)):
        parts.append(_text(left - 6, y(seconds) + 4, human(seconds), "faint", anchor="end"))
    for number, curve in enumerate(growth["curves"]):
        own = " own" if curve["name"].startswith(("openclaw", "a ")) else ""
        second = " second" if number == 1 else ""
        line = " ".join(
            f"{x(p):.1f},{y(s):.1f}" for p, s in zip(points, curve["seconds"], strict=True) if s
        )
        parts.append(f'<polyline class="curve{own}{second}" points="{line}"/>')
        key = bottom + 32 + 14 * number
        parts.append(
            f'<path class="curve{own}{second}" d="M{left} {key - 4}h24"/>'
            + _text(left + 30, key, curve["name"])
        )
    return parts


def _short(number: int) -> str:
    for scale, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= scale:
            return f"{number // scale}{letter}"
    return str(number)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(text)}</text>'


def _svg(height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    return "\n".join([head, STYLE, *parts, "</svg>"]) + "\n"
