"""Loads the file into a typed configuration, or reports every problem at once."""

import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from openclaw.config.consistency import (
    ConfigFinding,
    findings,
    suggest,
    two_ways,
)
from openclaw.config.json5 import MAX_CHARACTERS, Document, KeyPath, format_path, parse
from openclaw.config.paths import CONFIG_NAME, config_path, digest, state_dir
from openclaw.config.schema import CONFIG_VERSION, Config
from openclaw.config.sensitive import known_credentials, plain_credentials
from openclaw.core.errors import InvalidConfig, Problem
from openclaw.core.installed import sections
from openclaw.secrets.credentials import looks_like_credential
from openclaw.secrets.refs import InvalidReference, find
from openclaw.version import __version__

# What other programs call a key, if our name for it is spelt very differently.
_ELSEWHERE = {
    "type": "transport",
    "workingDirectory": "cwd",
    "directory": "cwd",
    "environment": "env",
    "arguments": "args",
    "disabled": "enabled",
    "mcpServers": "mcp",
    "apikey": "apiKey",
    "endpoint": "url",
}


@cache
def unsupported_keys() -> Mapping[KeyPath, frozenset[str]]:
    """Names of unsupported settings by path; "*" is any name or index."""
    return {
        tuple(filter(None, path.split("."))): frozenset(" ".join(rows).split())
        for paths, rows in sections("openclaw.config", "unsupported_keys.txt")["below"].items()
        for path in paths.split()
    }


def unsupported_names(path: KeyPath) -> frozenset[str]:
    for pattern, names in unsupported_keys().items():
        if len(pattern) == len(path) and all(
            wanted in ("*", part) for wanted, part in zip(pattern, path, strict=True)
        ):
            return names
    return frozenset()


def split_unsupported(tree: Any) -> tuple[Any, list[KeyPath]]:
    """The tree without settings that are not supported, and their paths."""
    found: list[KeyPath] = []

    def without_unsupported(value: Any, path: KeyPath) -> Any:
        if isinstance(value, list):
            items = enumerate(cast("list[Any]", value))
            return [without_unsupported(child, (*path, index)) for index, child in items]
        if not isinstance(value, Mapping):
            return value
        names, own = unsupported_names(path), dict[str, Any]()
        for key, child in cast("Mapping[str, Any]", value).items():
            if key in names:
                found.append((*path, key))
            else:
                own[key] = without_unsupported(child, (*path, key))
        return own

    return without_unsupported(tree, ()), found


def explain(error: ErrorDetails) -> ConfigFinding:
    path = tuple(error["loc"])
    kind = error["type"]
    if path and path[-1] == "[key]":
        return ConfigFinding(path[:-1], "a name must not be empty", of_key=True)
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        return ConfigFinding(path, "is required", missing=True)
    return ConfigFinding(path, _phrase(error))


def _unknown_key(path: KeyPath) -> ConfigFinding:
    key = str(path[-1])
    if key == "$include":
        return ConfigFinding(path, "other files cannot be included", of_key=True)
    known = known_keys(path[:-1])
    close = _ELSEWHERE.get(key) if _ELSEWHERE.get(key) in known else suggest(key, known)
    hint = f'; did you mean "{close}"?' if close else ""
    return ConfigFinding(path, f"unknown key{hint}", of_key=True, meant=close)


_KINDS: Mapping[type, str] = {
    NoneType: "null",
    int: "a number",
    float: "a number",
    str: "text",
    dict: "an object",
}
_SHAPES = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
    "tuple_type": "a list",
}
_REWORDED = {
    "Input should be": "must be",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "String should have at least 1 character": "must not be empty",
}


def _phrase(error: ErrorDetails) -> str:
    kind, given = error["type"], cast("object", error["input"])
    if kind in _SHAPES:
        what = str(given).lower() if isinstance(given, bool) else _KINDS.get(type(given), "a list")
        found = "" if (kind, type(given)) == ("int_type", float) else f", not {what}"
        return f"must be {_SHAPES[kind]}{found}"
    message = error["msg"]
    for theirs, ours in _REWORDED.items():
        message = message.replace(theirs, ours)
    return message


