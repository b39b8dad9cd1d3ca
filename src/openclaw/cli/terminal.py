"""How text looks on a terminal: colours, widths, Markdown, and no control characters."""

import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from openclaw.core.errors import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.markdown import Markdown

    from openclaw.agent.port import Reply
    from openclaw.cli.environment import Environment
    from openclaw.core.content import Media

_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_DUMB = ("dumb", "unknown")
_PLAIN_WIDTH = 120  # of a table into a pipe or a file, unless COLUMNS says otherwise

Redact = Callable[[str], str]


def visible(text: str) -> str:
    """The text with line breaks, control characters and invisible characters escaped."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_lines(text: str) -> str:
    """The same, but line breaks and tabs stay."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in lines)


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def local_time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000).astimezone():%Y-%m-%d %H:%M}"


def print_unpadded(
    stream: TextIO, environ: Mapping[str, str], parts: "Iterable[RenderableType]", least: int = 0
) -> None:
    """Print without Rich's trailing padding, at least `least` columns wide."""
    given = environ.get("COLUMNS", "")
    width = int(given) if given.isdecimal() and int(given) > 0 else _PLAIN_WIDTH
    width = shutil.get_terminal_size().columns if stream.isatty() else width
    screen = console(stream, environ, width=max(width, least), highlight=False)
    with screen.capture() as captured:
        for part in parts:
            screen.print(part)
    stream.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """`NO_COLOR` set to anything means no colour (https://no-color.org); `FORCE_COLOR` means colour
    even without a terminal; `TERM=dumb` means none.
    """
    if environ.get("NO_COLOR"):
        return False
    forced = environ.get("FORCE_COLOR", "0") not in ("", "0")
    return forced or (stream.isatty() and not is_dumb(environ))


def is_dumb(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM", "").lower() in _DUMB


def console(stream: TextIO, environ: Mapping[str, str], **options: Any) -> "Console":
    """A console that uses this environment, not the process's; `options` are Rich's."""
    from rich.console import Console

    colour = wants_colour(stream, environ)
    terminal = stream.isatty() and not is_dumb(environ)
    return Console(
        file=stream,
        force_terminal=terminal or colour,
        no_color=not colour,
        color_system=None if not colour else "auto" if terminal else "standard",
        # Rich would read the process's own variables.
        _environ={k: v for k, v in environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")},
        **options,
    )


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


FENCES = ("```", "~~~")


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
        if line.lstrip().startswith(FENCES):
            in_code = not in_code
            lines.append(line)
        else:
            lines.append(f"{line}  " if line.strip() and not in_code else line)
    return "\n".join(lines)


def rendered(text: str) -> "Markdown":
    from rich.markdown import Markdown

    return Markdown(keep_line_breaks(visible_lines(text.replace("\t", "    "))))


def print_markdown(stream: TextIO, text: str, environ: Mapping[str, str] | None = None) -> None:
    if not stream.isatty():
        stream.write(text if text.endswith("\n") else f"{text}\n")
        return
    console(stream, environ or {}).print(rendered(text))


# ---- an answer


def report(
    env: "Environment",
    reply: "Reply",
    session: str,
    refused: list[str],
    lacking: str | None,
    json: bool,
) -> int:
    """Print it and return the exit code; `lacking` describes what was `refused`."""
    if json:
        env.say_json({**as_json(reply, session), "refused": refused})
    else:
        text = env.redactor.redact(reply.text) or "(No response)"
        print_markdown(env.stdout, text, env.environ)
        for media in reply.media:
            env.say(f"[{media.mime_type}] {place_of(media)}")
        if lacking is not None:
            env.warn(lacking)
    return EXIT_OK if reply.outcome in ("ok", "duplicate") else EXIT_FAILED


def place_of(media: "Media") -> str:
    if media.path is not None:
        return str(media.path)
    if media.url is not None:
        return media.url
    return f"{media.name or 'unnamed'}, {len(media.data or b'')} bytes"


def as_json(reply: "Reply", session_key: str) -> dict[str, Any]:
    return {
        "text": reply.text,
        "outcome": reply.outcome,
        "sessionKey": session_key,
        "sessionId": reply.session_id,
        "turnId": reply.turn_id,
        "usage": {
            "inputTokens": reply.usage.input_tokens,
            "outputTokens": reply.usage.output_tokens,
            "requests": reply.usage.requests,
            "toolCalls": reply.usage.tool_calls,
            "cost": None if reply.usage.unpriced and not reply.usage.cost else reply.usage.cost,
        },
        "media": [{"mimeType": one.mime_type, "where": place_of(one)} for one in reply.media],
    }
