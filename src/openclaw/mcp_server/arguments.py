"""Checks an order's arguments against the tool's schema. An error names the field by its path."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openclaw.core.errors import InvalidRequest

SESSION_KEY_LENGTH = 512
_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "a string"),
    "array": (list, "an array"),
    "object": (dict, "an object"),
}


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or image as it came: still base64, still only declared to be what it says."""

    field: str
    mime_type: str
    filename: str | None
    _given: dict[str, Any]

    def take(self) -> str:
        """The base64, once: it is taken out of the order, so that nothing keeps it in memory."""
        return self._given.pop("data")


@dataclass(frozen=True, slots=True)
class Order:
    """A well-formed order."""

    message: str
    session_key: str | None
    images: tuple[Attachment, ...]
    files: tuple[Attachment, ...]


def read_order(schema: Mapping[str, Any], arguments: Mapping[str, Any] | None) -> Order:
    """The order that these arguments are; InvalidRequest where the schema refuses them."""
    given = dict(arguments or {})
    _check(schema, given, "")
    session_key = given.get("sessionKey")
    if session_key is not None and not 0 < len(session_key) <= SESSION_KEY_LENGTH:
        raise InvalidRequest(
            f"must have 1 to {SESSION_KEY_LENGTH} characters, has {len(session_key)}",
            field="sessionKey",
        )
    if not (given["message"].strip() or given.get("images") or given.get("files")):
        raise InvalidRequest("is empty", field="message")
    return Order(
        message=given["message"],
        session_key=session_key,
        images=_attachments(given, "images"),
        files=_attachments(given, "files"),
    )


def _attachments(given: Mapping[str, Any], field: str) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(f"{field}[{index}]", item["mimeType"], item.get("filename"), item)
        for index, item in enumerate(given.get(field) or ())
    )


def _check(schema: Mapping[str, Any], value: Any, path: str) -> None:
    kind, name = _TYPES[schema["type"]]
    if not isinstance(value, kind):
        raise InvalidRequest(f"must be {name}, not {_name_of(value)}", field=path or "arguments")
    if isinstance(value, list):
        for index, item in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            _check(schema["items"], item, f"{path}[{index}]")
    elif isinstance(value, dict):
        _check_object(schema, value, path)  # pyright: ignore[reportUnknownArgumentType]


def _check_object(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> None:
    prefix = f"{path}." if path else ""
    for required in schema.get("required", ()):
        if required not in value:
            raise InvalidRequest("is required", field=prefix + required)
    known: Mapping[str, Any] = schema["properties"]
    for key in (
        known.keys() & value.keys()
    ):  # the schema admits further keys and says nothing of them
        _check(known[key], value[key], prefix + key)


def _name_of(value: Any) -> str:
    if value is None:
        return "null"
    names = (bool, "a boolean"), (int | float, "a number"), (str, "a string"), (list, "an array")
    return next((name for kind, name in names if isinstance(value, kind)), "an object")
