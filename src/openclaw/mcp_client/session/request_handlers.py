"""Our answers to what servers ask: roots, sampling and elicitation."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from openclaw.core.tools import Elicit
from openclaw.mcp import names
from openclaw.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    JsonObject,
    RpcError,
)

logger = logging.getLogger(__name__)

AskHost = Elicit


class RequestHandlers:
    """`on_sampling` and `on_elicitation` take the server's name and its request's params."""

    def __init__(
        self,
        server: str,
        roots: Sequence[Path],
        on_sampling: AskHost | None,
        on_elicitation: AskHost,
    ) -> None:
        self._server, self._roots = server, roots
        self._on_sampling, self._on_elicitation = on_sampling, on_elicitation
        self.roots_were_asked = False

    def capabilities(self) -> JsonObject:
        return {
            "roots": {"listChanged": True},
            "extensions": {names.TASKS_EXTENSION: {}, names.SKILLS_EXTENSION: {}},
            "elicitation": {"form": {}, "url": {}},
            **({} if self._on_sampling is None else {"sampling": {}}),
        }

    async def answer(self, method: str, params: JsonObject) -> JsonObject:
        """The result of the server's request; raises `RpcError`."""
        match method:
            case names.ROOTS:
                self.roots_were_asked = True
                roots = [
                    {"uri": path.absolute().as_uri(), "name": path.name} for path in self._roots
                ]
                return {"roots": roots}
            case names.SAMPLING:
                if self._on_sampling is None:
                    raise RpcError(INVALID_REQUEST, "Sampling not supported")
                if not _are_messages(params.get("messages")):
                    raise RpcError(INVALID_PARAMS, "messages must be a list of messages")
                return await self._ask(self._on_sampling, params)
            case names.ELICIT:
                return await self._ask(self._on_elicitation, params)
            case _:
                raise RpcError(METHOD_NOT_FOUND, "Method not found")

    async def _ask(self, host: AskHost, params: JsonObject) -> JsonObject:
        try:
            return dict(await host(self._server, params))
        except Exception as error:  # noqa: BLE001  the host's refusal is the server's answer
            logger.warning("a request from an MCP server was refused: %s", error)
            raise RpcError(INVALID_REQUEST, "the host refused") from None


def _are_messages(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(message, Mapping) for message in cast("list[Any]", value))
