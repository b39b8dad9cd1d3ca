"""What a new turn takes from its session: the conversation, open calls, earlier answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio.to_thread

from openclaw.agent import transcript
from openclaw.agent.port import MessageContext, Reply
from openclaw.agent.tool_calls import ToolCallRunner
from openclaw.agent.toolpath.toolbox import Toolbox
from openclaw.agent.transcript import Item, ResultItem, UserItem
from openclaw.content.frame import frame
from openclaw.core.errors import InvalidRequest
from openclaw.core.outcome import Outcome
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.records import Entry, EntryKind, SessionRef, Turn, storable
from openclaw.sessions.store import SessionStore

_LARGE = 100_000  # characters; a longer conversation is recalled in a thread
KEY_FIELD = "idempotencyKey"
_BAD_ENDINGS = {
    EntryKind.TURN_CANCELLED: "was stopped before it was finished",
    EntryKind.TURN_ERROR: "failed",
    EntryKind.TURN_LOST: "did not finish: the program stopped while it ran",
}


@dataclass(frozen=True, slots=True)
class TurnHistory:
    store: SessionStore
    session: SessionRef
    redactor: Redactor

    async def find_turn(self, turn: str) -> Turn | None:
        return await self.store.find_turn(self.session, turn)

    async def items(
        self, message: UserItem | None, runner: ToolCallRunner, *, resumed: bool
    ) -> list[Item]:
        """The conversation, with the new message's attachments as they arrived.

        That message is the last one, except in a resumed turn, where steps may follow it or a summary
        may have replaced it.
        """
        entries = await self._entries()
        tasks = transcript.open_tasks(entries)
        if tasks and await runner.fetch(tasks, wait=resumed):
            entries = await self._entries()
        items = transcript.items_from(entries)
        if message is None:
            return items
        messages = [index for index, item in enumerate(items) if isinstance(item, UserItem)]
        last = messages[-1] if messages else None
        if last is not None and (not resumed or items[last].text == message.text):
            items[last] = replace(message, seq=items[last].seq)
        assert resumed or last == len(items) - 1
        return items

    async def index(self, items: list[Item], toolbox: Toolbox) -> None:
        """Tell the toolbox what the conversation contains, also what a summary replaced."""
        if items and isinstance(items[0], transcript.SummaryItem):
            items = transcript.items_from(await self._entries(since_compaction=False))
        if sum(len(item.text) for item in items) > _LARGE:
            await anyio.to_thread.run_sync(toolbox.index_items, items)
        else:
            toolbox.index_items(items)

    async def unknown_results(self, lost: Turn) -> list[ResultItem]:
        """Results for the calls of a lost turn, except those that servers run as tasks."""
        fetchable = {call.id for call, _ in transcript.open_tasks(await self._entries())}
        calls = [(call.call_id or "", str(call.data.get("name", ""))) for call in lost.open_calls]
        return [
            ResultItem(id, name, transcript.UNKNOWN_OUTCOME, is_error=True)
            for id, name in calls
            if id not in fetchable
        ]

    async def client_results(self, context: MessageContext) -> list[ResultItem]:
        """The results of the sender's own tools: one for each waiting call."""
        turn, results = context.idempotency_key, context.results
        if not results or (turn is not None and await self.find_turn(turn) is not None):
            return []  # none, or already in the transcript
        calls = transcript.waiting_calls(await self._entries())
        texts = {result.call_id: result.text for result in results}
        if texts.keys() - calls.keys():
            raise InvalidRequest("no call is waiting for this result", field="tool_call_id")
        if calls.keys() - texts.keys():
            raise InvalidRequest("the result of a call is missing", field="tool_call_id")
        redact = self.redactor.redact
        clean = {call: redact(storable(text)) for call, text in texts.items()}
        return [
            ResultItem(id, call.name, frame(clean[id], source="Client tool", sender=call.name))
            for id, call in calls.items()
        ]

    async def earlier_reply(self, turn: str, text: str, questions: Sequence[str]) -> Reply:
        """The answer of a turn with the same key; it must have been for the same message."""
        history = await self._entries(since_compaction=False)
        entries = [entry for entry in history if entry.turn == turn]
        message = next((e for e in entries if e.kind is EntryKind.USER_MESSAGE), None)
        if message is not None and message.data.get("text") != text:
            raise InvalidRequest(
                "another message was sent with this key",
                field=KEY_FIELD,
                hint="use a different key for each message",
            )
        ending = next((e for e in reversed(entries) if e.kind in _BAD_ENDINGS), None)
        if ending is not None:
            detail = str(ending.data.get("detail", ""))
            raise InvalidRequest(
                f"the order with this key {_BAD_ENDINGS[ending.kind]}{detail and f' ({detail})'}",
                field=KEY_FIELD,
                hint="see what it did, then send it with another key",
            )
        answers = [e.text for e in entries if e.kind is EntryKind.ASSISTANT_MESSAGE]
        answer = answers[-1] if answers else ""
        return Reply(
            answer, self.session.id, turn, outcome=Outcome.DUPLICATE, questions=tuple(questions)
        )

    async def _entries(self, *, since_compaction: bool = True) -> Sequence[Entry]:
        return await self.store.history(self.session, since_compaction=since_compaction)
