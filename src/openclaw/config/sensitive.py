"""Finds credentials in a configuration by name, place and appearance."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from pydantic import ValidationError

from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.json5 import KeyPath, format_path
from openclaw.core.errors import InvalidRequest
from openclaw.secrets.credentials import (
    looks_like_credential,
    looks_random,
    names_no_secret,
)
from openclaw.secrets.patterns import Patterns
from openclaw.secrets.refs import SecretRef, find, has_reference
from openclaw.secrets.shapes import PEM_BEGIN

# Values of `auth` that aren't credentials.
_AUTH_WORDS = frozenset(["oauth", "none", "token", "password", "api-key", "aws-sdk"])
_QUERY = frozenset(["sig", "signature", "code"])
_FLAG = re.compile(r"-{1,2}(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.+)", re.DOTALL)
_HEADER = re.compile(r"(?P<name>[A-Za-z][\w-]*): *(?P<value>[^/\s].*)", re.DOTALL)
_NESTED = 3  # names before a value in one argument, as in --env=HEADERS=Authorization: …
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_KEYWORD_DSN = re.compile(r"\b(?:password|pwd)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s;]+)", re.IGNORECASE)


def is_reference(text: str) -> bool:
    return has_reference(text) or "${" in text


def credential_values(tree: Any) -> Iterator[tuple[KeyPath, str]]:
    """Each credential, known by the name of its key or option, or by its place in an address."""
    for path, text, name in _texts(tree):
        key = next((part for part in reversed(path) if isinstance(part, str)), "")
        if key == "args":
            found = _credentials_in_argument(text, after_flag=looks_like_credential(name))
        elif looks_like_credential(key) and not (key == "auth" and text in _AUTH_WORDS):
            found = [text]
        else:
            found = credentials_in_address(text)
        yield from ((path, credential) for credential in found if credential)


def _credentials_in_argument(text: str, *, after_flag: bool) -> list[str]:
    """As in `--key=…`, `KEY=…`, `Key: …`, `--env=KEY=…`, `--header=Key: …` and `--url=https://…`."""
    whole = [text] if after_flag and not text.startswith("--") else []
    for depth in range(_NESTED):
        match = _named(text)
        if match is None or not match["value"]:
            break
        text = match["value"]
        if looks_like_credential(match["name"]) and not (depth and whole):
            return [text]
    return whole or credentials_in_address(text)


def _named(text: str) -> re.Match[str] | None:
    return _FLAG.fullmatch(text) or _ASSIGNMENT.fullmatch(text) or _HEADER.fullmatch(text)


def credentials_in_address(text: str) -> list[str]:
    found = [match[1] for match in _KEYWORD_DSN.finditer(text)]
    if not _SCHEME.match(text) or text.startswith("secret://"):
        return found
    try:
        parts = urlsplit(text)
    except ValueError:
        return found
    userinfo = parts.netloc.rpartition("@")[0]
    name, colon, password = userinfo.partition(":")
    if colon:
        found.append(password)
    elif parts.scheme in ("http", "https"):  # https://TOKEN@host; ssh://git@host is a plain name
        found.append(name)
    for key, value in _query_pairs(parts):
        if looks_like_credential(key) or key.lower() in _QUERY:
            found.append(value)
    return [value for value in found if value]


def _query_pairs(parts: SplitResult) -> Iterator[tuple[str, str]]:
    for pair in re.split("[&;]", f"{parts.query}&{parts.fragment}"):
        key, _, value = pair.partition("=")
        yield key, value


def references(tree: Any) -> dict[SecretRef, list[str]]:
    """Each reference to a secret in a configuration, with the places that use it."""
    found: dict[SecretRef, list[str]] = {}
    for path, text, _ in _texts(tree):
        for ref in find(text):
            found.setdefault(ref, []).append(format_path(path))
    return found


# Keys whose values are also judged by appearance; elsewhere there are prompts and names.
_PLACES = frozenset(["env", "headers", "args", "url", "baseUrl"])
_WITH_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey)\s+(\S+)", re.IGNORECASE)
_BEGINS_WITH_SCHEME = re.compile(r"(?:bearer|basic|token|apikey) +\S", re.IGNORECASE)
_OPTION = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)(?:=|: *)([^/].*)", re.DOTALL)
_FLAG_NAME = re.compile(r"-{1,2}([A-Za-z][\w.-]*)")
# Values that aren't credentials, whatever their name says.
_PLACEHOLDER = re.compile(
    r"\s*|true|false|yes|no|none|null|on|off|\d{1,3}|<[^>]*>|.{1,2}"
    r"|oauth2?|basic|bearer|token|password|api-?key|enabled|disabled|required|optional|auto|default",
    re.IGNORECASE,
)
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@ -]+(?:/[\w.@ -]+)*/?|[A-Za-z]:[\\/][\w.@ \\/-]+")
_DEEP_OR_NAMED = re.compile(r".[^\\/]*[\\/][^\\/]|.*\.[A-Za-z]\w{0,9}$", re.DOTALL)


def plain_credentials(tree: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Where credentials are in plain text, and what they are, without `Bearer` and the like."""
    found: dict[KeyPath, list[str]] = {}
    for path, text in credential_values(tree):
        scheme = _WITH_SCHEME.fullmatch(text)
        value = scheme[1] if scheme else text
        if not (is_reference(text) or _is_harmless(value)):
            found.setdefault(path, []).append(value)
    for path, text, name in _texts(tree):
        if _PLACES.isdisjoint(path):
            continue
        known = found.setdefault(path, [])
        for value in _by_their_looks(path, text, name):
            if not any(value in other or other in value for other in known):
                known.append(value)
    yield from ((path, value) for path, values in found.items() for value in values)


