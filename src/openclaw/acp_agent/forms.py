"""What MCP servers want to know, asked of the person by the client."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acp import RequestError
from acp.schema import (
    ClientCapabilities,
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationUrlSessionMode,
)
from pydantic import ValidationError

from openclaw.content import sanitise_label
from openclaw.core.ids import random_id
from openclaw.core.tools import JsonObject

if TYPE_CHECKING:
    from acp.interfaces import Client

logger = logging.getLogger(__name__)

_DECLINED: JsonObject = {"action": "decline"}
_MESSAGE_CHARS = 2000


@dataclass(frozen=True, slots=True)
class FormKinds:
    """Which questions a client can put to the person."""

    form: bool
    url: bool


def forms_of(client: ClientCapabilities | None) -> FormKinds | None:
    """What the client says that it can ask; None where it is nothing."""
    offered = client.elicitation if client is not None else None
    if offered is None or (offered.form is None and offered.url is None):
        return None
    return FormKinds(offered.form is not None, offered.url is not None)


class Forms:
    """Asks by way of one client."""

    def __init__(self, client: "Client", kinds: FormKinds) -> None:
        self._client = client
        self._kinds = kinds

    async def ask(self, session: str, server: str, params: JsonObject) -> JsonObject:
        """The person's answer, as MCP spells it; whatever cannot be asked is declined."""
        words = sanitise_label(str(params.get("message") or ""), _MESSAGE_CHARS)
        try:
            mode = self._mode(session, params)
            if mode is None:
                return _DECLINED
            answer = await self._client.create_elicitation(
                f"MCP server '{server}' asks: {words}", mode
            )
        except (RequestError, ConnectionError, ValidationError) as error:
            logger.warning("the client did not put a question of '%s': %s", server, error)
            return _DECLINED
        return answer.model_dump(
            by_alias=True, mode="json", exclude_none=True, include={"action", "content"}
        )

    def _mode(
        self, session: str, params: JsonObject
    ) -> ElicitationFormSessionMode | ElicitationUrlSessionMode | None:
        if params.get("mode") == "url":
            if not self._kinds.url:
                return None
            return ElicitationUrlSessionMode.model_validate(
                {
                    "sessionId": session,
                    "elicitationId": params.get("elicitationId") or random_id(),
                    "url": params.get("url"),
                }
            )
        if not self._kinds.form:
            return None
        schema = ElicitationSchema.model_validate(params.get("requestedSchema") or {})
        return ElicitationFormSessionMode(session_id=session, requested_schema=schema)
