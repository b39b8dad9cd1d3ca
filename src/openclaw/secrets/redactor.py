"""Keeps every known secret out of everything that leaves the process."""

import base64
import html
import json
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus, urlsplit

from openclaw.secrets.credentials import looks_like_credential
from openclaw.secrets.patterns import Patterns, replace_spans
from openclaw.secrets.streaming import StreamRedactor

# Short values need a rule, because a value of a few characters turns up by chance:
#
# - 8 characters or more: every form, anywhere;
# - 4 to 7 characters: the same, except that plain letters or plain digits are recognised only on
# their own, with no letter or digit next to them;
# - 1 to 3 characters, and words such as `true`: only as the value of a key that looks like a
# credential's (`password=abc`, `"token": "abc"`).

MIN_LENGTH: Final = 4
_MIN_ANYWHERE: Final = 8
_MIN_LINE: Final = 8
_MIN_IN_BYTES: Final = 6
_MIN_ENCODED: Final = 5
# A longer form is cut into blocks, so that a stream has to hold back little, and a truncated value
# is still recognised except for its last piece.
_LONGEST_FORM: Final = 192
_BLOCK: Final = 128
_ALL_FORMS_UP_TO: Final = 16 * 1024
_REMEMBERED_LENGTH: Final = 64  # names of agents, servers, tools and keys are in every call
_REGISTERED_UP_TO: Final = 256 * 1024
_BASE64_HEAD: Final = (0, 2, 3)  # characters that also depend on the 0, 1 or 2 bytes before
# fmt: off
COMMON_WORDS: Final = frozenset((
    "0000", "1234", "8080", "admin", "change", "changeme", "debug", "default", "development",
    "error", "example", "false", "info", "localhost", "name", "none", "null", "password",
    "production", "root", "secret", "test", "token", "true", "undefined", "user", "warning",
    # Placeholders for servers that require a key but don't check it.
    "anything", "api-key", "apikey", "dummy", "empty", "fake", "lm-studio", "local", "mock", "no-key",
    "nokey", "not-needed", "ollama", "openai", "placeholder", "unused", "vllm",
))
# fmt: on


class Forms:
    """What to look for: anywhere, standing alone, or as the value of a credential-like key."""

    def __init__(self) -> None:
        self.anywhere: set[str] = set()
        self.standalone: set[str] = set()
        self.keyed: set[str] = set()
        self.in_bytes: set[bytes] = set()

    def add(self, value: str) -> None:
        value = value[:_REGISTERED_UP_TO]
        stripped = value.strip()
        if not stripped:
            return
        self.in_bytes.update(_in_bytes(stripped))
        if len(stripped) < MIN_LENGTH or stripped.lower() in COMMON_WORDS:
            self.keyed.add(stripped)
        elif len(stripped) < _MIN_ANYWHERE and (stripped.isalpha() or stripped.isdecimal()):
            self.standalone.add(stripped)
            self.anywhere.update(f for f in _encoded(stripped.encode()) if len(f) > _MIN_ENCODED)
        else:
            self.anywhere.update(form for form in _forms(value) if len(form) >= MIN_LENGTH)


def _forms(value: str) -> Iterator[str]:
    stripped = value.strip()
    for part in {value, stripped, *_parts(stripped)}:
        for form in _all_forms(part) if len(part) <= _ALL_FORMS_UP_TO else _plain(part):
            yield from _blocks(form)
    for line in _secret_lines(stripped):
        yield from _plain(line)


def _in_bytes(stripped: str) -> Iterator[bytes]:
    """How the value is written in binary files; only forms that can't occur by chance."""
    if stripped.lower() in COMMON_WORDS:
        return
    for part in {stripped, *_parts(stripped), *_secret_lines(stripped)}:
        plain_word = part.isalpha() or part.isdecimal()
        if len(part) < (_MIN_ANYWHERE if plain_word else _MIN_IN_BYTES):
            continue
        for block in _blocks(part):
            yield block.encode("utf-8", "surrogatepass")
            # Without the last byte it is the same in both byte orders.
            yield block.encode("utf-16-le", "surrogatepass")[:-1]


def _all_forms(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "surrogatepass")
    yield from _plain(value)
    yield from _url(data)
    yield from (form for form in _encoded(data) if len(form) >= _MIN_ENCODED)
    for encoding in ("utf-16-le", "utf-16-be"):  # as PowerShell encodes commands
        wide = value.encode(encoding, "surrogatepass")
        yield from (form for form in _base64_forms(wide) if len(form) >= _MIN_ENCODED)


def _plain(value: str) -> Iterator[str]:
    """As it is, and as JSON, Python, HTML and a shell would write it."""
    yield value
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        yield _html_safe_json(escaped, "<>&")
        yield _html_safe_json(escaped, "<>&'")
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]
    yield repr(value)[1:-1]
    yield ascii(value)[1:-1]
    yield repr(value.encode("utf-8", "surrogatepass"))[2:-1]
    yield html.escape(value)
    yield html.escape(value, quote=False)
    yield shlex.quote(value).strip("'")


def _html_safe_json(escaped: str, unsafe: str) -> str:
    # How Go and others write JSON.
    for character in unsafe:
        escaped = escaped.replace(character, f"\\u{ord(character):04x}")
    return escaped


def _url(data: bytes) -> Iterator[str]:
    # As Python, encodeURIComponent, encodeURI and forms do it.
    for safe in ("", "/", "!~*'()", ";/?:@&=+$,#!~*'()"):
        yield from _both_cases(quote(data, safe=safe))
    yield from _both_cases(quote_plus(data))
    yield from _both_cases("".join(f"%{byte:02X}" for byte in data))
    yield quote(quote(data, safe=""), safe="")