def client_server(fields: Any, field: str | None = None) -> "McpServerConfig":
    """The server that a client describes; raises `InvalidRequest`.

    A project's file must not be able to send our secrets to a server of its choice.
    """
    # In each text, not in the whole as JSON: the `n` of an escaped line break would hide what follows.
    if any(has_reference(text) for _, text, _ in _texts(fields)):
        raise InvalidRequest("a client may not use secret references", field=field)
    try:
        return McpServerConfig.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]["msg"]
        raise InvalidRequest(problem, field=field) from None


def known_credentials(tree: Any) -> set[str]:
    """Every credential in plain text, for the redactor: as written and without `Bearer`."""
    whole = {text for _, text in credential_values(tree) if not has_reference(text)}
    # A server may send back just the token.
    bare = {text.partition(" ")[2].strip() for text in whole if _BEGINS_WITH_SCHEME.match(text)}
    by_their_looks = {text for _, text in plain_credentials(tree) if not has_reference(text)}
    return whole | bare | by_their_looks


def server_credentials(config: "McpServerConfig") -> list[str]:
    """The credentials of a server that isn't in our configuration."""
    places = config.model_dump(mode="json", include={"env", "headers", "args", "url"})
    return sorted(known_credentials(places))


def _is_harmless(value: str) -> bool:
    return _PLACEHOLDER.fullmatch(value) is not None or _is_path(value)


def _is_path(value: str) -> bool:
    """Whether this is a file's path; a key in base64 may start with a slash too."""
    if _PATH.fullmatch(value) is None or _DEEP_OR_NAMED.match(value) is None:
        return False
    return not looks_random(value.lstrip("~./"))


def _texts(value: object, path: KeyPath = (), name: str = "") -> Iterator[tuple[KeyPath, str, str]]:
    """Each text with its path and its name: its key, or the option before it in a list."""
    if isinstance(value, str):
        yield path, value, name
    elif isinstance(value, Mapping):
        for key, child in cast("Mapping[str, object]", value).items():
            yield from _texts(child, (*path, key), key)
    elif isinstance(value, list | tuple):
        before = name
        for index, child in enumerate(cast("Sequence[object]", value)):
            yield from _texts(child, (*path, index), before)
            flag = _FLAG_NAME.fullmatch(child) if isinstance(child, str) else None
            before = flag[1] if flag else name


def _by_their_looks(path: KeyPath, text: str, name: str) -> Iterator[str]:
    """Keys of known vendors, what follows `Bearer`, private keys, and random words."""
    if PEM_BEGIN.search(text):
        yield text
        return
    pieces = [text[start:end] for start, end in _shapes().spans(text, shapes=True)]
    scheme = _WITH_SCHEME.fullmatch(text)
    if scheme and "headers" in path:
        pieces.insert(0, scheme[1])
    if not names_no_secret(name):
        pieces += filter(looks_random, _words(text))
    yield from (one for one in pieces if not (is_reference(one) or _is_harmless(one)))


def _words(text: str) -> Iterator[str]:
    """Parts that may be a key: the whole text, an option's value, a part of an address."""
    given = _OPTION.fullmatch(text)
    if given is not None:
        if names_no_secret(given[1]):
            return
        text = given[2]
    yield text
    if "://" in text:
        try:
            parts = urlsplit(text)
        except ValueError:
            return
        yield from parts.path.split("/")
        for name, value in _query_pairs(parts):
            if not names_no_secret(name):
                yield value or name


@cache
def _shapes() -> "Patterns":
    return Patterns()
