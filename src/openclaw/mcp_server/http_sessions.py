"""Sessions of Streamable HTTP, which revisions before 2026-07-28 have."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from anyio.abc import TaskGroup

from openclaw.core.clock import random_id
from openclaw.mcp.http_server import StreamLog
from openclaw.mcp.jsonrpc import Id, Request
from openclaw.mcp.server import Outgoing, ServerConnection
from openclaw.mcp_server.conversation import Conversation, Service
from openclaw.mcp_server.http_response import Piece, Pipe

_REPLAYED_BYTES = 4 << 20  # per session


class Stream:
    """One of a session's streams. It outlives the connections through which it is read."""

    def __init__(self, name: str, calls: set[Id]) -> None:
        self.name = name
        self.calls = calls  # those that are not answered yet
        self.pipe: Pipe | None = None
        self.last_sent = 0

    def attach(self, pipe: Pipe) -> None:
        if self.pipe is not None:
            self.pipe.end()
        self.pipe = pipe

    def detach(self, pipe: Pipe) -> None:
        pipe.break_off()
        if self.pipe is pipe:
            self.pipe = None

    def let_go(self) -> None:
        """End the connection, for the client to come back."""
        if self.pipe is not None:
            self.pipe.end()
            self.pipe = None


@dataclass(eq=False)
class Session:
    """A client of a revision before 2026-07-28. Its calls go on when its connections break."""

    service: Service
    tasks: TaskGroup
    owner: str
    id: str = field(default_factory=random_id)
    _by_call: dict[Id, Stream] = field(default_factory=dict[Id, Stream])

    def __post_init__(self) -> None:
        self.log = StreamLog(random_id(), _REPLAYED_BYTES)
        self.own = Stream("own", set())  # for what belongs to no request
        self.connection = ServerConnection(self.service.offer)
        self.conversation = Conversation(
            self.connection, self.service, self.tasks, self._write, self.pause
        )

    @property
    def is_idle(self) -> bool:
        return not self._by_call and self.own.pipe is None

    def has_open(self, id: Id) -> bool:
        return id in self._by_call

    def open_stream(self, requests: Sequence[Request]) -> Stream:
        stream = Stream(random_id(), {request.id for request in requests})
        self._by_call.update(dict.fromkeys(stream.calls, stream))
        return stream

    def close_stream(self, stream: Stream) -> None:
        for id in stream.calls:
            self._by_call.pop(id, None)
        stream.calls = set()
        stream.let_go()

    def forget_call(self, id: Id) -> None:
        """A call that its client cancelled gets no answer."""
        stream = self._by_call.pop(id, None)
        if stream is not None:
            stream.calls.discard(id)
            if not stream.calls:
                stream.let_go()

    def pause(self, call: Id) -> None:
        """Have the client come back for the rest (2025-11-25, "the server MAY close the connection")."""
        stream = self._by_call.get(call)
        if stream is not None:
            stream.let_go()

    def open_stream_named(self, name: str) -> Stream | None:
        streams = [self.own, *self._by_call.values()]
        return next((stream for stream in streams if stream.name == name), None)

    async def _write(self, outgoing: Outgoing) -> None:
        stream = self.own if outgoing.call is None else self._by_call.get(outgoing.call, self.own)
        data = outgoing.encode()
        event = self.log.add(stream.name, data)
        piece = Piece(data, event.encode(), outgoing.is_final)
        if stream.pipe is None:
            pass  # it waits in the log for the client to come back
        elif stream is not self.own:
            await stream.pipe.put(piece)
        elif stream.pipe.put_nowait(piece):
            stream.last_sent = event.number
        else:
            stream.let_go()  # nobody waits for a client that does not read this one
        if outgoing.is_final and stream is not self.own:
            self.close_stream(stream)

    async def close(self) -> None:
        await self.conversation.handle(self.connection.close())
        for stream in [self.own, *self._by_call.values()]:
            stream.let_go()
