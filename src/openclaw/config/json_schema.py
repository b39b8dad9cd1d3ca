"""The JSON Schema of the configuration, for editors."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from openclaw.config.foreign import foreign_names
from openclaw.config.keypath import KeyPath
from openclaw.config.schema import Config

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """What the configuration may say, as JSON Schema draft 2020-12."""
    generated = Config.model_json_schema(by_alias=True, schema_generator=_Generator)
    schema: dict[str, Any] = {"$schema": DIALECT, **generated, "title": "OpenClaw configuration"}
    for definition in schema["$defs"].values():
        definition.pop("title", None)
    for definition, path in _FOREIGN_AT.items():
        target = schema if definition is None else schema["$defs"][definition]
        _accept_foreign(target, path)
    return schema


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
