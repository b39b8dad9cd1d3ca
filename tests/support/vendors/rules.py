"""What the four interfaces' rules have in common."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

Json = Mapping[str, Any]

MOST_TOOLS = 128
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """Raised for a request that the vendor would not accept; `code` is the vendor's own word."""

    message: str
    code: str
    status: int = 400


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request, and what this account has issued: ids, signatures, encrypted thoughts.

    Without `issued`, such as for recorded traffic, any signature is taken for a real one.
    """

    body: Json
    model: str
    issued: frozenset[str] | None = None

    def was_issued(self, name: str) -> bool:
        return self.issued is None or name in self.issued


def refuse_openai(message: str, code: str = "invalid_value") -> NoReturn:
    raise Refused(message, code)


def refuse_anthropic(
    message: str, code: str = "invalid_request_error", status: int = 400
) -> NoReturn:
    raise Refused(message, code, status)


def refuse_google(message: str, code: str = "INVALID_ARGUMENT", status: int = 400) -> NoReturn:
    raise Refused(message, code, status)


def is_object(text: object) -> bool:
    """Whether these arguments are the text of a JSON object."""
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False


def listed(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def mapped(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def duplicates(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]


_URL_SAFE = str.maketrans("-_", "+/")


def merged(messages: Sequence[Json], content: str) -> list[Json]:
    """The messages with those of one role that follow each other made one, as vendors do."""
    out: list[Json] = []
    for message in messages:
        if out and out[-1].get("role") == message.get("role"):
            parts = [*listed(out[-1][content]), *listed(message.get(content))]
            out[-1] = {**out[-1], content: parts}
        else:
            out.append(message)
    return out


def decoded(data: object) -> bytes | None:
    """The bytes of base64, None if it is not valid."""
    try:
        return base64.b64decode(str(data).translate(_URL_SAFE), validate=True)
    except (ValueError, binascii.Error):
        return None


_SIGNS: Sequence[tuple[bytes, str]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def image_type(data: bytes) -> str | None:
    return next((kind for sign, kind in _SIGNS if data.startswith(sign)), None)


# ---- schemas

_BELOW_NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_BELOW_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_BELOW = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")


def _has_rules(schema: object) -> bool:
    return isinstance(schema, dict)


def schemas_in(schema: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every schema in this one, itself first, with where it is."""
    yield path, schema
    inside = mapped(schema)
    for keyword in _BELOW_NAMES:
        for name, below in mapped(inside.get(keyword)).items():
            yield from schemas_in(below, f"{path}/{keyword}/{name}")
    for keyword in _BELOW_LISTS:
        for number, below in enumerate(listed(inside.get(keyword))):
            yield from schemas_in(below, f"{path}/{keyword}/{number}")
    for keyword in _BELOW:
        for number, below in enumerate(listed(inside.get(keyword)) or [inside.get(keyword)]):
            if _has_rules(below):
                yield from schemas_in(below, f"{path}/{keyword}/{number}")


def types_of(schema: Json) -> list[str]:
    kind = schema.get("type")
    return (
        [kind] if isinstance(kind, str) else [one for one in listed(kind) if isinstance(one, str)]
    )


def resolves(root: object, reference: str) -> bool:
    target = root
    for step in reference.removeprefix("#").split("/")[1:]:
        target = mapped(target).get(step.replace("~1", "/").replace("~0", "~"))
    return reference.startswith("#") and target is not None
