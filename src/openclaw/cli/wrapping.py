"""Lines that fit the terminal, broken between words alone."""

import shutil
import textwrap
from typing import TextIO


def fitted(text: str, stream: TextIO, *, hang: int = 0) -> str:
    """The text for a terminal of any width; elsewhere it stays as it is.

    What a line goes on with on the next one stands `hang` columns further in.
    """
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(folded(line, width, hang) for line in text.split("\n"))


def folded(line: str, width: int, hang: int) -> str:
    """One line as several, none of them wider where its words allow it."""
    return textwrap.fill(
        line,
        width,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
