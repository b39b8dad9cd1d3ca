"""Draws the picture of the architecture: docs/explanation/architecture.svg.

.venv/bin/python scripts/architecture.py
"""

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

TARGET = Path(__file__).parents[1] / "docs" / "explanation" / "architecture.svg"
WIDTH, HEIGHT = 1000, 690
INK, PAPER, LINE, FAINT = "#1f2430", "#ffffff", "#5b6577", "#8a93a3"
OURS, OUTSIDE, GUARD, STORE = "#e8f0fe", "#f3f4f6", "#fdeee0", "#e9f6ec"
FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Box:
    """A rectangle with a name and what is in it."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    fill: str = OURS

    def svg(self) -> str:
        middle = self.x + self.width / 2
        rows = 1 + len(self.lines)
        top = self.y + self.height / 2 - (rows - 1) * 8.5 + 5
        parts = [
            (
                f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="8" '
                f'fill="{self.fill}" stroke="{LINE}" stroke-width="1.2"/>'
            ),
            (
                f'<text x="{middle}" y="{top}" text-anchor="middle" font-size="15" font-weight="600">'
                f"{escape(self.title)}</text>"
            ),
        ]
        parts += [
            f'<text x="{middle}" y="{top + 17 * (i + 1)}" text-anchor="middle" font-size="12" '
            f'fill="{LINE}">{escape(line)}</text>'
            for i, line in enumerate(self.lines)
        ]
        return "\n".join(parts)


def arrow(x1: int, y1: int, x2: int, y2: int, label: str = "", *, both: bool = False) -> str:
    """A line with a head; its label stands beside its middle."""
    start = 'marker-start="url(#back)" ' if both else ""
    line = (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="1.6" '
        f'{start}marker-end="url(#head)"/>'
    )
    if not label:
        return line
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    place = f'x="{x + 8}" y="{y - 9}"' if x1 == x2 else f'x="{x}" y="{y - 7}" text-anchor="middle"'
    return f'{line}\n<text {place} font-size="12" fill="{LINE}">{escape(label)}</text>'


def frame(x: int, y: int, width: int, height: int, label: str) -> str:
    """A dashed border around what belongs together."""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="12" fill="none" '
        f'stroke="{FAINT}" stroke-dasharray="6 5"/>\n'
        f'<text x="{x + 14}" y="{y + 20}" font-size="12" fill="{FAINT}">{escape(label)}</text>'
    )


SHAPES = [
    # who speaks to it
    Box(30, 24, 200, 58, "MCP clients", ("Claude Code, Cursor, Zed …",), OUTSIDE).svg(),
    Box(270, 24, 200, 58, "Editors", ("Zed, acpx …",), OUTSIDE).svg(),
    Box(510, 24, 220, 58, "Programs, browsers", ("OpenAI's API, the page",), OUTSIDE).svg(),
    Box(770, 24, 200, 58, "You, in a terminal", ("openclaw agent, chat",), OUTSIDE).svg(),
    arrow(130, 82, 130, 138, "stdio", both=True),
    arrow(370, 82, 370, 138, "ACP", both=True),
    arrow(620, 82, 620, 138, "HTTP", both=True),
    arrow(870, 82, 870, 138, both=True),
    # the process
    frame(14, 104, 972, 460, "openclaw"),
    Box(30, 138, 200, 60, "mcp_server", ("order_openclaw",)).svg(),
    Box(270, 138, 200, 60, "acp_agent", ("editors' sessions",)).svg(),
    Box(510, 138, 220, 60, "gateway", ("daemon, API, page, reload",)).svg(),
    Box(770, 138, 200, 60, "cli", ("commands",)).svg(),
    arrow(130, 198, 300, 252),
    arrow(370, 198, 400, 252),
    arrow(620, 198, 580, 252),
    arrow(870, 198, 700, 252),
    Box(
        270,
        252,
        460,
        104,
        "agent",
        (
            "takes the session's lane · assembles the prompt",
            "asks the model · dispatches tool calls",
            "own tools, plugins · audit · events",
        ),
    ).svg(),
    Box(30, 266, 190, 76, "sessions", ("on disk before", "the answer is given"), STORE).svg(),
    arrow(220, 304, 270, 304, both=True),
    Box(780, 266, 190, 76, "models", ("providers, fallbacks,", "the embedded one"), STORE).svg(),
    arrow(730, 304, 780, 304, both=True),
    # the way to a server and back
    Box(270, 402, 130, 50, "policy", ("may it?",), GUARD).svg(),
    Box(600, 402, 130, 50, "content", ("frames, sanitises",), GUARD).svg(),
    arrow(335, 356, 335, 402, "call"),
    arrow(665, 402, 665, 356, "result"),
    arrow(335, 452, 335, 486),
    arrow(665, 486, 665, 452),
    Box(
        270,
        486,
        460,
        62,
        "mcp_client",
        ("one owner task per server · catalogue · pins · restarts",),
    ).svg(),
    Box(30, 486, 190, 62, "secrets", ("resolved when a server", "starts; redacted"), GUARD).svg(),
    arrow(220, 517, 270, 517),
    Box(
        780, 486, 190, 62, "net, sandbox", ("guarded addresses,", "confined processes"), GUARD
    ).svg(),
    arrow(730, 517, 780, 517),
    # what it uses
    Box(
        180, 618, 280, 54, "MCP servers on this machine", ("processes, their own group",), OUTSIDE
    ).svg(),
    Box(540, 618, 280, 54, "MCP servers elsewhere", ("HTTP, SSE, OAuth",), OUTSIDE).svg(),
    arrow(360, 548, 330, 618, both=True),
    arrow(640, 548, 670, 618, both=True),
    f'<text x="250" y="592" font-size="12" fill="{LINE}">stdin, stdout</text>',
    f'<text x="668" y="592" font-size="12" fill="{LINE}">HTTPS</text>',
]


def picture() -> str:
    """The whole drawing."""
    shapes = "\n".join(SHAPES)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONT}" fill="{INK}" role="img" aria-label="The parts of OpenClaw and how a message goes through them">
<defs>
<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{LINE}"/></marker>
<marker id="back" viewBox="0 0 10 10" refX="1" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M10 0 L0 5 L10 10 z" fill="{LINE}"/></marker>
</defs>
<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="{PAPER}"/>
{shapes}
</svg>
"""


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