def known_keys(path: Sequence[str | int]) -> list[str]:
    found = next(models_in(annotation_at(path)), None)
    if found is None:
        return []
    return [field.alias or name for name, field in found.model_fields.items()] + sorted(
        unsupported_names(tuple(path))
    )


def annotation_at(path: Sequence[str | int]) -> Any:
    annotation: Any = Config
    for part in path:
        annotation = _inner(annotation, part)
    return annotation


def _inner(annotation: Any, part: str | int) -> Any:
    for model in models_in(annotation, deep=False):
        for name, info in model.model_fields.items():
            if part in (info.alias, name):
                return info.annotation
    for candidate in (annotation, *get_args(annotation)):
        arguments = [inner for inner in get_args(candidate) if inner not in (..., NoneType)]
        if get_origin(candidate) in (dict, tuple) and arguments:
            return arguments[-1]
    return None


def models_in(annotation: Any, *, deep: bool = True) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif deep or get_origin(annotation) not in (dict, tuple):
        for inner in get_args(annotation):
            yield from models_in(inner, deep=deep)


_MARK = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|\$\{")


@dataclass(slots=True)
class Interpolation:
    """Replaces `${NAME}`. `credentials` are values that are secret by their name or by a reference."""

    environ: Mapping[str, str]
    problems: list[tuple[KeyPath, str]] = field(default_factory=list[tuple[KeyPath, str]])
    credentials: set[str] = field(default_factory=set[str])

    def text(self, text: str, path: KeyPath) -> str:
        if "\0" in text:
            self.problems.append((path, "contains a NUL character"))
            return text
        replaced = _MARK.sub(lambda mark: self._value(mark, path), text)
        self._check_references(replaced, path)
        return replaced

    def _value(self, mark: re.Match[str], path: KeyPath) -> str:
        if mark[0] == "$${":
            return "${"
        name = mark["name"]
        if name is None:
            how = "write '$${' for the characters themselves"
            problem = f"'${{' is not followed by a variable's name and '}}'; {how}"
        elif name not in self.environ:
            problem = f"the environment variable {name} is not set"
        else:
            if looks_like_credential(name):
                self.credentials.add(self.environ[name])
            return self.environ[name]
        self.problems.append((path, problem))
        return mark[0]

    def _check_references(self, text: str, path: KeyPath) -> None:
        if path[-1:] == ("systemPrompt",):  # prose may mention references
            return
        try:
            for ref in find(text):
                if ref.scheme == "env":  # can be checked right away
                    self.credentials.add(self.environ.get(ref.name) or "")
        except InvalidReference as error:
            hint = f"; {error.hint}" if error.hint else ""
            self.problems.append((path, f"{error.message}{hint}"))


# A repaired tree has at most one round of new errors; more would be a bug in the repair.
_REPAIR_ROUNDS = 3
_MAX_BYTES = 4 * MAX_CHARACTERS  # no character takes more in UTF-8


FileStamp = str  # changes with a file's content; empty if there is no file


def stamp(path: Path) -> FileStamp:
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_mtime_ns} {status.st_size} {status.st_ino}"


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A valid configuration.

    `credentials` are values that must never be shown, from the file or from variables that it
    names; `plaintext` are the key paths of those in the file. `reminders` are the `warnings` about
    them, which aren't urgent. `digest` is the digest of the file's content, and `stamp` its stamp
    before it was read.
    """

    config: Config
    path: Path
    exists: bool
    warnings: tuple[str, ...] = ()
    credentials: frozenset[str] = field(default=frozenset(), repr=False)
    plaintext: tuple[str, ...] = ()
    reminders: frozenset[str] = frozenset()
    digest: str = ""
    stamp: FileStamp = ""


def require_file(loaded: LoadedConfig, before: LoadedConfig) -> None:
    """Raise if the file is gone: falling back to the defaults would drop every rule in it."""
    if before.exists and not loaded.exists:
        problem = Problem("", "no longer exists; put it back, or restart without it")
        raise InvalidConfig([problem], source=str(loaded.path))


def load_config(path: Path | None, environ: Mapping[str, str]) -> LoadedConfig:
    """Read the configuration; a missing file means the defaults.

    Raises InvalidConfig with every problem, each with its key path, line and column.
    """
    source = path if path is not None else config_path(environ)
    seen = stamp(source)
    text = read_text(source)
    if text is None:
        named = path is None and source != state_dir(environ) / CONFIG_NAME
        missing = (
            f"{source} does not exist, so the defaults are used (OPENCLAW_CONFIG_PATH names it)"
        )
        return LoadedConfig(Config(), source, exists=False, warnings=(missing,) if named else ())
    loaded = replace(
        parse_config(text, environ, source=source), digest=digest(text.encode()), stamp=seen
    )
    if not text.strip():
        return replace(loaded, warnings=(f"{source} is empty, so the defaults are used",))
    if not loaded.plaintext or sys.platform == "win32" or not source.stat().st_mode & 0o044:
        return loaded
    warning = (
        f"{source} contains credentials and other users of this machine can read it; "
        f"run: chmod 600 {source}"
    )
    return replace(loaded, warnings=(warning, *loaded.warnings))


def read_text(path: Path) -> str | None:
    """The file's text, or None if there is no file. Raises InvalidConfig if it cannot be read."""
    try:
        mode = path.stat().st_mode  # before it is opened: opening a pipe would block
        if stat.S_ISDIR(mode):
            raise _unreadable(path, "is a directory, not a file")
        if not stat.S_ISREG(mode):
            raise _unreadable(path, "is not a regular file")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)  # bounded by count: it may grow meanwhile
        if len(content) > _MAX_BYTES:
            raise _unreadable(path, f"is larger than {MAX_CHARACTERS} characters")
        return content.decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise _unreadable(
            path, f"is not UTF-8 text: the first wrong byte is in line {line}"
        ) from error
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror or error}") from error


