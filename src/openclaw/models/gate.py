"""What of a streamed answer is shown, so that an attempt that starts over repeats nothing."""

from collections.abc import Callable

Show = Callable[[str], None]


class TextGate:
    """Passes an answer's pieces on.

    After `restart`, the new attempt's text is held back while it only repeats what was shown. Where
    it turns out to be another text, `diverged` is called once and the new text is shown from its
    beginning.
    """

    def __init__(self, show: Show, diverged: Callable[[], None]) -> None:
        self._show = show
        self._diverged = diverged
        self._shown = ""
        self._attempt = ""
        self._repeating = False

    @property
    def shown(self) -> str:
        """The text of the present attempt that went out."""
        return self._shown

    def feed(self, piece: str) -> None:
        """Take a piece of the present attempt."""
        self._attempt += piece
        if not self._repeating:
            self._shown += piece
            self._show(piece)
        elif self._attempt.startswith(self._shown):
            rest = self._attempt[len(self._shown) :]
            if rest:
                self._repeating = False
                self._shown = self._attempt
                self._show(rest)
        elif not self._shown.startswith(self._attempt):
            self._start_over()

    def restart(self) -> None:
        """A new attempt begins."""
        self._attempt = ""
        self._repeating = bool(self._shown)

    def finish(self) -> None:
        """The attempt is complete: an answer shorter than what was shown is another answer."""
        if self._repeating and self._attempt != self._shown:
            self._start_over()
        self._repeating = False

    def _start_over(self) -> None:
        self._repeating = False
        self._shown = self._attempt
        self._diverged()
        if self._attempt:
            self._show(self._attempt)
