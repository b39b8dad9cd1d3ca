"""What both directions of the wire have to agree on: the revision, batches, and what was refused."""

import logging
from collections.abc import Callable
from functools import partial

import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from openclaw.mcp_server.judging import Judged

logger = logging.getLogger(__name__)

_WITH_BATCHES = "2025-03-26"
"""The one revision in which several messages may come as one line."""

Answer = types.JSONRPCResponse | types.JSONRPCError


class _Batch:
    """The answers to a batch, until the last one is there."""

    def __init__(self, faults: list[types.JSONRPCError]) -> None:
        self.waiting: list[types.RequestId] = []
        self.answers: list[SessionMessage] = [SessionMessage(fault) for fault in faults]


class Conversation:
    """The state of one connection that its reader and its writer share.

    `tell` is set by the writer: it puts messages onto the wire as one line, without waiting.
    """

    def __init__(self, keep_back: Callable[[SessionMessage], bool]) -> None:
        self._keep_back = keep_back
        self._revision = ""
        self._batches: list[_Batch] = []
        self.tell: Callable[[list[SessionMessage], bool], None] = _nobody

    @property
    def takes_batches(self) -> bool:
        """Whether the revision that was agreed on has them."""
        return self._revision == _WITH_BATCHES

    def noticed(self, item: SessionMessage) -> None:
        """A message goes to the SDK."""
        message = item.message
        if isinstance(message, types.JSONRPCRequest) and message.method == "initialize":
            asked = (message.params or {}).get("protocolVersion")
            known = asked in HANDSHAKE_PROTOCOL_VERSIONS
            self._revision = str(asked) if known else LATEST_HANDSHAKE_VERSION

    def taken(self, judged: Judged) -> list[SessionMessage]:
        """A line's messages for the SDK; its faults are told."""
        for fault in judged.faults:
            logger.debug("refused: %s", fault.error.message)
        if judged.batch:
            return self._take_batch(judged)
        if judged.faults:
            self.tell([SessionMessage(fault) for fault in judged.faults], False)
        return [SessionMessage(message) for message in judged.messages]

    def keep_back(self, item: SessionMessage) -> bool:
        """Whether this does not go onto the wire, or not yet."""
        if self._keep_back(item):
            return True
        message = item.message
        if not self._batches or not isinstance(message, Answer):
            return False
        batch = next((one for one in self._batches if message.id in one.waiting), None)
        if batch is None:
            return False
        batch.answers.append(item)
        self._settle(batch, message.id)
        return True

    def _take_batch(self, judged: Judged) -> list[SessionMessage]:
        batch = _Batch(judged.faults)
        items: list[SessionMessage] = []
        for message in judged.messages:
            metadata = None
            if isinstance(message, types.JSONRPCRequest):
                batch.waiting.append(message.id)
                unanswered = partial(self._unanswered, batch, message.id)
                metadata = ServerMessageMetadata(on_request_unanswered=unanswered)
            items.append(SessionMessage(message, metadata))
        self._batches.append(batch)
        self._settle(batch, None)
        return items

    async def _unanswered(self, batch: _Batch, request_id: types.RequestId) -> None:
        """The client cancelled this one: its batch does not wait for it."""
        self._settle(batch, request_id)

    def _settle(self, batch: _Batch, request_id: types.RequestId | None) -> None:
        if request_id in batch.waiting:
            batch.waiting.remove(request_id)
        if not batch.waiting and batch in self._batches:
            self._batches.remove(batch)
            if batch.answers:
                self.tell(batch.answers, True)


def _nobody(messages: list[SessionMessage], batch: bool) -> None:
    """Nobody listens before there is a writer."""
