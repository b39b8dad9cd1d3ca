"""What the program is waiting for, in a few words, as the events tell it."""

from collections.abc import Sequence

from openclaw.core.events import Event, ServerChanged, ToolFinished, ToolStarted, TurnStarted

THINKING = "thinking…"
_CONNECTING = "connecting"
_NAMED = 3


class Doing:
    """Follows the events of a turn, and of the servers before it."""

    def __init__(self) -> None:
        self._starting: dict[str, None] = {}
        self._running: dict[str, str] = {}
        self._begun = False

    def note(self, event: Event) -> None:
        """Something happened."""
        match event:
            case ServerChanged():
                self._starting.pop(event.server, None)
                if event.state == _CONNECTING:
                    self._starting[event.server] = None
            case TurnStarted():
                self._begun = True
                self._running.clear()
            case ToolStarted():
                self._running[event.call_id] = event.label
            case ToolFinished():
                self._running.pop(event.call_id, None)
            case _:
                pass

    @property
    def words(self) -> str:
        """What is waited for now."""
        if self._running:
            return f"running {named(list(self._running.values()))}…"
        if self._starting and not self._begun:
            return f"starting {named(list(self._starting))}…"
        return THINKING


def named(names: Sequence[str]) -> str:
    """The first few of these names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, what: str) -> str:
    """So many of these, with its plural where there is not one of them."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
