"""The conversation of a turn in progress, a guess at its tokens, and the answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from openclaw.agent import compaction
from openclaw.agent.transcript import AssistantItem, CallItem, Item, UserItem


@dataclass(slots=True)
class Conversation:
    """What a model is sent. The turn starts at `turn_start`, the person's last message."""

    items: list[Item]
    turn_start: int

    @classmethod
    def of(cls, items: list[Item]) -> "Conversation":
        messages = (item.seq for item in reversed(items) if isinstance(item, UserItem))
        return cls(items, next(messages, 0))

    @property
    def call_ids(self) -> set[str]:
        answers = (item for item in self.items if isinstance(item, AssistantItem))
        return {call.id for answer in answers for call in answer.calls}

    @property
    def tokens(self) -> int:
        return compaction.total_tokens(self.items)

    def is_from_turn(self, item: Item) -> bool:
        return compaction.is_from_turn(item, self.turn_start)

    def forget_native(self) -> None:
        """Leave out what a model had signed or encrypted, since it is no longer accepted."""
        self.items = [
            replace(item, native=None) if isinstance(item, AssistantItem) else item
            for item in self.items
        ]


@dataclass(slots=True)
class TokenEstimator:
    """Guesses the tokens of a request; the provider's own count corrects the next guess."""

    preamble: int
    tools: int = 0
    correction: float = 1.0

    @property
    def overhead(self) -> int:
        return self.preamble + self.tools

    def guess(self, items: Sequence[Item]) -> int:
        return self.overhead + compaction.total_tokens(items)

    def learn(self, guess: int, counted: int) -> None:
        if counted and guess:
            self.correction = min(3.0, max(0.9, counted / guess))


@dataclass(frozen=True, slots=True)
class TurnAnswer:
    """What a turn ends with: a text, or calls for the sender of the message to run."""

    text: str
    model: str = ""
    finish_reason: str = "stop"  # in the library's words
    thinking: str = ""
    client_calls: tuple[CallItem, ...] = ()
