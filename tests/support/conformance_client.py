"""Our MCP client as the official conformance suite drives it: a scenario's name and a server's address.

Everything goes the way that it goes in the program: the servers' manager, the tools as the model sees
them, the login of `openclaw mcp login`, and questions as a terminal asks them. Only the person is
played: agrees to everything, takes what is proposed, and logs in again where that is asked for.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2

from openclaw.cli.chat.terminal_questions import TerminalQuestions
from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.questions import elicit_with
from openclaw.core.tools import CallContext, ToolResult
from openclaw.mcp_client.auth.login import LoginPrompt
from openclaw.mcp_client.auth.logins import Logins
from openclaw.mcp_client.lifecycle.manager import AgentServers
from openclaw.mcp_client.lifecycle.server_state import ServerState
from openclaw.mcp_client.session.login import log_in
from openclaw.secrets.refs import Secret
from tests.support.mcp_server_kit import McpInstallation, open_gateway_runtime, until

_GRANTS = {
    "client-credentials": "clientCredentials",
    "enterprise": "enterprise",
    "wif": "workload",
}

LOGINS = 4
"""How often the person logs in before giving up."""

_SECONDS = 60.0


class Unfinished(Exception):
    """Raised when the server could not be used as the scenario wants."""


@dataclass(frozen=True)
class Play:
    """One scenario: where the server is, what it says beyond that, and a directory to keep things."""

    scenario: str
    url: str
    context: Mapping[str, Any]
    state: Path

    def config(self) -> McpServerConfig:
        """The server's entry, as somebody would write it who was told as much as the suite tells."""
        entry: dict[str, Any] = {"url": self.url, "transport": "http", "maxRestarts": 1}
        if self.scenario.startswith("auth/"):
            entry["auth"] = self._auth()
        return McpServerConfig.model_validate(entry)

    def _auth(self) -> dict[str, Any]:
        named = {
            "clientId": "client_id",
            "clientSecret": "client_secret",
            "privateKey": "private_key_pem",
            "assertion": "valid_jwt",
        }
        known = {key: self.context[name] for key, name in named.items() if name in self.context}
        grant = next((g for word, g in _GRANTS.items() if word in self.scenario), "login")
        auth: dict[str, Any] = {"type": "oauth", "grant": grant, **known}
        if grant == "enterprise":
            auth["identityProvider"] = {
                "tokenEndpoint": self.context["idp_token_endpoint"],
                "clientId": self.context["idp_client_id"],
                "idToken": self.context["idp_id_token"],
            }
        if self.scenario == "auth/basic-cimd":
            auth["clientMetadataUrl"] = "https://conformance-test.local/client-metadata.json"
        return auth

    def open(self) -> AbstractAsyncContextManager[McpInstallation]:
        """The server, started as the program starts it."""
        agents = {"main": AgentServers({"s": self.config()})}
        return open_gateway_runtime(
            self.state,
            environ={},
            agents=agents,
            auth=self.logins().auth,
            on_elicitation=elicit_with(_person().ask),
            on_sampling=_sample,
        )

    def logins(self) -> Logins:
        """Where the logins are kept."""
        return Logins(directory=self.state / "tokens", register=_forget, resolve_secrets=_resolve)


async def play(play: Play) -> None:
    """Do what the scenario wants done; raises `Unfinished`, `LoginFailed` or the like."""
    if play.scenario.startswith("auth/"):
        await _logged_in(play)
        return
    async with play.open() as installation:
        _check_ready(installation)
        await _DOINGS.get(play.scenario, _call_all)(installation, play)


async def _logged_in(play: Play) -> None:
    """Log in, use the server, and log in again for as long as it wants that."""
    config = play.config()
    needs_user = config.auth is not None and config.auth.grant == "login"
    for _ in range(LOGINS):
        if needs_user:
            await log_in(config, play.logins(), LoginPrompt(show=_ignore, browse=_browse))
        async with play.open() as installation:
            await until(
                lambda: _state(installation) in (ServerState.READY, ServerState.NEEDS_LOGIN)
            )
            if _state(installation) is ServerState.READY and await _call_first(installation):
                return
        if not needs_user:
            raise Unfinished("its own credentials were not accepted")
    raise Unfinished(f"logged in {LOGINS} times, and still needs to")


def _state(installation: McpInstallation) -> ServerState:
    return installation.manager.status()[0].snapshot.state


def _check_ready(installation: McpInstallation) -> None:
    snapshot = installation.manager.status()[0].snapshot
    if snapshot.state is not ServerState.READY:
        raise Unfinished(f"{snapshot.state}: {snapshot.last_error}")


async def _call(
    installation: McpInstallation, tool: str, arguments: Mapping[str, Any] | None = None
) -> ToolResult:
    named = {spec.origin.tool: spec.name for spec in installation.manager.tools("main").specs()}
    context = CallContext("main", "s", "c1", elicit=elicit_with(_person().ask))
    return await installation.tools("main", "s").call(named[tool], dict(arguments or {}), context)