def _unreadable(path: Path, message: str) -> InvalidConfig:
    return InvalidConfig([Problem("", message)], source=str(path))


def parse_config(text: str, environ: Mapping[str, str], *, source: Path) -> LoadedConfig:
    try:
        document = parse(text)
    except InvalidConfig as error:
        raise InvalidConfig(error.problems, source=str(source)) from None
    _refuse_newer(document, source)
    interpolation = Interpolation(environ)
    tree, unsupported = split_unsupported(document.root.plain(interpolation.text))
    check = _Check(document)
    for path, message in interpolation.problems:
        if not any(path[: len(ignored)] == ignored for ignored in unsupported):
            check.report(path, message)
    config = check.validated(tree)
    if check.problems:
        found = sorted(check.problems, key=lambda one: (one.line or 0, one.column or 0))
        raise InvalidConfig(found, source=str(source))
    written = document.root.plain()  # an object, since it is valid
    plaintext = list(dict.fromkeys(path for path, _ in plain_credentials(written)))
    reminders = _reminders(plaintext)
    return LoadedConfig(
        config,
        source,
        exists=True,
        warnings=(
            *_not_used(document, unsupported),
            *reminders,
            *(f"{message}; remove the other" for message in two_ways(config)),
        ),
        credentials=frozenset((interpolation.credentials | known_credentials(tree)) - {""}),
        plaintext=tuple(format_path(path) for path in plaintext),
        reminders=frozenset(reminders),
    )


def _refuse_newer(document: Document, source: Path) -> None:
    """Raise before anything else is reported: what a newer version added would look like mistakes."""
    node = document.find(("version",))
    found = None if node is None else node.plain()
    if isinstance(found, int) and found > CONFIG_VERSION:
        message = (
            f"{found} is newer than this program, {__version__}, which knows {CONFIG_VERSION}; "
            "update openclaw-runtime"
        )
        problem = Problem("version", message, *document.position(("version",)))
        raise InvalidConfig([problem], source=str(source))


