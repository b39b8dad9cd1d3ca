"""What every request carries beside its own parameters, by the era and the transport."""

from collections.abc import Mapping
from typing import Any

from openclaw.mcp_client.era import Era


class Stamp:
    """Adds the modern era's `_meta` to a request, and its headers where the transport is HTTP."""

    def __init__(
        self, version: str, era: Era, capabilities: Mapping[str, Any], *, http: bool
    ) -> None:
        self._version, self._http = version, http
        self._modern = era is Era.MODERN
        self._meta = _meta(version, capabilities) if self._modern else {}
        self._parameter_headers: dict[str, Any] = {}

    @property
    def blank(self) -> bool:
        """Whether requests are sent just as they are."""
        return not self._modern and not self._http

    def refuses(self, schema: Mapping[str, Any]) -> str | None:
        """Why a tool cannot be called with such a schema: the headers that it names are not possible."""
        if not (self._modern and self._http):
            return None
        from mcp.shared.inbound import find_invalid_x_mcp_header

        return find_invalid_x_mcp_header(schema)

    def learn(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        """Remember which arguments of these tools are also sent as headers."""
        if self._modern and self._http:
            from mcp.shared.inbound import x_mcp_header_map

            self._parameter_headers = {
                name: x_mcp_header_map(schema) for name, schema in tools.items()
            }

    def params(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters with what the era adds."""
        if not self._modern:
            return params
        return {**params, "_meta": {**(params.get("_meta") or {}), **self._meta}}

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """The HTTP headers of this one request."""
        from mcp.shared import inbound

        headers = {inbound.MCP_PROTOCOL_VERSION_HEADER: self._version}
        if not self._modern:
            return headers
        headers[inbound.MCP_METHOD_HEADER] = method
        key = inbound.NAME_BEARING_METHODS.get(method)
        name = params.get(key) if key is not None else None
        if isinstance(name, str):
            headers[inbound.MCP_NAME_HEADER] = inbound.encode_header_value(name)
            mapping = self._parameter_headers.get(name) if method == "tools/call" else None
            if mapping:
                headers.update(inbound.mcp_param_headers(mapping, params.get("arguments") or {}))
        return headers


def _meta(version: str, capabilities: Mapping[str, Any]) -> dict[str, Any]:
    from mcp_types import (
        CLIENT_CAPABILITIES_META_KEY,
        CLIENT_INFO_META_KEY,
        PROTOCOL_VERSION_META_KEY,
    )

    from openclaw.version import __version__

    return {
        PROTOCOL_VERSION_META_KEY: version,
        CLIENT_INFO_META_KEY: {"name": "openclaw", "version": __version__},
        CLIENT_CAPABILITIES_META_KEY: dict(capabilities),
    }
