"""Decides whether to use colour.

In this order: `NO_COLOR` set to anything means no colour (https://no-color.org); `FORCE_COLOR` and
`CLICOLOR_FORCE` mean colour even without a terminal; `CLICOLOR=0` and `TERM=dumb` mean none.
"""

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.markdown import Markdown

_DUMB = ("dumb", "unknown")


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def local_time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000).astimezone():%Y-%m-%d %H:%M}"


def print_unpadded(screen: "Console", stream: TextIO, parts: "Iterable[RenderableType]") -> None:
    """Print without the blanks that Rich fills lines up with."""
    with screen.capture() as captured:
        for part in parts:
            screen.print(part)
    stream.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    if environ.get("NO_COLOR"):
        return False
    if forced(environ):
        return True
    if environ.get("CLICOLOR") == "0" or is_dumb(environ):
        return False
    return stream.isatty()


def forced(environ: Mapping[str, str]) -> bool:
    return any(
        environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")
    )


def is_dumb(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM", "").lower() in _DUMB


def console(stream: TextIO, environ: Mapping[str, str], **options: Any) -> "Console":
    """A console that goes by this environment, not the process's; `options` are Rich's own."""
    from rich.console import Console

    colour = wants_colour(stream, environ)
    terminal = stream.isatty() and not is_dumb(environ)
    settings: dict[str, Any] = {
        "file": stream,
        "force_terminal": terminal or (colour and forced(environ)),
        "no_color": not colour,
        "color_system": "auto" if colour and terminal else "standard" if colour else None,
        # Rich would read the process's own variables.
        "_environ": {k: v for k, v in environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")},
    }
    return Console(**(settings | options))


def fitted(text: str, stream: TextIO, *, hang: int = 0) -> str:
    """The text wrapped to a terminal's width; continued lines are indented by `hang` columns."""
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(folded(line, width, hang) for line in text.split("\n"))


def folded(line: str, width: int, hang: int) -> str:
    indent = " " * hang
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


_FENCES = ("```", "~~~")


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, cut between two words if possible."""
    if len(text) <= limit:
        return text
    whole = text[: limit + 1].rpartition(" ")[0].rstrip()
    return f"{whole or text[:limit]}…"


def keep_line_breaks(text: str) -> str:
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
    from rich.markdown import Markdown

    return Markdown(keep_line_breaks(text))
