"""Shows an answer while the model writes it."""

from collections.abc import Callable
from dataclasses import dataclass

from openclaw.agent.tool_calls import ToolCallRunner
from openclaw.core import events
from openclaw.models.fallback import StreamCallbacks
from openclaw.policy.dataflow.answers import AnswerStream


@dataclass(frozen=True, slots=True)
class _FilteredStream:
    """Shows pieces of a text, made harmless if there is a `filter`."""

    filter: AnswerStream | None
    show: Callable[[str], None]

    def feed(self, piece: str) -> None:
        shown = piece if self.filter is None else self.filter.feed(piece)
        if shown:
            self.show(shown)

    def finish(self, *, drop: bool = False) -> None:
        if self.filter is not None and (rest := self.filter.finish()) and not drop:
            self.show(rest)


class AnswerDisplay:
    """Turns the pieces of an answer and of its thinking into events."""

    def __init__(self, runner: ToolCallRunner) -> None:
        self._runner = runner
        self._text = self._stream(events.TextDelta)
        self._thinking = self._stream(events.ThinkingDelta)

    @property
    def is_watched(self) -> bool:
        return self._runner.listener.on_event is not None

    def start(self) -> StreamCallbacks:
        if not self.is_watched:
            return StreamCallbacks(notice=self._notice)
        self._text = self._stream(events.TextDelta)
        self._thinking = self._stream(events.ThinkingDelta)
        return StreamCallbacks(self._text.feed, self._thinking.feed, self._notice)

    def finish(self) -> None:
        """Show what the filters held back to see how it continues."""
        self._thinking.finish()
        self._text.finish()

    def _stream(
        self, event: type[events.TextDelta] | type[events.ThinkingDelta]
    ) -> _FilteredStream:
        emit = self._runner.emit
        return _FilteredStream(self._runner.toolbox.answers(), lambda piece: emit(event(piece)))

    def _notice(self, message: str) -> None:
        if message == events.STARTS_OVER.message:
            self._text.finish(drop=True)
        self._runner.emit(events.Notice("warning", self._runner.redact(message)))
