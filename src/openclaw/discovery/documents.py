"""What the index reads of a tool, cut to bounds that a hostile server cannot exceed."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import cast

import orjson

DESCRIPTION_CHARACTERS = 1500
PARAMETER_DESCRIPTION_CHARACTERS = 200
PARAMETERS = 60
ENUM_VALUES = 20
SCHEMA_DEPTH = 3


def _no_schema() -> Mapping[str, object]:
    return {}


@dataclass(frozen=True, slots=True)
class ToolDocument:
    """`full_name` identifies the tool in results; `name` is what its server calls it."""

    full_name: str
    server: str
    name: str
    description: str = ""
    schema: Mapping[str, object] = field(default_factory=_no_schema)
    server_description: str = ""


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    description: str
    values: tuple[str, ...]


def parameters(schema: Mapping[str, object]) -> list[Parameter]:
    found: list[Parameter] = []
    for parameter in _walk(schema, SCHEMA_DEPTH):
        found.append(parameter)
        if len(found) == PARAMETERS:
            break
    return found


def digest(document: ToolDocument) -> str:
    """Changes with anything that the index reads of the document."""
    read = [
        document.full_name,
        document.server,
        document.name,
        document.description[:DESCRIPTION_CHARACTERS],
        document.server_description[:DESCRIPTION_CHARACTERS],
        [[each.name, each.description, each.values] for each in parameters(document.schema)],
    ]
    text = orjson.dumps(repr(read))
    return blake2b(text, digest_size=12).hexdigest()


def catalogue_hash(documents: Iterable[ToolDocument]) -> str:
    """The same for the same tools in any order."""
    whole = blake2b(digest_size=16)
    for each in sorted(digest(document) for document in documents):
        whole.update(each.encode())
    return whole.hexdigest()


def _walk(schema: object, depth: int) -> Iterator[Parameter]:
    properties = _mapping(_mapping(schema).get("properties"))
    for name, value in properties.items():
        described = _mapping(value)
        yield _parameter(str(name), described)
        if depth > 1:
            yield from _walk(described, depth - 1)
            yield from _walk(described.get("items"), depth - 1)


def _parameter(name: str, described: Mapping[str, object]) -> Parameter:
    text = described.get("description")
    values = described.get("enum")
    listed = cast("list[object]", values) if isinstance(values, list) else []
    return Parameter(
        name=name[:PARAMETER_DESCRIPTION_CHARACTERS],
        description=text[:PARAMETER_DESCRIPTION_CHARACTERS] if isinstance(text, str) else "",
        values=tuple(str(value)[:40] for value in listed[:ENUM_VALUES]),
    )


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


# A pair seen once is hardly evidence; one seen ten times is.
_DOUBT = 3.0


def _no_pairs() -> Mapping[str, Mapping[str, int]]:
    return {}


@dataclass(frozen=True, slots=True)
class CoUse:
    """`pairs[a][b]` is the number of tasks that used both a and b, by full name."""

    pairs: Mapping[str, Mapping[str, int]] = field(default_factory=_no_pairs)

    def companions(self, used: Collection[str]) -> dict[str, float]:
        """Tools not used yet, each with a likelihood from 0 to 1."""
        result: dict[str, float] = {}
        for name in used:
            counts = self.pairs.get(name, {})
            most = max(counts.values(), default=0) + _DOUBT
            for other, count in counts.items():
                if other not in used:
                    result[other] = max(result.get(other, 0.0), count / most)
        return result


NO_CO_USE = CoUse()
