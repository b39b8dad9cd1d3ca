"""What servers declare, read so that a mistake costs as little as possible.

An entry without what identifies it raises `InvalidDeclaration`. Anything else that is wrong (a title
that is a number, annotations that are a list) counts as missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

from openclaw.mcp.jsonrpc import JsonObject

# In an input schema, null for one of these says no more than leaving it out.
_NULLABLE = frozenset({"properties", "required", "$defs", "definitions", "description", "title"})


class InvalidDeclaration(ValueError):
    """Raised when an entry lacks what it cannot be used without."""


def _required(fields: JsonObject, key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise InvalidDeclaration(f"{key}: " + ("missing" if value is None else "not text"))
    return value


def _text(fields: JsonObject, key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) else None


def _flag(fields: JsonObject, key: str) -> bool | None:
    value = fields.get(key)
    return value if isinstance(value, bool) else None


def _object(fields: JsonObject, key: str) -> JsonObject | None:
    value = fields.get(key)
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _written(**fields: Any) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ToolAnnotations:
    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None

    @classmethod
    def parse(cls, fields: JsonObject) -> Self:
        return cls(
            _text(fields, "title"),
            _flag(fields, "readOnlyHint"),
            _flag(fields, "destructiveHint"),
            _flag(fields, "idempotentHint"),
            _flag(fields, "openWorldHint"),
        )

    def to_json(self) -> JsonObject:
        return _written(
            title=self.title,
            readOnlyHint=self.read_only_hint,
            destructiveHint=self.destructive_hint,
            idempotentHint=self.idempotent_hint,
            openWorldHint=self.open_world_hint,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    input_schema: Mapping[str, Any]
    title: str | None = None
    description: str | None = None
    output_schema: Mapping[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    task_support: str | None = None
    meta: Mapping[str, Any] | None = None

    @classmethod
    def parse(cls, fields: JsonObject) -> Self:
        name, schema = _required(fields, "name"), _object(fields, "inputSchema")
        if schema is None:
            raise InvalidDeclaration("inputSchema: not an object")
        hints = _object(fields, "annotations")
        return cls(
            name=name,
            input_schema={
                key: value
                for key, value in schema.items()
                if value is not None or key not in _NULLABLE
            },
            title=_text(fields, "title"),
            description=_text(fields, "description"),
            output_schema=_object(fields, "outputSchema"),
            annotations=None if hints is None else ToolAnnotations.parse(hints),
            task_support=_text(_object(fields, "execution") or {}, "taskSupport"),
            meta=_object(fields, "_meta"),
        )

    @property
    def takes_tasks(self) -> bool:
        return self.task_support in ("optional", "required")

    def to_json(self) -> JsonObject:
        support = self.task_support
        return _written(
            name=self.name,
            title=self.title,
            description=self.description,
            inputSchema=self.input_schema,
            outputSchema=self.output_schema,
            annotations=self.annotations and self.annotations.to_json(),
            execution=None if support is None else {"taskSupport": support},
            _meta=self.meta,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None

    @classmethod
    def parse(cls, fields: JsonObject) -> Self:
        uri = _required(fields, "uri")
        return cls(
            uri=uri,
            name=_text(fields, "name") or uri,
            title=_text(fields, "title"),
            description=_text(fields, "description"),
            mime_type=_text(fields, "mimeType"),
        )

    def to_json(self) -> JsonObject:
        return _written(
            uri=self.uri,
            name=self.name,
            title=self.title,
            description=self.description,
            mimeType=self.mime_type,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None

    @classmethod
    def parse(cls, fields: JsonObject) -> Self:
        uri = _required(fields, "uriTemplate")
        return cls(
            uri_template=uri,
            name=_text(fields, "name") or uri,
            title=_text(fields, "title"),
            description=_text(fields, "description"),
            mime_type=_text(fields, "mimeType"),
        )

    def to_json(self) -> JsonObject:
        return _written(
            uriTemplate=self.uri_template,
            name=self.name,
            title=self.title,
            description=self.description,
            mimeType=self.mime_type,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None

    @classmethod
    def parse(cls, fields: JsonObject) -> Self:
        return cls(
            name=_required(fields, "name"),
            title=_text(fields, "title"),
            description=_text(fields, "description"),
            required=_flag(fields, "required"),
        )

    def to_json(self) -> JsonObject:
        return _written(
            name=self.name, title=self.title, description=self.description, required=self.required
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()

    @classmethod
    def parse(cls, fields: JsonObject) -> Self:
        listed = fields.get("arguments")
        return cls(
            name=_required(fields, "name"),
            title=_text(fields, "title"),
            description=_text(fields, "description"),
            arguments=tuple(
                PromptArgument.parse(cast("JsonObject", argument))
                for argument in (cast("list[Any]", listed) if isinstance(listed, list) else [])
                if isinstance(argument, dict)
            ),
        )

    def to_json(self) -> JsonObject:
        arguments = [argument.to_json() for argument in self.arguments]
        return _written(
            name=self.name,
            title=self.title,
            description=self.description,
            arguments=arguments or None,
        )


Declaration = Tool | Resource | ResourceTemplate | Prompt


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers: bounded, each entry well formed, in the server's own words.

    `dropped` says, in our words, what was left out and why.
    """

    tools: tuple[Tool, ...] = ()
    resources: tuple[Resource, ...] = ()
    resource_templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    instructions: str | None = None
    dropped: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        """Everything but `dropped`."""
        return _written(
            tools=[entry.to_json() for entry in self.tools],
            resources=[entry.to_json() for entry in self.resources],
            resourceTemplates=[entry.to_json() for entry in self.resource_templates],
            prompts=[entry.to_json() for entry in self.prompts],
            instructions=self.instructions,
        )

    @classmethod
    def parse(cls, value: Any) -> Self:
        """What `to_json` wrote; raises `InvalidDeclaration` for anything else."""
        if not isinstance(value, dict):
            raise InvalidDeclaration("not an object")
        fields = cast("JsonObject", value)
        return cls(
            tuple(map(Tool.parse, _objects(fields, "tools"))),
            tuple(map(Resource.parse, _objects(fields, "resources"))),
            tuple(map(ResourceTemplate.parse, _objects(fields, "resourceTemplates"))),
            tuple(map(Prompt.parse, _objects(fields, "prompts"))),
            _text(fields, "instructions"),
        )


def _objects(fields: JsonObject, key: str) -> list[JsonObject]:
    value = fields.get(key, [])
    if not isinstance(value, list) or not all(
        isinstance(item, dict) for item in cast("list[Any]", value)
    ):
        raise InvalidDeclaration(f"{key}: not a list of objects")
    return cast("list[JsonObject]", value)
