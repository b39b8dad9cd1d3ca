"""Words from outside: what is on the command line or on stdin has to be text."""

TYPE_CHECKING = False  # typing takes long to load, and a client of `mcp-server` waits
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

_PATHS = ("--config", "--file", "--image")


def is_text(word: str) -> bool:
    """Whether it could be decoded: Python keeps bytes that are not UTF-8 as halves of characters."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def undecodable(arguments: "Sequence[str]") -> str | None:
    before = ""
    for word in arguments:
        if not is_text(word):
            own = word.startswith("-") or not before.startswith("-")
            where = "" if own else f" (after {before})"
            advice = "; rename the file" if _names_a_file(before, word) else ""
            return f"the argument '{_shown(word)}'{where} is not UTF-8 text{advice}"
        before = word
    return None


def _names_a_file(before: str, word: str) -> bool:
    return before in _PATHS or word.partition("=")[0] in _PATHS


def _shown(word: str) -> str:
    raw = word.encode("utf-8", "surrogateescape")
    shown = raw.decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in shown)


def read_all(stream: "TextIO") -> str:
    try:
        return checked(stream.read())
    except UnicodeDecodeError:
        raise _not_text() from None


def read_line(stream: "TextIO") -> str:
    """The next line of stdin, empty at its end; raises `InvalidRequest` where it is not text."""
    try:
        return checked(stream.readline())
    except UnicodeDecodeError:
        raise _not_text() from None


def decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise _not_text() from None


def checked(text: str) -> str:
    if not is_text(text):
        raise _not_text()
    return text


def _not_text() -> Exception:
    from openclaw.core.errors import InvalidRequest

    return InvalidRequest("is not UTF-8 text", field="stdin")
