"""The commands there are. A command's module is imported only when it was asked for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A command's name, what it does in a line, and the module that has its `register` and `run`."""

    name: str
    summary: str
    module: str


COMMANDS = (
    Command("acp", "serve the agent to an editor over ACP on stdio", "openclaw.cli.acp"),
    Command("agent", "give the agent one message and print its answer", "openclaw.cli.agent"),
    Command("chat", "talk with the agent in the terminal", "openclaw.cli.chat"),
    Command("completion", "print a completion script for a shell", "openclaw.cli.completion"),
    Command("config", "show, check and explain the configuration", "openclaw.cli.config"),
    Command("doctor", "look for problems and say how to mend them", "openclaw.cli.doctor"),
    Command("gateway", "run the agent as a daemon with an HTTP API", "openclaw.cli.gateway"),
    Command("init", "set up: a model, MCP servers, other programs", "openclaw.cli.init"),
    Command("man", "print the manual page", "openclaw.cli.man"),
    Command("mcp", "manage the MCP servers that the agent uses", "openclaw.cli.mcp"),
    Command("mcp-server", "serve the agent to an MCP client over stdio", "openclaw.cli.mcp_server"),
    Command("models", "list models, see which is used, fetch local weights", "openclaw.cli.models"),
    Command("secrets", "check that every secret reference resolves", "openclaw.cli.secrets"),
    Command("sessions", "list, read and delete stored conversations", "openclaw.cli.sessions"),
    Command("status", "what is configured, what runs, each server's state", "openclaw.cli.status"),
)
