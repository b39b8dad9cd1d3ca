"""Questions of the agent's MCP servers, handed on to the client that gave the order."""

from collections.abc import Awaitable
from typing import Any, Protocol

import mcp_types as types
from mcp.shared.exceptions import MCPError

from openclaw.core.tools import Elicit, JsonObject

_ASKING_BY_RESULT = "2026-07-28"
"""From this revision on a server asks by its result and is called again: an order cannot wait so."""

_DECLINED: JsonObject = {"action": "decline"}


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


def relay(client: AskedClient, protocol_version: str) -> Elicit | None:
    """Asks the person at the client; None where the client cannot."""
    wanted = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    if protocol_version >= _ASKING_BY_RESULT or not client.check_client_capability(wanted):
        return None

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
