"""What the process gives to everything that is built, and what is read from it directly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from openclaw.config.edit import append_value
from openclaw.config.files import edit_config
from openclaw.config.json5 import KeyPath, format_path
from openclaw.config.load import LoadedConfig, parse_config
from openclaw.config.merge import EffectiveAgent
from openclaw.config.paths import StatePaths, expand, private_directory, state_dir
from openclaw.config.schema import Config
from openclaw.core.clock import Clock
from openclaw.gateway.tokens import read_owner_token
from openclaw.models.choose import KNOWN_PROVIDERS
from openclaw.policy.decide import Policy, Rules
from openclaw.secrets.backends import open_backends
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import known_values
from openclaw.secrets.resolver import SecretResolver

if TYPE_CHECKING:
    from openclaw.agent.telemetry import Telemetry
    from openclaw.agent.toolpath.approval import Approvals, WriteRule
    from openclaw.agent.toolpath.audit import OnCall
    from openclaw.agent.toolpath.dataflow import SessionFlow, SessionFlows, WriteSources
    from openclaw.agent.toolpath.search import ToolSearch
    from openclaw.agent.tools.exec import Shells
    from openclaw.agent.tools.planning import Subagents
    from openclaw.config.schema import DataFlowConfig
    from openclaw.policy.dataflow.rules import Rules as FlowRules

_POLICY_LAYERS = ("gateway.tools", "tools", "agents.defaults.tools", "agents.list[].tools")


class Shared:
    """What every generation of the configuration shares, opened when tools are first needed.

    The search among tools has its indexes in `directory`; what a person allows for always is
    written to `config`.
    """

    def __init__(self, directory: Path, config: Path, environ: Mapping[str, str]) -> None:
        self._directory, self._config, self._environ = directory, config, environ

    @cached_property
    def flows(self) -> "SessionFlows":
        from openclaw.agent.toolpath.dataflow import SessionFlows

        return SessionFlows(source_writer(self._config, self._environ))

    @cached_property
    def approvals(self) -> "Approvals":
        from openclaw.agent.toolpath.approval import Approvals

        return Approvals(rule_writer(self._config, self._environ))

    @cached_property
    def search(self) -> "ToolSearch":
        from openclaw.agent.toolpath.search import ToolSearch

        return ToolSearch(self._directory)


@dataclass(frozen=True, slots=True)
class Host:
    loaded: LoadedConfig
    environ: Mapping[str, str]
    redactor: Redactor
    paths: StatePaths
    clock: Clock
    telemetry: "Telemetry | None" = None
    on_call: "OnCall | None" = None
    shared: "Shared | None" = None
    shells: "Shells | None" = None
    subagents: "Subagents | None" = None

    def shares(self) -> Shared:
        return self.shared or Shared(self.paths.cache / "tools", self.loaded.path, self.environ)

    def flow(self, agent: EffectiveAgent, session: str) -> "SessionFlow | None":
        """Where the values of this session came from; None if nobody wants to know."""
        settings = self.config.dataflow
        if settings.mode == "off" and not settings.modes:
            return None
        return self.shares().flows.of(session, flow_rules(settings, agent))

    @property
    def config(self) -> Config:
        return self.loaded.config

    def workspace(self, agent: EffectiveAgent) -> Path:
        if agent.workspace is None:
            return private_directory(self.paths.workspace)
        named = expand(agent.workspace, self.environ)
        return named if named.is_absolute() else self.loaded.path.parent / named


def time_zone(agent: EffectiveAgent, environ: Mapping[str, str]) -> str:
    """The person's time zone: as configured, else this machine's, else UTC."""
    from zoneinfo import ZoneInfo

    if agent.user_timezone is not None:
        return agent.user_timezone
    try:
        _, _, linked = str(Path("/etc/localtime").readlink()).partition("zoneinfo/")
    except OSError:
        linked = ""
    for name in (environ.get("TZ", "").removeprefix(":"), linked):
        if name:
            try:
                return ZoneInfo(name).key
            except (KeyError, ValueError, OSError):  # such as CET-1CEST, or a path
                continue
    return "UTC"


def open_secrets(config: Config, environ: Mapping[str, str], redactor: Redactor) -> SecretResolver:
    """Where the values of `secret://` references come from; it connects to nothing yet."""
    options = config.secrets.model_dump(by_alias=False)
    backends = open_backends(options, environ, redactor, state_dir(environ))
    return SecretResolver(backends, redactor, timeout=config.secrets.timeout_ms / 1000)


def hide_known(loaded: LoadedConfig, environ: Mapping[str, str], redactor: Redactor) -> None:
    """Keep out of sight what is known before anything is resolved.

    A person may write a key into the very first message, before the model that it is for was built.
    """
    for value in loaded.credentials:
        redactor.register(value)
    for provider in KNOWN_PROVIDERS.values():
        for name in provider.key_variables:
            if value := environ.get(name):
                redactor.register(value)
    if token := read_owner_token(state_dir(environ)):
        redactor.register(token.reveal())
    for value in known_values(state_dir(environ)):
        redactor.register(value)


def rule_writer(path: Path, environ: Mapping[str, str]) -> "WriteRule":
    """Adds to `approved` what a person allowed for always: for this agent, if there are several."""

    def add(agent: str, rule: str) -> str:
        place: KeyPath = ("tools", "approved")

        def change(text: str) -> str:
            nonlocal place
            config = parse_config(text, environ, source=path).config
            ids = [entry.id for entry in config.agents.list]
            if len(ids) > 1 and agent in ids:
                place = ("agents", "list", ids.index(agent), *place)
            return append_value(text, place, rule)

        edit_config(path, environ, change)
        return f"{format_path(place)} in {path}"

    async def write(agent: str, rule: str) -> str:
        return await anyio.to_thread.run_sync(add, agent, rule)

    return write


def source_writer(path: Path, environ: Mapping[str, str]) -> "WriteSources":
    def add(sources: Sequence[tuple[str, str]]) -> str:
        place: KeyPath = ("dataflow", "allow")

        def change(text: str) -> str:
            for tool, source in sources:
                text = append_value(text, place, {"tool": tool, "source": source})
            return text

        edit_config(path, environ, change)
        return f"{format_path(place)} in {path}"

    async def write(sources: Sequence[tuple[str, str]]) -> str:
        return await anyio.to_thread.run_sync(add, sources)

    return write


def policy_of(agent: EffectiveAgent) -> Policy:
    names = chain(_POLICY_LAYERS, repeat("the limits of this session"))
    layers = zip(names, agent.tools, strict=False)
    return Policy.from_layers(
        [
            Rules.of(name, allow=r.allow, deny=r.deny, ask=r.ask, approved=r.approved)
            for name, r in layers
        ]
    )


def flow_rules(settings: "DataFlowConfig", agent: EffectiveAgent) -> "FlowRules":
    from openclaw.policy.dataflow.effects import EffectClass
    from openclaw.policy.dataflow.rules import Allowance, Mode
    from openclaw.policy.dataflow.rules import Rules as FlowRules

    return FlowRules(
        mode=Mode(settings.mode),
        modes={name: Mode(mode) for name, mode in settings.modes.items()},
        effects={
            f"{server}/{tool}": EffectClass(effect)
            for server, one in agent.servers.items()
            for tool, effect in one.effects.items()
        },
        trusted_servers=frozenset(
            name for name, one in agent.servers.items() if one.trust == "full"
        ),
        allowed=frozenset(Allowance(one.tool, one.source) for one in settings.allow),
    )