def _reminders(plaintext: list[KeyPath]) -> list[str]:
    """One warning for each MCP server with a credential in the file, and one for the store."""
    names = {path[path.index("servers") + 1] for path in plaintext if "servers" in path}
    found = [
        f"MCP server '{name}' has plaintext credentials in config — "
        "consider using secret:// references"
        for name in sorted(map(str, names))
    ]
    if ("sessions", "store") in plaintext:
        better = "postgresql://USER:<secret://env/NAME>@HOST/DATABASE"
        found.append(f"sessions.store has a plaintext password in config — consider using {better}")
    return found


def _not_used(document: Document, unsupported: list[KeyPath]) -> tuple[str, ...]:
    """A single warning: a file for the original OpenClaw may have dozens of such keys."""
    places = ", ".join(
        f"{format_path(path)} (line {document.position(path, of_key=True)[0]})"
        for path in unsupported
    )
    return (f"not supported, and ignored: {places}",) if places else ()


class _Check:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._reported: set[KeyPath] = set()
        self.problems: list[Problem] = []

    def report(self, path: KeyPath, message: str, *, of_key: bool = False) -> None:
        if any(path[:length] in self._reported for length in range(len(path) + 1)):
            return
        self._reported.add(path)
        line, column = self._document.position(path, of_key=of_key)
        written = format_path(self._as_written(path))
        self.problems.append(Problem(written, message, line, column))

    def _as_written(self, path: KeyPath) -> KeyPath:
        """Without keys that a short form leaves out, as in `model: "a/b"` for `model.primary`."""
        for length in range(len(path)):
            node = self._document.find(path[:length])
            if node is not None and node.kind not in ("object", "array"):
                return path[:length]
        return path

    def validated(self, tree: Any) -> Config:
        for _ in range(_REPAIR_ROUNDS):
            try:
                config = Config.model_validate(tree, by_alias=True, by_name=False)
            except ValidationError as error:
                if not isinstance(tree, dict):
                    break
                found = [explain(details) for details in error.errors(include_url=False)]
                # Mistyped keys first, so that the intended key isn't reported as missing too.
                for each in sorted(found, key=lambda each: each.missing):
                    self._explain(each, cast("dict[str, Any]", tree))
            else:
                # As written: a provider with a problem of its own still counts.
                providers = self._document.find(("models", "providers"))
                for each in findings(config, list(providers.members) if providers else []):
                    self.report(each.path, each.message, of_key=each.of_key)
                return config
        if not self.problems:
            self.report((), "must be an object, as in { agents: {} }")
        return Config()

    def _explain(self, found: ConfigFinding, tree: dict[str, Any]) -> None:
        self.report(found.path, found.message, of_key=found.of_key)
        if found.meant is not None:
            meant = (*found.path[:-1], found.meant)
            if self._document.find(meant) is None:  # it is not missing, only mistyped
                self._reported.add(meant)
        if found.missing:
            _put(tree, found.path, f"unset-{len(self.problems)}")
        else:
            _take_out(tree, found.path, len(self.problems))


def _put(tree: Any, path: KeyPath, value: Any) -> None:
    for part in path[:-1]:
        tree = tree[part]
    tree[path[-1]] = value


def _take_out(tree: Any, path: KeyPath, number: int) -> None:
    """Remove what is wrong so that the rest can be checked; list indexes must not shift."""
    if path[-2:-1] == ("servers",):
        _put(tree, path, {"enabled": False})
        return
    if path[:2] == ("agents", "list") and len(path) == 3:
        _put(tree, path, {"id": f"unset-{number}"})
        return
    keys = list(path)
    while isinstance(keys[-1], int):
        keys.pop()
    for part in keys[:-1]:
        if part not in tree and not isinstance(part, int):
            return  # already removed because of an earlier error
        tree = tree[part]
    if isinstance(tree, dict):
        cast("dict[str, Any]", tree).pop(str(keys[-1]), None)
