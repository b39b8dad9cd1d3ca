"""Runs the demo in a terminal of its own and draws what it printed: docs/demo.svg.

.venv/bin/python scripts/record_demo.py
"""

import os
import pty
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "demo.svg"
COLUMNS = 92
COMMAND = "./scripts/demo"
THEME = TerminalTheme(
    (24, 26, 33),
    (214, 218, 226),
    [
        (24, 26, 33),
        (224, 108, 117),
        (126, 200, 130),
        (229, 192, 123),
        (97, 175, 239),
        (198, 120, 221),
        (86, 190, 205),
        (214, 218, 226),
    ],
    [
        (120, 126, 138),
        (240, 130, 138),
        (150, 220, 150),
        (240, 210, 150),
        (130, 195, 250),
        (215, 150, 235),
        (110, 210, 225),
        (255, 255, 255),
    ],
)
# No font is fetched: the reader's own fixed-width one is used.
_FONT_FACE = re.compile(r"\s*@font-face \{.*?\n\s*\}", re.DOTALL)


def record() -> str:
    """What the demo writes to its terminal, with nothing in it that belongs to this machine."""
    pieces: list[bytes] = []

    def read(descriptor: int) -> bytes:
        piece = os.read(descriptor, 65536)
        pieces.append(piece)
        return piece

    os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS))
    os.environ.pop("NO_COLOR", None)
    status = pty.spawn([str(ROOT / COMMAND)], read)
    if status != 0:
        sys.exit("the demo failed; nothing was drawn")
    printed = b"".join(pieces).decode().replace("\r\n", "\n")
    return printed.replace(str(ROOT), "~/openclaw")


def draw(printed: str) -> str:
    """The picture of a terminal with these words in it."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    console.print(Text.assemble(("$ ", "bold green"), (COMMAND, "bold")))
    console.print(Text.from_ansi(printed.rstrip()))
    svg = console.export_svg(title="openclaw", theme=THEME, unique_id="demo")
    svg = _FONT_FACE.sub("", svg)
    return svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")


if __name__ == "__main__":
    TARGET.write_text(draw(record()), encoding="utf-8")
    print(TARGET.relative_to(ROOT))
