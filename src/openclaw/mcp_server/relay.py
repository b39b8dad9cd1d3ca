"""Questions of the agent and of its MCP servers, put to the person at the client that gave the order."""

import json
from collections.abc import Awaitable
from typing import Any, Protocol

import mcp_types as types
from mcp.shared.exceptions import MCPError

from openclaw.agent.context import Ask, PermissionRequest
from openclaw.content import sanitise_label
from openclaw.core.tools import Elicit, JsonObject

_ASKING_BY_RESULT = "2026-07-28"
"""From this revision on a server asks by its result and is called again: an order cannot wait so."""

_DECLINED: JsonObject = {"action": "decline"}

_LABEL_CHARS, _ARGUMENTS_CHARS = 200, 1000

_AGREEMENT: JsonObject = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": False}},
    "required": ["allow"],
}


class AskedClient(Protocol):
    """A client's session, as far as it can be asked."""

    def check_client_capability(self, capability: types.ClientCapabilities) -> bool:
        """Whether the client offered this."""
        ...

    def elicit_form(
        self, message: str, requested_schema: dict[str, Any], related_request_id: Any = None
    ) -> Awaitable[types.ElicitResult]:
        """Have the person fill in a form."""
        ...

    def elicit_url(
        self, message: str, url: str, elicitation_id: str, related_request_id: Any = None
    ) -> Awaitable[types.ElicitResult]:
        """Have the person visit an address."""
        ...


def can_ask(client: AskedClient, protocol_version: str) -> bool:
    """Whether the client puts questions to a person in the midst of an order."""
    wanted = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    return protocol_version < _ASKING_BY_RESULT and client.check_client_capability(wanted)


def permission(client: AskedClient) -> Ask:
    """Asks the person at the client whether a tool may be used; all but a clear yes is a no."""

    async def ask(request: PermissionRequest) -> bool:
        given = json.dumps(dict(request.arguments), ensure_ascii=False, default=str)
        message = (
            f"The agent wants to use {sanitise_label(request.label or request.name, _LABEL_CHARS)}"
            f" with {sanitise_label(given, _ARGUMENTS_CHARS)}"
        )
        try:
            answer = await client.elicit_form(message, dict(_AGREEMENT))
        except MCPError:
            return False
        return answer.action == "accept" and (answer.content or {}).get("allow") is True

    return ask


def relay(client: AskedClient) -> Elicit:
    """Hands the questions of MCP servers to the person at the client."""

    async def elicit(server: str, params: JsonObject) -> JsonObject:
        message = f"MCP server '{server}' asks: {params.get('message') or ''}"
        try:
            answer = await _asked(client, message, params)
        except MCPError:
            return _DECLINED  # a client that cannot answer this kind of question says so
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)

    return elicit


def _asked(client: AskedClient, message: str, params: JsonObject) -> Awaitable[types.ElicitResult]:
    if params.get("mode") == "url":
        return client.elicit_url(
            message, str(params.get("url")), str(params.get("elicitationId") or "")
        )
    schema: dict[str, Any] = params.get("requestedSchema") or {"type": "object", "properties": {}}
    return client.elicit_form(message, schema)