def _both_cases(encoded: str) -> Iterator[str]:
    yield encoded
    if "%" in encoded:
        head, *rest = encoded.split("%")
        yield head + "".join(f"%{piece[:2].lower()}{piece[2:]}" for piece in rest)


def _encoded(data: bytes) -> Iterator[str]:
    for separator in ("", ":", " ", "-"):
        digits = data.hex(separator) if separator else data.hex()
        yield digits
        yield digits.upper()
    yield "".join(f"\\x{byte:02x}" for byte in data)
    for separator in (", ", ","):  # a list of bytes
        yield separator.join(map(str, data))
    yield base64.b32encode(data).decode().rstrip("=")
    yield from _base64_forms(data)


def _base64_forms(data: bytes) -> Iterator[str]:
    for offset, head in enumerate(_BASE64_HEAD):
        text = base64.b64encode(bytes(offset) + data).decode()
        ended = text.rstrip("=")[head:]  # if the data ends here
        within = text[head : (offset + len(data)) * 8 // 6]  # if more follows
        for form in {text[head:], ended, within}:
            yield form
            yield form.replace("+", "-").replace("/", "_")


def _blocks(form: str) -> Iterator[str]:
    if len(form) <= _LONGEST_FORM:
        yield form
        return
    starts = list(range(0, len(form), _BLOCK))
    if len(form) - starts[-1] < _MIN_ANYWHERE:
        starts.pop()
    for start, end in zip(starts, [*starts[1:], len(form)], strict=True):
        # A run of one character isn't specific to this secret, except after what comes before it.
        block = form[start:end] if _is_specific(form[start:end]) else form[start - _BLOCK : end]
        if _is_specific(block):
            yield block


def _is_specific(block: str) -> bool:
    return len(set(block)) > 3


def _secret_lines(value: str) -> Iterator[str]:
    lines = value.splitlines()
    if len(lines) < 2 or _as_table(value) is not None:
        return
    for line in lines:
        line = line.strip()
        if len(line) >= _MIN_LINE and not line.startswith("-----"):
            yield line


def _parts(value: str) -> Iterator[str]:
    """Secrets inside a secret: credential-like fields of JSON, the password of a URL."""
    table = _as_table(value)
    if table is not None:
        for part in _credential_leaves(table):
            yield part
            yield from _secret_lines(part)
        return
    if "://" in value and "\n" not in value:
        try:
            password = urlsplit(value).password
        except ValueError:
            return
        if password and len(password) >= _MIN_ANYWHERE:
            yield password


def _as_table(value: str) -> dict[str, Any] | None:
    if not value.startswith("{"):
        return None
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", document)


def _credential_leaves(node: Any, key: str = "") -> Iterator[str]:
    children: Iterable[tuple[str, Any]] = ()
    if isinstance(node, dict):
        children = cast("dict[str, Any]", node).items()
    elif isinstance(node, list):
        children = ((key, item) for item in cast("list[Any]", node))
    elif isinstance(node, str) and len(node) >= _MIN_ANYWHERE and looks_like_credential(key):
        yield node
    for name, child in children:
        yield from _credential_leaves(child, name)


__all__ = ["Redactor", "StreamRedactor"]


class Redactor:
    """Replaces every registered value with `[REDACTED]`. It may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: set[str] = set()
        self._forms = Forms()
        self._patterns: Patterns | None = None

    def register(self, value: str) -> None:
        with self._lock:
            if value in self._values:
                return
            self._forms.add(value)
            self._values.add(value)
            self._patterns = None

    def redact(self, text: str, *, shapes: bool = True) -> str:
        """The text with every registered value and, with `shapes`, every credential replaced."""
        patterns = self._patterns or self.patterns()
        short = len(text) <= _REMEMBERED_LENGTH
        if short and text in patterns.clean:
            return text
        spans = patterns.every_span(text, shapes=shapes)
        if spans:
            return replace_spans(text, spans)
        if shapes and short:
            patterns.remember_clean(text)
        return text

    def found_clean(self, facts: Mapping[str, object]) -> bool:
        """Whether these names and short texts were all searched before, as for a known tool."""
        clean = self.patterns().clean
        for name, one in facts.items():
            if name not in clean or not (one is True or (type(one) is str and one in clean)):
                return False
        return True

    def redact_known(self, text: str) -> str:
        """For approvals: text that only looks like a credential stays, since it may hide a command."""
        spans = self.patterns().every_span(text, shapes=False)
        return replace_spans(text, spans, "[a known secret of {} characters]".format)

    def holds(self, data: bytes | str) -> bool:
        """Whether it contains a registered value; in bytes as UTF-8 or UTF-16, but not compressed."""
        if isinstance(data, str):
            return self.redact(data, shapes=False) != data
        return self.patterns().occur_in(data)

    def patterns(self) -> Patterns:
        patterns = self._patterns
        if patterns is None:
            with self._lock:
                patterns = self._patterns = self._patterns or Patterns(**vars(self._forms))
        return patterns


def redacted_tree(value: object, redact: Callable[[str], str]) -> object:
    """A JSON value with `redact` applied to each of its texts, names included."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {
            redact(str(name)): redact(one) if type(one) is str else redacted_tree(one, redact)
            for name, one in items
        }
    if isinstance(value, (list, tuple)):
        return [redacted_tree(one, redact) for one in cast("list[object]", value)]
    return value
