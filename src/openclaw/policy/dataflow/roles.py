"""What a parameter is for: where something goes, what is acted on, how much, or plain content."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from openclaw.policy.dataflow.atoms import address
from openclaw.policy.dataflow.normalise import singular, split, word_set

Schema = Mapping[str, object]
_ABSENT = object()


class Role(StrEnum):
    ADDRESS = "address"
    HANDLE = "recipient"
    TARGET = "object"
    SECRET = "credential"  # noqa: S105 - the name of a role
    COMMAND = "command"
    PATH = "path"
    QUANTITY = "quantity"
    CONTENT = "content"
    OTHER = "value"


@dataclass(frozen=True, slots=True)
class Value:
    """One leaf of a call's arguments. `parameter` is its path, as in `attachments.file_id`."""

    parameter: str
    text: str
    role: Role


_ROLE_OF_WORD = {
    word: role
    for role, row in {
        Role.SECRET: "password passwd passphrase secret token apikey pin credential permission role scope "
        "visibility access acl grant",
        Role.ADDRESS: "url uri link href endpoint webhook host hostname domain site website email iban account "
        "wallet phone ip callback address proxy upstream registry",
        Role.HANDLE: "recipient to cc bcc user username channel group team assignee member participant attendee "
        "invitee owner contact person payee remote chat room thread conversation destination receiver "
        "beneficiary sender reviewer collaborator audience list",
        Role.COMMAND: "command cmd script code sql shell expression program args argv query stdin",
        Role.PATH: "path file filename directory dir folder filepath src dest source",
        Role.QUANTITY: "amount price quantity count date time start end day duration due deadline n limit size "
        "month year hour minute from until timezone total number rate page offset priority",
        Role.TARGET: "id ids uuid guid sha key slug issue ticket pr index",
        Role.CONTENT: "body content text message description title subject summary note comment caption "
        "location label tag reason html markdown question topic name heading prompt data value street city "
        "html input item entry todo task patch diff old new string replacement",
    }.items()
    for word in row.split()
}
_EXIT_WORDS = word_set(
    "url uri link href endpoint webhook host hostname domain website recipient email iban phone callback "
    "to cc bcc payee wallet proxy"
)
_PATH_LIKE = re.compile(r"[~.]{0,2}/|\w+/[^\s@]*\.\w{1,5}$")
_NUMERIC = re.compile(r"[-+]?\d[\d.,]*|\d{4}-\d{2}-\d{2}.*|\d{1,2}:\d{2}.*")


def values_of(arguments: Mapping[str, object], schema: Mapping[str, object]) -> Iterator[Value]:
    """Every leaf of the arguments except what the schema itself fixes (enum, constant, boolean)."""
    stack: list[tuple[str, object, list[Schema]]] = [
        (name, value, _property([schema], name, schema))
        for name, value in reversed(dict(arguments).items())
    ]
    while stack:
        path, value, parts = stack.pop()
        if isinstance(value, dict):
            entries = cast("dict[object, object]", value)
            stack.extend(
                (f"{path}.{key}", one, _property(parts, str(key), schema))
                for key, one in entries.items()
            )
            stack.extend((path, str(key), []) for key in entries if not str(key).isidentifier())
        elif isinstance(value, list | tuple):
            items = [one for part in parts for one in _alternatives(part.get("items"), schema)]
            stack.extend((path, one, items) for one in reversed(cast("list[object]", value)))
        elif not _is_constant(value, parts):
            text = str(value)
            yield Value(path, text, role_of(path, text, parts))


def role_of(path: str, text: str, parts: list[Schema]) -> Role:
    found = _by_name(path)
    if (
        address(text)
        and found not in (Role.CONTENT, Role.QUANTITY)
        and not _is_plain_id(found, text)
    ):
        return Role.ADDRESS
    if found is Role.HANDLE and _PATH_LIKE.match(text):
        return Role.PATH
    if found in (Role.HANDLE, Role.ADDRESS) and len(text.split()) > 8:
        return Role.CONTENT
    if found is Role.QUANTITY and not _NUMERIC.fullmatch(text) and not any(map(str.isdigit, text)):
        return Role.OTHER
    if found is Role.OTHER and (_is_number(parts) or _NUMERIC.fullmatch(text)):
        return Role.QUANTITY
    return found


def _is_number(parts: list[Schema]) -> bool:
    return any(part.get("type") in ("integer", "number") for part in parts)


def is_exit_parameter(name: str, part: object) -> bool:
    return schema_of(part).get("format") in ("uri", "url", "email", "hostname") or bool(
        _EXIT_WORDS & _words(name)
    )


def properties(schema: Schema) -> Schema:
    return schema_of(schema.get("properties"))


def _by_name(path: str) -> Role:
    words = [singular(word) for word in reversed(split(path.rsplit(".", 1)[-1]))]
    if "id" in words or "ids" in words:
        return Role.TARGET
    secret = next((word for word in words if _ROLE_OF_WORD.get(word) is Role.SECRET), None)
    if secret:
        return Role.SECRET
    return next((_ROLE_OF_WORD[word] for word in words if word in _ROLE_OF_WORD), Role.OTHER)


def _words(name: str) -> set[str]:
    return {singular(word) for word in split(name)}


def _is_plain_id(role: Role, text: str) -> bool:
    return role is Role.TARGET and not set("@./") & set(text)


def _is_constant(value: object, parts: list[Schema]) -> bool:
    if value is None or isinstance(value, bool) or value == "":
        return True
    return any(
        value in _listed(part.get("enum")) or part.get("const", _ABSENT) == value for part in parts
    )


def _listed(allowed: object) -> list[object]:
    return cast("list[object]", allowed) if isinstance(allowed, list) else []


def _property(parts: list[Schema], name: str, root: Schema) -> list[Schema]:
    return [one for part in parts for one in _alternatives(properties(part).get(name), root)]


def _alternatives(part: object, root: Schema, depth: int = 4) -> list[Schema]:
    if not isinstance(part, Mapping) or not depth:
        return []
    schema = cast("Schema", part)
    name = str(schema.get("$ref", "")).rsplit("/", 1)[-1]
    definitions = schema_of(root.get("$defs") or root.get("definitions"))
    found = [schema, *_alternatives(definitions.get(name), root, depth - 1)]
    for key in ("anyOf", "oneOf", "allOf"):
        for one in _listed(schema.get(key)):
            found += _alternatives(one, root, depth - 1)
    return found


def schema_of(part: object) -> Schema:
    return cast("Schema", part) if isinstance(part, Mapping) else {}
