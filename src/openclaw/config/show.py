"""The configuration as it takes effect, fit to be shown: every credential as `[REDACTED]`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from pydantic.alias_generators import to_camel

from openclaw.config.keypath import KeyPath
from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.config.schema import Section
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
