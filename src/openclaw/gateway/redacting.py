"""What a turn says, without secrets, before it leaves the gateway.

A front end in another process knows few of the values that were resolved here, so that it cannot
keep them out of sight itself.
"""

from dataclasses import replace

from openclaw.agent.context import OnBlockReply, Reply
from openclaw.core.content import Block, Text
from openclaw.core.events import BlockReply, Emit, Event, TextDelta, ThinkingDelta
from openclaw.secrets.deltas import DeltaRedactor
from openclaw.secrets.redactor import Redactor


class RedactedTurn:
    """The words of one turn on their way out."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._words = DeltaRedactor(redactor)
        self._thoughts = DeltaRedactor(redactor)

    def events(self, emit: Emit) -> Emit:
        """Hands events on; what was held back of a text comes before what happens after it."""

        def told(event: Event) -> None:
            match event:
                case ThinkingDelta():
                    self._tell_thought(self._thoughts.feed(event.text), emit)
                case TextDelta():
                    self._tell_thought(self._thoughts.finish(), emit)
                    self._tell_words(self._words.feed(event.text), emit)
                case BlockReply():
                    self.flush(emit)
                    emit(BlockReply(tuple(map(self._block, event.blocks))))
                case _:
                    self.flush(emit)
                    emit(event)

        return told

    def flush(self, emit: Emit) -> None:
        """Hand on what was held back."""
        self._tell_thought(self._thoughts.finish(), emit)
        self._tell_words(self._words.finish(), emit)

    def blocks(self, on_block_reply: OnBlockReply) -> OnBlockReply:
        """The same for whole blocks."""
        return lambda blocks: on_block_reply(tuple(map(self._block, blocks)))

    def reply(self, reply: Reply) -> Reply:
        """The answer itself."""
        return replace(reply, text=self._redactor.redact(reply.text))

    def _block(self, block: Block) -> Block:
        if isinstance(block, Text):
            return replace(block, text=self._redactor.redact(block.text))
        return block

    @staticmethod
    def _tell_words(text: str, emit: Emit) -> None:
        if text:
            emit(TextDelta(text))

    @staticmethod
    def _tell_thought(text: str, emit: Emit) -> None:
        if text:
            emit(ThinkingDelta(text))
