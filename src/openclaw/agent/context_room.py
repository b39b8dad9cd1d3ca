"""Makes room when a conversation outgrows a model's context."""

import logging
from dataclasses import dataclass, replace

from openclaw.agent import compaction, transcript
from openclaw.agent.conversation import Conversation, TokenEstimator
from openclaw.agent.model_requests import ModelRequests
from openclaw.agent.tool_calls import ToolCallRunner
from openclaw.agent.transcript import AssistantItem, Item, SummaryItem, UserItem
from openclaw.core import events
from openclaw.core.errors import OpenClawError
from openclaw.models.build import BuiltModel
from openclaw.models.fallback import ContextOverflow

logger = logging.getLogger(__name__)

_OVERFLOW_SHARE = 0.6  # how much of a conversation that did not fit is tried next


@dataclass(frozen=True, slots=True)
class ContextRoom:
    conversation: Conversation
    tokens: TokenEstimator
    requests: ModelRequests
    runner: ToolCallRunner
    compact_at: float  # the share of the context from which on the conversation is summarised

    async def make(self, built: BuiltModel) -> None:
        window, conversation = built.context_window, self.conversation
        most = min(window * self.compact_at, window - built.output_room)
        if self.tokens.guess(conversation.items) * self.tokens.correction <= most:
            return
        # If preamble and tools fill the context by themselves, the message still gets some room.
        left = most / self.tokens.correction - self.tokens.overhead
        room = int(max(left, window * compaction.LEAST_SHARE))
        await self._shrink(built, compaction.cut_target(conversation.tokens, room))

    async def shrink_after_overflow(self, built: BuiltModel) -> None:
        """The context is smaller than assumed: shrink relative to what did not fit."""
        await self._shrink(built, int(self.conversation.tokens * _OVERFLOW_SHARE))

    async def summarise_all(self, built: BuiltModel, focus: str) -> str:
        """Summarise everything before the person's last message; says what was done."""
        conversation = self.conversation
        before = conversation.tokens
        cut = [conversation.is_from_turn(item) for item in conversation.items].index(True)
        if not await self._summarise(built, cut, focus):
            return "There is nothing to summarise yet."
        after = conversation.tokens
        return f"I summarised the conversation: about {before} tokens before, {after} now."

    async def _shrink(self, built: BuiltModel, room: int) -> None:
        """Cut old results, then summarise the oldest part, then cut what is left if need be."""
        conversation = self.conversation
        items = compaction.trimmed_old(conversation.items, room)
        if compaction.total_tokens(items) > room:
            notes = min(int(built.context_window * compaction.SUMMARY_SHARE), room // 4)
            cut = compaction.cut_index(items, room - notes, conversation.turn_start)
            await self._summarise(built, cut)
        conversation.items = compaction.trimmed(conversation.items, room)

    async def _summarise(self, built: BuiltModel, cut: int, focus: str = "") -> bool:
        """Replace the items before `cut` by a summary; False if there is nothing to summarise."""
        conversation = self.conversation
        early, kept = conversation.items[:cut], conversation.items[cut:]
        old = [item for item in early if not conversation.is_from_turn(item)]
        if not any(isinstance(item, UserItem | AssistantItem) for item in old):
            return False
        window = built.context_window
        most = max(60, int(window * compaction.SUMMARY_SHARE / self.tokens.correction))
        notes = await self._notes_on(old, built, most, focus)
        earlier = (item.through for item in old if isinstance(item, SummaryItem))
        through = max(kept[0].seq - 1, *earlier, 0)
        summary = self._redacted(compaction.summary_of(old, notes, most), through)
        # The store returns only what comes after `through`, so the entry has to carry these.
        from_turn = [item for item in early if conversation.is_from_turn(item)]
        lost = [item for item in kept if item.seq <= through]
        messages = [item for item in (*from_turn, *lost) if isinstance(item, UserItem)]
        entry = transcript.summary_entry(summary, messages)
        seq = await self.runner.lane.compact(self.runner.turn, entry, through=through)
        conversation.items = [replace(summary, seq=seq), *from_turn, *kept]
        message = "earlier parts of the conversation were summarised"
        self.runner.emit(events.Notice("info", message))
        return True

    def _redacted(self, summary: SummaryItem, through: int) -> SummaryItem:
        redact = self.runner.redact
        return replace(
            summary,
            summary=redact(summary.summary),
            plan=redact(summary.plan),
            files=tuple(map(redact, summary.files)),
            through=through,
        )

    async def _notes_on(self, old: list[Item], built: BuiltModel, most: int, focus: str) -> str:
        share = built.context_window * compaction.REQUEST_SHARE
        text = compaction.request_text(old, max(100, int(share / self.tokens.correction) - 250))
        instructions = f"{compaction.INSTRUCTIONS}Write at most {most * 2 // 3} words.\n"
        if focus:
            instructions += f"The person wants these notes to keep above all: {focus}\n"
        try:
            response = await self.requests.ask_alone(instructions, text)
        except (OpenClawError, ContextOverflow):
            logger.warning("no model made a summary; the oldest part is cut short instead")
            return compaction.plain_summary(old, most)
        return response.text or compaction.plain_summary(old, most)
