"""What happens in the gateway, told to everybody who listens."""

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from openclaw.core.events import Event

_KEPT = 1000  # events that a listener may lag behind before it loses the oldest


class Listener:
    """Events in the order in which they came; a slow one loses the oldest, not the newest."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._news = anyio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        """Take one; never blocks."""
        self._events.append(event)
        self._news.set()

    def close(self) -> None:
        """Nothing comes after this."""
        self._closed = True
        self._news.set()

    async def take(self) -> list[Event]:
        """Everything that came since the last time; nothing once the hub is closed."""
        while not self._events and not self._closed:
            self._news = anyio.Event()
            await self._news.wait()
        taken = list(self._events)
        self._events.clear()
        return taken


class Hub:
    """Passes every event on to every listener."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def emit(self, event: Event) -> None:
        """Tell everybody."""
        for listener in self._listeners:
            listener.put(event)

    def close(self) -> None:
        """Let every listener go."""
        for listener in self._listeners:
            listener.close()

    @contextmanager
    def listen(self) -> Generator[Listener]:
        """Hear everything while this lasts."""
        listener = Listener()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
