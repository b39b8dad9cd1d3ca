"""What in a configuration is a credential, judged by its name and place."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from openclaw.config.keypath import KeyPath

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset(
    [
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "pwd",
        "secret",
        "secrets",
        "token",
        "tokens",
        "credential",
        "credentials",
        "authorization",
        "bearer",
        "cookie",
        "cookies",
        "pat",
        "jwt",
        "dsn",
    ]
)
# "key" alone is too wide: these words before it make it a credential.
_KEY_KINDS = frozenset(
    [
        "api",
        "access",
        "private",
        "secret",
        "signing",
        "encryption",
        "client",
        "service",
        "account",
        "auth",
        "master",
        "app",
        "license",
        "deploy",
        "ssh",
        "shared",
        "admin",
        "subscription",
        "functions",
    ]
)
# These words after or before a secret word mean a quantity or a name, not a value.
_HARMLESS_WORDS = frozenset(
    [
        "max",
        "min",
        "limit",
        "limits",
        "budget",
        "count",
        "timeout",
        "ms",
        "id",
        "ids",
        "type",
        "name",
        "names",
        "file",
        "path",
        "url",
        "uri",
        "endpoint",
        "ttl",
        "expiry",
        "expires",
        "size",
        "length",
        "window",
        "header",
        "prefix",
        "policy",
        "mode",
        "mount",
        "dir",
        "directory",
    ]
)
_HARMLESS_NAMES = frozenset(["tokens", "secrets"])
_HEADERS = frozenset(
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"]
)
# Words that stand where a credential could, and are none: `auth: "oauth"`.
NOT_CREDENTIALS = frozenset(["oauth", "none", "token", "password", "env", "auto", "off"])
_FLAG = re.compile(r"-{1,2}(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def words_of(name: str) -> list[str]:
    """The words of a camelCase, snake_case, kebab-case or SHOUTED name, in lower case."""
    return [word.lower() for word in _WORDS.findall(name)]


def is_credential_name(name: str) -> bool:
    """Whether a value under this name is a credential."""
    words = words_of(name)
    if not words or name.lower() in _HARMLESS_NAMES or words[-1] in _HARMLESS_WORDS:
        return False
    if words[0] in ("max", "min"):
        return False
    if _SECRET_WORDS.intersection(words) or "auth" in words[-1:]:
        return True
    joined = "".join(words)
    return joined.endswith(("apikey", "accesskey", "privatekey", "secretkey")) or (
        words[-1] in ("key", "keys") and (len(words) == 1 or bool(_KEY_KINDS.intersection(words)))
    )


def is_credential_header(name: str) -> bool:
    """Whether this HTTP header carries a credential."""
    return name.lower() in _HEADERS or is_credential_name(name)


def credential_arguments(args: Sequence[str]) -> dict[int, int]:
    """Which command-line arguments are credentials: index, and where in the argument the value starts."""
    found: dict[int, int] = {}
    for index, argument in enumerate(args):
        match = _FLAG.fullmatch(argument)
        if match is None or not is_credential_name(match["name"]):
            continue
        if match["value"] is not None:
            found[index] = match.start("value")
        elif index + 1 < len(args) and not args[index + 1].startswith("--"):
            found[index + 1] = 0
    return found


def credentials_in_url(text: str) -> list[str]:
    """Passwords, user names that serve as tokens, and token-like query values in an address."""
    if not _SCHEME.match(text) or text.startswith("secret://"):
        return []
    try:
        parts = urlsplit(text)
    except ValueError:
        return []
    found: list[str] = []
    userinfo = parts.netloc.rpartition("@")[0]
    if userinfo:
        name, colon, password = userinfo.partition(":")
        # A name without a password is a token (https://TOKEN@host), except in ssh://git@host.
        found.append(password if colon else name if parts.scheme.startswith("http") else "")
    for pair in [*parts.query.split("&"), *parts.fragment.split("&")]:
        name, _, value = pair.partition("=")
        if is_credential_name(name) or name.lower() in ("sig", "signature", "code"):
            found.append(value)
    return [value for value in found if value]


def plaintext_credentials(value: Any) -> list[KeyPath]:
    """Where credentials stand in the file as they are, neither `secret://` nor `${VAR}`."""
    return [path for path, text in credential_values(value) if not is_reference(text)]


def is_reference(text: str) -> bool:
    """Whether a value says where a credential is, and is none itself."""
    return not text or "secret://" in text or "${" in text


def credential_values(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every credential in a configuration, with its key path."""
    if isinstance(value, Mapping):
        for key, child in cast("Mapping[str, Any]", value).items():
            here = (*path, key)
            if isinstance(child, str):
                yield from ((here, text) for text in _credentials_at(here, child))
            elif key == "args" and isinstance(child, list | tuple):
                yield from _argument_values(cast("Sequence[Any]", child), here)
            else:
                yield from credential_values(child, here)
    elif isinstance(value, list | tuple):
        for index, child in enumerate(cast("Sequence[Any]", value)):
            if isinstance(child, str):
                yield from (((*path, index), text) for text in credentials_in_url(child))
            else:
                yield from credential_values(child, (*path, index))


def _credentials_at(path: KeyPath, text: str) -> list[str]:
    name = str(path[-1])
    is_header = len(path) > 1 and path[-2] == "headers"
    if text in NOT_CREDENTIALS:
        return []
    if is_credential_header(name) if is_header else is_credential_name(name):
        return [text]
    return credentials_in_url(text)


def _argument_values(args: Sequence[Any], path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    texts = [argument if isinstance(argument, str) else "" for argument in args]
    found = credential_arguments(texts)
    for index, text in enumerate(texts):
        if index in found:
            yield (*path, index), text[found[index] :]
        else:
            yield from (((*path, index), inner) for inner in credentials_in_url(text))
