"""What in a configuration is a credential, judged by its name and its place."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from openclaw.config.keypath import KeyPath
from openclaw.secrets.lookslike import looks_like_credential
from openclaw.secrets.refs import has_reference

# What `auth` may say besides a credential.
_AUTH_WORDS = frozenset(["oauth", "none", "token", "password", "api-key", "aws-sdk"])
_QUERY = frozenset(["sig", "signature", "code"])
_FLAG = re.compile(r"-{1,2}(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.+)", re.DOTALL)
_HEADER = re.compile(r"(?P<name>[A-Za-z][\w-]*): *(?P<value>[^/\s].*)", re.DOTALL)
_NESTED = 3  # names before a value in one argument, as in --env=HEADERS=Authorization: …
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_KEYWORD_DSN = re.compile(r"\b(?:password|pwd)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s;]+)", re.IGNORECASE)


def is_reference(text: str) -> bool:
    """Whether a value says where a credential is, and is none itself."""
    return has_reference(text) or "${" in text


def credential_values(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every credential in a configuration, with its key path."""
    if isinstance(value, Mapping):
        for key, child in cast("Mapping[str, Any]", value).items():
            yield from credential_values(child, (*path, key))
    elif isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        if path[-1:] == ("args",):
            yield from _argument_values(items, path)
            return
        for index, child in enumerate(items):
            yield from credential_values(child, (*path, index))
    elif isinstance(value, str):
        yield from ((path, text) for text in _credentials_at(path, value) if text)


def _credentials_at(path: KeyPath, text: str) -> list[str]:
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    if looks_like_credential(name) and not (name == "auth" and text in _AUTH_WORDS):
        return [text]
    return credentials_in_address(text)


def _argument_values(args: Sequence[Any], path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    follows_flag = False
    for index, argument in enumerate(args):
        text = argument if isinstance(argument, str) else ""
        match = _named(text)
        named = match is not None and looks_like_credential(match["name"])
        complete = named and match is not None and bool(match["value"])
        if follows_flag and not complete and not text.startswith("--"):
            found = [text]
        else:
            found = _credentials_in_argument(text)
        follows_flag = named and match is not None and match["value"] is None
        yield from (((*path, index), credential) for credential in found if credential)


def _credentials_in_argument(text: str) -> list[str]:
    """As in `--key=…`, `KEY=…`, `Key: …`, `--env=KEY=…`, `--header=Key: …` and `--url=https://…`."""
    for _ in range(_NESTED):
        match = _named(text)
        if match is None or not match["value"]:
            break
        if looks_like_credential(match["name"]):
            return [match["value"]]
        text = match["value"]
    return credentials_in_address(text)


def _named(text: str) -> re.Match[str] | None:
    return _FLAG.fullmatch(text) or _ASSIGNMENT.fullmatch(text) or _HEADER.fullmatch(text)


def credentials_in_address(text: str) -> list[str]:
    """Passwords, tokens for user names, and token-like query values in a URL or a DSN."""
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
    for pair in re.split("[&;]", f"{parts.query}&{parts.fragment}"):
        key, _, value = pair.partition("=")
        if looks_like_credential(key) or key.lower() in _QUERY:
            found.append(value)
    return [value for value in found if value]
