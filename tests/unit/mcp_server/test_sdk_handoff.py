"""Messages over real pipes, whether the event loop watches them or threads do."""

import json
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from openclaw.mcp_server.message_writer import MessageWriter
from openclaw.mcp_server.sdk_handoff import MessageReader
from openclaw.stdio.descriptors import ThreadedReader
from openclaw.stdio.lines import LineSplitter
from openclaw.stdio.pipes import LineReader, ThreadedWriter, open_reader, open_writer

LIMIT = 100_000
Json = dict[str, Any]


@dataclass
class Client:
    """The client's ends of the pipes, and the server's."""

    to_server: int
    from_server: int
    server_in: int
    server_out: int
    threaded: bool
    unread: bytes = b""

    def reader(
        self, rest: bytes = b"", tell: Callable[[Json], None] = lambda fault: None
    ) -> MessageReader:
        splitter = LineSplitter(LIMIT)
        splitter.feed(rest)
        if self.threaded:
            reader = ThreadedReader(partial(os.read, self.server_in))
            reader.wake()
        else:
            reader = open_reader(self.server_in)
        return MessageReader(LineReader(reader, splitter), tell)

    def writer(self) -> MessageWriter:
        if self.threaded:
            return MessageWriter(ThreadedWriter(partial(os.write, self.server_out)))
        return MessageWriter(open_writer(self.server_out))

    def send(self, data: bytes) -> None:
        os.write(self.to_server, data)

    def hang_up(self) -> None:
        os.close(self.to_server)
        self.to_server = -1

    def stop_reading(self) -> None:
        os.close(self.from_server)
        self.from_server = -1

    async def line(self) -> Any:
        """The next line that was written."""
        while b"\n" not in self.unread:
            self.unread += await anyio.to_thread.run_sync(os.read, self.from_server, 1 << 20)
        line, _, self.unread = self.unread.partition(b"\n")
        return json.loads(line)


@pytest.fixture(params=["watched", "threaded"])
def client(request: pytest.FixtureRequest) -> Generator[Client]:
    server_in, to_server = os.pipe()
    from_server, server_out = os.pipe()
    made = Client(to_server, from_server, server_in, server_out, request.param == "threaded")
    yield made
    for end in (made.to_server, made.from_server, server_out):
        if end >= 0:
            os.close(end)
    if not made.threaded:  # a thread may still wait for it; it ends with what it waits for
        os.close(server_in)


def ping(number: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode() + b"\n"


def answer(number: Any, **result: Any) -> Json:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def fault(number: Any) -> Json:
    error = {"code": types.INVALID_REQUEST, "message": "x" * (1 << 16)}
    return {"jsonrpc": "2.0", "id": number, "error": error}


def id_of(item: SessionMessage) -> Any:
    return item.message.model_dump()["id"]


async def test_messages_come_in_order_and_end_with_the_client(client: Client) -> None:
    first = ping(0)
    async with client.reader(first[:10]) as reader:
        client.send(first[10:])
        for number in range(1, 200):
            client.send(ping(number))
        client.send(ping("last")[:-1])
        client.hang_up()
        with anyio.fail_after(60):
            seen = [id_of(item) async for item in reader]
            with pytest.raises(anyio.EndOfStream):
                await reader.receive()
    assert seen == [*range(200), "last"]


async def test_a_reader_that_is_closed_gives_nothing_more(client: Client) -> None:
    reader = client.reader()
    async with anyio.create_task_group() as group:

        async def receive() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await reader.receive()

        group.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await reader.aclose()
    client.hang_up()


async def test_what_is_no_message_is_answered_between_the_others(client: Client) -> None:
    writer = client.writer()
    long = b'{"jsonrpc":"2.0","id":"long","method":"' + b"x" * LIMIT + b'"}\n'
    sent = b"rubbish\n\n  \n" + ping(1) + long + ping(2)

    def send() -> None:  # more than a pipe holds: whoever sends it waits for the reader
        for at in range(0, len(sent), 1000):
            client.send(sent[at : at + 1000])

    async with client.reader(tell=writer.tell) as reader, anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, send)
        with anyio.fail_after(60):
            assert id_of(await reader.receive()) == 1
            assert id_of(await reader.receive()) == 2
            answers = [await client.line(), await client.line()]
        client.hang_up()
        assert [(one["id"], one["error"]["code"]) for one in answers] == [
            (None, types.PARSE_ERROR),
            ("long", types.INVALID_REQUEST),
        ]
    await writer.aclose()


async def test_a_client_that_lags_is_waited_for(client: Client) -> None:
    writer = client.writer()
    sent: list[int] = []

    async def send_all() -> None:
        for number in range(4):
            await writer.send(answer(number, data="x" * (1 << 20)))
            sent.append(number)

    lines: list[Any] = []
    async with anyio.create_task_group() as group:
        group.start_soon(send_all)
        await anyio.wait_all_tasks_blocked()
        assert len(sent) < 4
        lines = [await client.line() for _ in range(4)]
    assert [line["id"] for line in lines] == [0, 1, 2, 3]
    assert all(len(line["result"]["data"]) == 1 << 20 for line in lines)
    await writer.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await writer.send(answer(9))


async def test_a_client_that_stops_reading_breaks_the_writer(client: Client) -> None:
    writer = client.writer()
    client.stop_reading()

    async def send_for_ever() -> None:
        while True:
            await writer.send(answer(1, data="x" * (1 << 20)))

    with anyio.fail_after(60), pytest.raises(anyio.BrokenResourceError):
        await send_for_ever()
    writer.tell(fault(2))
    await writer.aclose()


async def test_closing_waits_no_longer_than_a_moment_for_who_does_not_read(client: Client) -> None:
    writer = client.writer()
    for _ in range(40):
        writer.tell(fault(1))
    with anyio.fail_after(60):
        await writer.aclose()
    client.stop_reading()


async def test_faults_are_not_piled_up_for_who_does_not_read(client: Client) -> None:
    writer = client.writer()
    for number in range(200):
        writer.tell(fault(number))
    seen: list[Any] = []
    async with anyio.create_task_group() as group:
        group.start_soon(writer.send, answer("last"))
        while "last" not in seen:
            seen.append((await client.line())["id"])
    assert seen[:10] == list(range(10))
    assert len(seen) < 100
    await writer.aclose()