async def _call_first(installation: McpInstallation) -> bool:
    """Whether the server's first tool does what it should; one without tools does all of it."""
    for spec in installation.manager.tools("main").specs():
        return not (await _call(installation, str(spec.origin.tool))).is_error
    return True


async def _calls(
    tools: Sequence[str], arguments: Mapping[str, Any], installation: McpInstallation, play: Play
) -> None:
    for tool in tools:
        result = await _call(installation, tool, arguments)
        if result.is_error:
            raise Unfinished(f"{tool}: {result.blocks}")


async def _call_all(installation: McpInstallation, play: Play) -> None:
    for spec in installation.manager.tools("main").specs():
        properties: Mapping[str, Any] = spec.input_schema.get("properties", {})
        arguments = {name: _PLAIN.get(one.get("type"), "x") for name, one in properties.items()}
        await _call(installation, str(spec.origin.tool), arguments)


async def _call_as_told(installation: McpInstallation, play: Play) -> None:
    offered = {spec.origin.tool for spec in installation.manager.tools("main").specs()}
    for call in play.context.get("toolCalls", ()):
        if call["name"] in offered:
            await _call(installation, call["name"], call.get("arguments"))


async def _give_schema_back(installation: McpInstallation, play: Play) -> None:
    [focal] = [
        spec
        for spec in installation.manager.tools("main").specs()
        if spec.origin.tool == "json_schema_2020_12_tool"
    ]
    await _call(installation, "json_schema_echo", {"schema": focal.input_schema})


async def _nothing(installation: McpInstallation, play: Play) -> None:
    """Being connected is all that is asked for."""


async def _load_skill(installation: McpInstallation, play: Play) -> None:
    """Read the skill that the prompt names and, unless it is refused, a file that belongs to it."""
    await until(lambda: _SKILL.search(installation.manager.resource_context("main")) is not None)
    named = _SKILL.search(installation.manager.resource_context("main"))
    assert named is not None
    reader = next(s.name for s in installation.manager.tools("main").specs() if "read" in s.name)
    context = CallContext("main", "s", "c1", elicit=elicit_with(_person().ask))
    for uri in (named[0], named[1] + "references/FORMS.md"):
        result = await installation.tools("main", "s").call(reader, {"uri": uri}, context)
        if result.is_error:
            return


_SKILL = re.compile(r"(skill://\S+/)SKILL\.md")
_PLAIN: dict[Any, Any] = {"integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}
_ROUNDS = ("echo_state", "unrelated", "no_state", "no_result_type")
_DOINGS: dict[str, Callable[[McpInstallation, Play], Awaitable[None]]] = {
    "initialize": _nothing,
    "json-schema-ref-no-deref": _nothing,
    "tools_call": partial(_calls, ("add_numbers",), {"a": 5, "b": 3}),
    "request-metadata": _nothing,
    **dict.fromkeys(
        [f"sep-2640-client-verify-{what}" for what in ("digest", "size", "frontmatter")],
        _load_skill,
    ),
    "sse-retry": partial(_calls, ("test_reconnection",), {}),
    "http-invalid-tool-headers": _call_all,
    "http-custom-headers": _call_as_told,
    "json-schema-2020-12-preservation": _give_schema_back,
    "sep-2322-client-request-state": partial(_calls, [f"test_mrtr_{one}" for one in _ROUNDS], {}),
}


def _person() -> TerminalQuestions:
    async def answer(question: str) -> str:
        return "y" if question.endswith("[y/n] ") or "(y/n" in question else ""

    return TerminalQuestions(answer, _forget, nullcontext)


async def _sample(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"role": "assistant", "content": {"type": "text", "text": "Noted."}, "model": "m"}


def _browse(url: str) -> bool:
    """The browser: goes where it is sent, as far as our own callback."""
    with httpx2.Client(follow_redirects=True, trust_env=False, timeout=_SECONDS) as browser:
        return browser.get(url).is_success


async def _resolve(values: Mapping[str, str]) -> dict[str, Secret]:
    return {name: Secret(value) for name, value in values.items()}


def _forget(words: str) -> None:
    """Nobody reads it."""


def _ignore(url: str, code: str | None) -> None:
    """The browser is told the address as well."""


def main() -> None:
    """Play the scenario that the suite names, against the address in the arguments."""
    environ = os.environ
    with tempfile.TemporaryDirectory() as state:
        one = Play(
            scenario=environ["MCP_CONFORMANCE_SCENARIO"],
            url=sys.argv[-1],
            context=json.loads(environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"),
            state=Path(state),
        )
        anyio.run(play, one)


if __name__ == "__main__":
    main()
