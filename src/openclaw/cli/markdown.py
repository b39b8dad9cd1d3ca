"""Markdown on a terminal, with line breaks where the text has them, as chats show it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.markdown import Markdown

_FENCES = ("```", "~~~")


def keep_line_breaks(text: str) -> str:
    """The text with every line break outside code made one that Markdown keeps."""
    lines: list[str] = []
    in_code = False
    for line in text.split("\n"):
        if line.lstrip().startswith(_FENCES):
            in_code = not in_code
            lines.append(line)
        else:
            lines.append(f"{line}  " if line.strip() and not in_code else line)
    return "\n".join(lines)


def rendered(text: str) -> "Markdown":
    """The text as rich shows it."""
    from rich.markdown import Markdown

    return Markdown(keep_line_breaks(text))
