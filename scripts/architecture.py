"""Draws docs/explanation/architecture.svg: the packages, in their layers, and who imports whom.

Both come from the project itself: the layers from import-linter's contract in pyproject.toml, the
lines from the imports in src.

.venv/bin/python scripts/architecture.py
"""

import ast
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "explanation" / "architecture.svg"
SOURCE = ROOT / "src" / "openclaw"
WIDTH, BOX, ROW, GAP, TOP = 1000, 62, 104, 14, 20
INK, PAPER, LINE, FILL = "#1f2430", "#ffffff", "#5b6577", "#e8f0fe"
FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
HIDDEN = {"version", "testing"}
MEANING = {
    "cli": "commands, chat, set-up",
    "runtime": "builds everything; access to the agent",
    "acp_agent": "editors",
    "cluster": "many gateways, one database",
    "gateway": "daemon, API, page",
    "mcp_server": "order_openclaw",
    "mcp_hub": "servers for other clients",
    "agent": "one turn: prompt, loop, tool path, own tools",
    "mcp_client": "other servers' tools",
    "models": "choosing and asking one",
    "sessions": "conversations",
    "embedded": "the model that is included",
    "discovery": "finding tools",
    "policy": "may it?",
    "media": "images, files, sound",
    "config": "openclaw.json",
    "net": "guarded HTTP",
    "content": "framing, detection",
    "secrets": "references, redaction",
    "stdio": "lines on pipes",
    "mcp": "the protocol, without I/O",
    "core": "content, events, errors",
}


def layers() -> list[list[str]]:
    """The packages of each layer, the highest first."""
    project: Any = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    found = next(one for one in contracts if one["name"] == "Layers")["layers"]
    rows = [[name.strip() for name in row.split("|")] for row in found]
    return [[name for name in row if name not in HIDDEN] for row in rows]


def imports() -> Counter[tuple[str, str]]:
    """How many modules of one package import another package."""
    found: Counter[tuple[str, str]] = Counter()
    for path in SOURCE.rglob("*.py"):
        package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        used: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("openclaw."):
                used.add((node.module or "").split(".")[1])
        found.update((package, name) for name in used if name != package)
    return found


def places(rows: list[list[str]]) -> dict[str, tuple[float, float, float]]:
    """Each package's left edge, top edge and width."""
    found: dict[str, tuple[float, float, float]] = {}
    for number, row in enumerate(rows):
        width = min(300.0, (WIDTH - 2 * TOP - GAP * (len(row) - 1)) / len(row))
        left = (WIDTH - (width + GAP) * len(row) + GAP) / 2
        for place, name in enumerate(row):
            found[name] = (left + place * (width + GAP), TOP + number * ROW, width)
    return found


def _line(start: tuple[float, float, float], end: tuple[float, float, float], count: int) -> str:
    x1, y1 = start[0] + start[2] / 2, start[1] + BOX
    x2, y2 = end[0] + end[2] / 2, end[1]
    return (
        f'<path d="M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + 34:.0f} {x2:.0f} {y2 - 34:.0f} '
        f'{x2:.0f} {y2:.0f}" fill="none" stroke="{LINE}" stroke-width="{min(3, 0.6 + count / 8):.1f}" '
        f'opacity="{min(0.55, 0.14 + count / 40):.2f}"/>'
    )


def _box(name: str, place: tuple[float, float, float]) -> str:
    x, y, width = place
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX}" rx="8" fill="{FILL}" '
        f'stroke="{LINE}"/>\n<text x="{x + width / 2:.0f}" y="{y + 27:.0f}" text-anchor="middle" '
        f'font-size="15" font-weight="600">{escape(name)}</text>\n<text x="{x + width / 2:.0f}" '
        f'y="{y + 46:.0f}" text-anchor="middle" font-size="11" fill="{LINE}">'
        f"{escape(MEANING[name])}</text>"
    )


def picture() -> str:
    """The whole drawing."""
    rows = layers()
    where = places(rows)
    lines = [
        _line(where[a], where[b], count)
        for (a, b), count in sorted(imports().items())
        if a in where and b in where and where[a][1] < where[b][1]
    ]
    shapes = "\n".join([*lines, *(_box(name, place) for name, place in where.items())])
    height = TOP + len(rows) * ROW - (ROW - BOX) + TOP
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="{FONT}" fill="{INK}" role="img" aria-label="The packages of OpenClaw in their layers, and which imports which">
<rect width="{WIDTH}" height="{height}" rx="10" fill="{PAPER}"/>
{shapes}
</svg>
"""


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
