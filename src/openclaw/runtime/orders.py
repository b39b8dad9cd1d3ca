"""How orders from MCP clients are taken for an agent."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent, effective_agents
from openclaw.config.paths import StatePaths
from openclaw.core.clock import SystemClock
from openclaw.core.errors import NotFound
from openclaw.runtime.host import Host, open_secrets
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver

if TYPE_CHECKING:
    from openclaw.mcp_server.agent_link import OrderSettings
    from openclaw.media.transcription import Transcriber


def order_settings(host: Host, agent: EffectiveAgent, secrets: SecretResolver) -> "OrderSettings":
    """How orders from MCP clients are taken for this agent, wherever it runs."""
    from openclaw.mcp_server.agent_link import OrderSettings
    from openclaw.mcp_server.inbound import fetch_guarded
    from openclaw.mcp_server.outbound import OutboundRules

    settings = host.config.mcp_server
    return OrderSettings(
        agent_id=agent.id,
        all_tool_text=settings.tool_results == "all",
        temp_root=host.paths.temp,
        outbound=OutboundRules(
            directories=(host.workspace(agent),),
            fetch=fetch_guarded,
            audio=settings.audio,
            secrets=host.redactor,
        ),
        transcriber=transcriber_of(host, secrets),
    )


def transcriber_of(host: Host, secrets: SecretResolver) -> "Transcriber":
    """Turns recordings into words, as the configuration says."""
    from openclaw.media.transcription import Speech

    openai = host.config.models.providers.get("openai")
    settings = host.config.media.transcription
    return Speech(settings, openai, host.environ, secrets.resolve_text).transcriber()


def order_settings_elsewhere(
    loaded: LoadedConfig, environ: Mapping[str, str], redactor: Redactor, agent_id: str
) -> "OrderSettings":
    """The same for an agent that runs in another process; raises `NotFound`."""
    agents = effective_agents(loaded.config)
    if agent_id not in agents:
        raise NotFound(f"there is no agent '{agent_id}'")
    host = Host(loaded, environ, redactor, StatePaths.of(environ), SystemClock())
    secrets = open_secrets(loaded.config, environ, redactor)
    return order_settings(host, agents[agent_id], secrets)
