"""The JSON Schema of the configuration, for editors."""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from openclaw.config.foreign import foreign_names
from openclaw.config.keypath import KeyPath
from openclaw.config.schema import Config, Section

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """What the configuration may say, as JSON Schema draft 2020-12."""
    generated = Config.model_json_schema(by_alias=True, schema_generator=_Generator)
    schema: dict[str, Any] = {"$schema": DIALECT, **generated, "title": "OpenClaw configuration"}
    described = {section.__name__: describe(section) for section in _sections(Section)}
    for name, definition in [("Config", schema), *schema["$defs"].items()]:
        if name != "Config":
            definition.pop("title", None)
        for key, text in described[name].items():
            definition["properties"][key]["description"] = text
    for definition, path in _FOREIGN_AT.items():
        target = schema if definition is None else schema["$defs"][definition]
        _accept_foreign(target, path)
    return schema


def describe(section: type[Section]) -> dict[str, str]:
    """What the settings of this section are, by key: the text below each field in its class."""
    texts: dict[str, str] = {}
    for parent in reversed(section.__mro__):
        if issubclass(parent, Section) and parent is not Section:
            texts.update(_texts_below_fields(parent))
    return {
        field.alias or name: texts[name]
        for name, field in section.model_fields.items()
        if name in texts
    }


def _texts_below_fields(section: type[Section]) -> dict[str, str]:
    statements = _class_bodies(section.__module__)[section.__name__]
    return {
        field.target.id: text.value.value
        for field, text in pairwise(statements)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


@cache
def _class_bodies(module: str) -> dict[str, list[ast.stmt]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


def _sections(parent: type[Section]) -> Iterator[type[Section]]:
    for section in parent.__subclasses__():
        if section.__module__.startswith("openclaw.config."):
            yield section
            yield from _sections(section)


# Where settings of features that we do not have are tolerated: definition, and a path to it.
_FOREIGN_AT: dict[str | None, KeyPath] = {
    None: (),
    "AgentDefaults": ("agents", "defaults"),
    "AgentEntry": ("agents", "list", 0),
    "ToolsConfig": ("tools",),
    "ExecToolConfig": ("tools", "exec"),
    "GatewayConfig": ("gateway",),
    "GatewayAuth": ("gateway", "auth"),
    "GatewayReload": ("gateway", "reload"),
    "LoggingConfig": ("logging",),
    "MediaConfig": ("media",),
    "ModelsConfig": ("models",),
    "ProviderConfig": ("models", "providers", "x"),
    "ModelEntry": ("models", "providers", "x", "models", 0),
    "SecretsConfig": ("secrets",),
    "McpConfig": ("mcp",),
    "ToolPolicyConfig": ("agents", "defaults", "tools"),
}


class _Generator(GenerateJsonSchema):
    schema_dialect = DIALECT

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never: a generated title only repeats the key."""
        return False


def _accept_foreign(definition: dict[str, Any], path: KeyPath) -> None:
    properties = definition["properties"]
    for name in sorted(foreign_names(path) - properties.keys()):
        properties[name] = {
            "description": "Belongs to a part of OpenClaw that is not here; not used."
        }
