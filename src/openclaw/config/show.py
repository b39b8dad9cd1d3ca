"""The configuration as it takes effect, fit to be shown: every credential as `[REDACTED]`."""

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import pairwise
from typing import Any, cast

from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema

from openclaw.config.agent_schema import Section
from openclaw.config.consistency import foreign_names
from openclaw.config.json5 import KeyPath
from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.config.schema import Config
from openclaw.config.sensitive import credential_values
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import find

REDACTED = "[REDACTED]"
# Shorter values are hidden where they stand; elsewhere they are parts of ordinary words.
_MIN_SPREAD = 6


def effective(loaded: LoadedConfig) -> dict[str, Any]:
    """Everything that takes effect, defaults and each agent's own, as plain JSON. Not redacted.

    What is not set and has no default is left out.
    """
    config = loaded.config
    tree = config.model_dump(mode="json", by_alias=True, exclude={"schema_", "mcp", "agents"})
    agents = effective_agents(config)
    return _set_ones(
        {
            "agents": {
                "default": default_agent_id(config),
                "list": [_agent(agent) for agent in agents.values()],
            },
            **tree,
        }
    )


def _set_ones(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        members = cast("Mapping[str, Any]", tree)
        return {key: _set_ones(child) for key, child in members.items() if child is not None}
    if isinstance(tree, list):
        return [_set_ones(child) for child in cast("list[Any]", tree)]
    return tree


def redacted(
    tree: Any, *, credentials: Iterable[str] = (), redactor: Redactor | None = None
) -> Any:
    """The same tree with every credential replaced; references to secrets stay.

    `credentials` are values to hide wherever they stand; `redactor` hides what else is known.
    """
    at: dict[KeyPath, list[str]] = {}
    for path, text in credential_values(tree):
        at.setdefault(path, []).append(text)
    spread = sorted((c for c in credentials if len(c) >= _MIN_SPREAD), key=len, reverse=True)
    return _Shown(at, spread, redactor).value(tree, ())


def show(loaded: LoadedConfig, *, redactor: Redactor | None = None) -> dict[str, Any]:
    """The effective configuration, with every secret as `[REDACTED]`."""
    return redacted(effective(loaded), credentials=loaded.credentials, redactor=redactor)


class _Shown:
    def __init__(
        self, at: Mapping[KeyPath, list[str]], credentials: Sequence[str], redactor: Redactor | None
    ) -> None:
        self._at = at
        self._credentials = credentials
        self._redactor = redactor

    def value(self, tree: Any, path: KeyPath) -> Any:
        if isinstance(tree, Mapping):
            members = cast("Mapping[str, Any]", tree)
            return {key: self.value(child, (*path, key)) for key, child in members.items()}
        if isinstance(tree, list | tuple):
            items = cast("Sequence[Any]", tree)
            return [self.value(child, (*path, index)) for index, child in enumerate(items)]
        return self._text(tree, path) if isinstance(tree, str) else tree

    def _text(self, text: str, path: KeyPath) -> str:
        for credential in self._at.get(path, ()):
            text = text.replace(credential, _hidden(credential))
        for credential in self._credentials:
            text = text.replace(credential, REDACTED)
        return self._redactor.redact(text) if self._redactor else text


def _hidden(credential: str) -> str:
    """A whole credential as `[REDACTED]`; of one with references in it, what is around them."""
    occurrences = find(credential)
    if not occurrences:
        return REDACTED
    pieces: list[str] = []
    position = 0
    for occurrence in occurrences:
        pieces.append(_hidden_around(credential[position : occurrence.start]))
        pieces.append(credential[occurrence.start : occurrence.end])
        position = occurrence.end
    pieces.append(_hidden_around(credential[position:]))
    return "".join(pieces)


def _hidden_around(text: str) -> str:
    # "Bearer " and "Basic " before a reference say how it is used and hide nothing.
    return text if len(text.strip()) < 8 else REDACTED


def _agent(agent: EffectiveAgent) -> dict[str, Any]:
    entry = {field.name: _plain(getattr(agent, field.name)) for field in fields(agent)}
    servers = {
        name: {**_plain(server), "transport": server.kind} for name, server in agent.servers.items()
    }
    del entry["servers"]
    return {**{to_camel(name): value for name, value in entry.items()}, "mcp": {"servers": servers}}


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, tuple):
        return [_plain(child) for child in cast("Sequence[Any]", value)]
    return value


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
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
        return False


def _accept_foreign(definition: dict[str, Any], path: KeyPath) -> None:
    properties = definition["properties"]
    for name in sorted(foreign_names(path) - properties.keys()):
        properties[name] = {
            "description": "Belongs to a feature of the original OpenClaw that is not "
            "supported; ignored."
        }
