"""What a front end must know about the agent before the agent is opened, and where secrets come from.

Commands that only talk to a gateway import this, and not what an agent is built with.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from zoneinfo import ZoneInfo

from openclaw.agent.port import AgentSettings, named_agent
from openclaw.config.load import LoadedConfig, load_config
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.config.paths import StatePaths, expand, home_dir, private_directory, state_dir
from openclaw.gateway.lock import read_token
from openclaw.media.transcription import Speech
from openclaw.models.choose import known_providers
from openclaw.runtime.open_secrets import open_secrets
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import known_values
from openclaw.secrets.resolver import SecretResolver


class HostProcess(Protocol):
    @property
    def program(self) -> str: ...
    @property
    def environ(self) -> Mapping[str, str]: ...
    @property
    def config_file(self) -> Path: ...
    @property
    def redactor(self) -> Redactor: ...
    @property
    def paths(self) -> StatePaths: ...
    @property
    def warned(self) -> set[str]: ...
    def load_config(self) -> LoadedConfig: ...
    def warn(self, text: str) -> None: ...


def time_zone(agent: EffectiveAgent, environ: Mapping[str, str]) -> str:
    """The person's time zone: as configured, else this machine's, else UTC."""
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


_CREDENTIAL = re.compile(r"(?:^|_)(?:TOKEN|KEY|SECRET|PASSWORD|PAT)(?:_|$)", re.IGNORECASE)


def register_known_secrets(
    loaded: LoadedConfig, environ: Mapping[str, str], redactor: Redactor
) -> None:
    """Register the secrets that are known before anything is resolved.

    A person may put a key into the very first message, before the model that uses it is built.
    """
    directory = state_dir(environ)
    variables = [name for one in known_providers().values() for name in one.key_variables]
    agents = effective_agents(loaded.config).values()
    passed_on = (name for agent in agents for name in agent.exec.inherit_env)
    variables += [name for name in passed_on if _CREDENTIAL.search(name)]
    values = [*loaded.credentials, *(environ.get(name) for name in variables)]
    for value in (*values, read_token(directory), *known_values(directory)):
        if value:
            redactor.register(value)


def workspace_of(
    agent: EffectiveAgent, loaded: LoadedConfig, paths: StatePaths, environ: Mapping[str, str]
) -> Path:
    if agent.workspace is None:
        return private_directory(paths.workspace)
    workspace = expand(agent.workspace, environ)
    return workspace if workspace.is_absolute() else loaded.path.parent / workspace


def agent_settings(
    agent: EffectiveAgent,
    loaded: LoadedConfig,
    *,
    paths: StatePaths,
    environ: Mapping[str, str],
    redactor: Redactor,
    secrets: SecretResolver,
) -> AgentSettings:
    config = loaded.config
    providers = config.models.providers
    speech = Speech(
        config.media.transcription, providers.get("openai"), environ, secrets.resolve_text
    )
    return AgentSettings(
        id=agent.id,
        temp_root=paths.temp,
        directories=(workspace_of(agent, loaded, paths, environ),),
        audio=config.mcp_server.audio,
        all_tool_text=config.mcp_server.tool_results == "all",
        redactor=redactor,
        transcriber=speech,
        task_after=config.mcp_server.task_after_ms / 1000,
        model_choices=tuple(
            f"{name}/{model.id}"
            for name, provider in providers.items()
            for model in provider.models
        ),
        config_digest=loaded.digest,
        order_workspace=config.mcp_server.workspace,
        private=(home_dir(environ), paths.root),
        timezone=time_zone(agent, environ),
    )


def configured_settings(
    process: HostProcess, agent_id: str | None, loaded: LoadedConfig | None = None
) -> AgentSettings:
    """The same from the configuration alone, without opening anything."""
    loaded = loaded or load_config(process.config_file, process.environ)
    # A user may type before the agent is opened.
    register_known_secrets(loaded, process.environ, process.redactor)
    agent_name = agent_id or default_agent_id(loaded.config)
    return agent_settings(
        named_agent(effective_agents(loaded.config), agent_name),
        loaded,
        paths=process.paths,
        environ=process.environ,
        redactor=process.redactor,
        secrets=open_secrets(loaded.config, process.environ, process.redactor),
    )
