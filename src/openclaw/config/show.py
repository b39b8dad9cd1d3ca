"""The effective configuration for display, with every credential as `[REDACTED]`."""

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from openclaw.config.agent_schema import Section
from openclaw.config.json5 import KeyPath
from openclaw.config.load import LoadedConfig, annotation_at, models_in, unsupported_keys
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.config.schema import Config
from openclaw.config.sensitive import credential_values
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import split

REDACTED = "[REDACTED]"
# Shorter values are hidden only in place; elsewhere they may be parts of ordinary words.
_MIN_SPREAD = 6


def effective(loaded: LoadedConfig) -> dict[str, Any]:
    """The effective configuration as plain JSON, without unset keys. Not redacted."""
    config = loaded.config
    agents = {
        "default": default_agent_id(config),
        "list": [_agent(agent) for agent in effective_agents(config).values()],
    }
    tree = config.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"schema_", "mcp", "agents"}
    )
    return {"agents": agents, **tree}


def redacted(
    tree: Any, *, credentials: Iterable[str] = (), redactor: Redactor | None = None
) -> Any:
    """The same tree with every credential replaced, and `credentials` anywhere; references stay."""
    at: dict[KeyPath, list[str]] = {}
    for path, text in credential_values(tree):
        at.setdefault(path, []).append(text)
    spread = sorted((c for c in credentials if len(c) >= _MIN_SPREAD), key=len, reverse=True)

    def shown(node: Any, path: KeyPath) -> Any:
        if isinstance(node, Mapping):
            members = cast("Mapping[str, Any]", node)
            return {key: shown(child, (*path, key)) for key, child in members.items()}
        if isinstance(node, list | tuple):
            items = cast("Sequence[Any]", node)
            return [shown(child, (*path, index)) for index, child in enumerate(items)]
        if not isinstance(node, str):
            return node
        for credential in at.get(path, ()):
            node = node.replace(credential, _hidden(credential))
        for credential in spread:
            node = node.replace(credential, REDACTED)
        return redactor.redact(node) if redactor else node

    return shown(tree, ())


def show(loaded: LoadedConfig, *, redactor: Redactor | None = None) -> dict[str, Any]:
    return redacted(effective(loaded), credentials=loaded.credentials, redactor=redactor)


def _hidden(credential: str) -> str:
    """A credential as `[REDACTED]`; if it contains references, only the text around them."""
    pieces = split(credential)
    if len(pieces) == 1:
        return REDACTED
    # "Bearer " and "Basic " before a reference say how it is used and hide nothing.
    pieces[::2] = [one if len(one.strip()) < 8 else REDACTED for one in pieces[::2]]
    return "".join(pieces)


def _agent(agent: EffectiveAgent) -> dict[str, Any]:
    entry = to_jsonable_python(agent, by_alias=True, exclude_none=True)
    servers = entry.pop("servers")
    for name, server in agent.servers.items():
        servers[name]["transport"] = server.kind
    given = {to_camel(name): one for name, one in entry.items() if one is not None}
    return {**given, "mcp": {"servers": servers}}


DIALECT = "https://json-schema.org/draft/2020-12/schema"
_UNSUPPORTED = "Belongs to a feature of the original OpenClaw that is not supported; ignored."


def json_schema() -> dict[str, Any]:
    generated = Config.model_json_schema(by_alias=True, schema_generator=_Generator)
    schema: dict[str, Any] = {"$schema": DIALECT, **generated, "title": "OpenClaw configuration"}
    sections = {section.__name__: section for section in _sections(Section)}
    for name, definition in [("Config", schema), *schema["$defs"].items()]:
        if name != "Config":
            definition.pop("title", None)
        section = sections[name]
        for key, text in describe(section).items():
            definition["properties"][key]["description"] = text
        for field_name, field in section.model_fields.items():
            if next(models_in(field.annotation, deep=False), None) is None:
                applies = section.field_applies(field_name)
                definition["properties"][field.alias or field_name]["x-applies"] = applies
    for path, names in unsupported_keys().items():
        section = next(models_in(annotation_at(path)))
        target = schema if section is Config else schema["$defs"][section.__name__]
        for name in sorted(names - target["properties"].keys()):
            target["properties"][name] = {"description": _UNSUPPORTED}
    return schema


def describe(section: type[Section]) -> dict[str, str]:
    """The description of each setting by key: the text below it, or its section's docstring."""
    texts: dict[str, str] = {}
    for parent in reversed(section.__mro__):
        if issubclass(parent, Section) and parent is not Section:
            texts.update(_texts_below_fields(parent))
    for name, field in section.model_fields.items():
        for nested in models_in(field.annotation, deep=False):
            texts.setdefault(name, inspect.getdoc(nested) or "")
    return {
        field.alias or name: texts[name]
        for name, field in section.model_fields.items()
        if name in texts
    }


def _texts_below_fields(section: type[Section]) -> dict[str, str]:
    statements = _class_bodies(inspect.getfile(section))[section.__name__]
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
def _class_bodies(file: str) -> dict[str, list[ast.stmt]]:
    # Pydantic can read these texts too, but only whenever the classes are defined, on every start.
    tree = ast.parse(Path(file).read_text("utf-8"))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


def _sections(parent: type[Section]) -> Iterator[type[Section]]:
    for section in parent.__subclasses__():
        if section.__module__.startswith("openclaw.config."):
            yield section
            yield from _sections(section)


class _Generator(GenerateJsonSchema):
    schema_dialect = DIALECT

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False
