"""What servers declare: the parts of MCP's types that are used here.

The SDK has them all, for every revision, but its import takes longer than most servers' start.
"""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Declared(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, defer_build=True
    )


class _Named(_Declared):
    name: str
    title: str | None = None
    description: str | None = None


class ToolAnnotations(_Declared):
    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(_Declared):
    task_support: Literal["forbidden", "optional", "required"] | None = None


class Tool(_Named):
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    execution: ToolExecution | None = None
    meta: dict[str, Any] | None = Field(default=None, alias="_meta")


class Resource(_Named):
    uri: str
    mime_type: str | None = None
    size: int | None = None
    meta: dict[str, Any] | None = Field(default=None, alias="_meta")


class ResourceTemplate(_Named):
    uri_template: str
    mime_type: str | None = None


class PromptArgument(_Named):
    required: bool | None = None


class Prompt(_Named):
    arguments: list[PromptArgument] | None = None


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
