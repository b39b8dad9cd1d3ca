"""The building blocks of the schema: the base model and the scalar types with their bounds."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Strict,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

MAX_NAME_LENGTH = 64
MAX_INTEGER = 2**53 - 1  # what every JSON reader keeps exactly

# A string that says "true" is a mistake to point out, not a value to guess at.
Text = Annotated[str, Strict()]
NonEmptyText = Annotated[str, Strict(), Field(min_length=1)]
Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=0, le=MAX_INTEGER)]
PositiveInt = Annotated[int, Strict(), Field(gt=0, le=MAX_INTEGER)]
Price = Annotated[float, Strict(), Field(ge=0)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Temperature = Annotated[float, Strict(), Field(ge=0, le=2)]
Milliseconds = Annotated[int, Strict(), Field(gt=0, le=86_400_000)]
Port = Annotated[int, Strict(), Field(ge=1, le=65_535)]
Texts = tuple[Text, ...]


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


# Environment variables and headers are text on the wire; a number in the file is plainly meant so.
Scalar = Annotated[
    str,
    BeforeValidator(_as_text),
    Strict(),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]


@dataclass(frozen=True, slots=True)
class AlsoAs:
    """Marks a field that takes short forms besides its own shape, for the JSON Schema."""

    forms: tuple[dict[str, Any], ...]

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        own = handler(core_schema)
        return {"anyOf": [*self.forms, *own.get("anyOf", [own])]}


def wrong_shape(expected: str) -> PydanticCustomError:
    """The error of a value that takes several shapes and has none of them."""
    return PydanticCustomError("wrong_shape", "must be {expected}", {"expected": expected})


class Section(BaseModel):
    """A part of the configuration: frozen, and refusing what it does not know.

    The text below a field describes it. `describe` reads it when a schema is asked for: to read it
    at import, as pydantic can, would cost every command half as much again.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
    )
