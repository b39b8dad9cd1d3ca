"""The same bytes into the SDK's own stdio server and into ours must give the same answers.

The SDK says nothing to what is no message. We say what is wrong, and nothing else is different.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

import anyio
import pytest
from mcp.server.stdio import stdio_server
from scripts.record_handshake import bare_server

pytestmark = pytest.mark.cold_start  # what is answered while the rest is still imported
META = "io.modelcontextprotocol/"
Message = dict[str, Any] | bytes


def meta(version: str = "2026-07-28", **more: Any) -> dict[str, Any]:
    return {
        "_meta": {
            META + "protocolVersion": version,
            META + "clientCapabilities": {},
            META + "clientInfo": {"name": "t", "version": "1"},
            **more,
        }
    }


def ask(number: Any, method: str, params: Any = None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
    return message if params is None else {**message, "params": params}


def hello(number: Any = 1, version: str = "2025-11-25", **more: Any) -> dict[str, Any]:
    params = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    return ask(number, "initialize", params | more)


def order(number: Any, **more: Any) -> dict[str, Any]:
    """A call whose answer needs no agent: its arguments are wrong."""
    return ask(number, "tools/call", {"name": "order_openclaw", "arguments": {}, **more})


READY: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
REVISIONS: Mapping[str, Sequence[Message]] = {
    f"everything at once, {version}": [
        hello(1, version),
        READY,
        ask(2, "tools/list"),
        ask("three", "ping"),
        order(4),
        ask(5, "tools/list", {}),
    ]
    for version in (
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "1999-01-01",
        "2026-07-28",
    )
}
CASES: Mapping[str, Sequence[Message]] = {
    **REVISIONS,
    "modern": [
        ask(1, "server/discover", meta()),
        ask(2, "tools/list", meta()),
        order(3, **meta()),
        ask(4, "server/discover", meta()),
    ],
    "modern without discovery": [order(3, **meta()), ask(4, "tools/list", meta())],
    "discovery with initialize behind it": [
        ask(1, "server/discover", meta()),
        hello(2),
        READY,
        order(3),
    ],
    "initialize with discovery behind it": [
        hello(1),
        READY,
        ask(2, "server/discover", meta()),
        order(3),
    ],
    "discovery of a revision to come": [
        ask(1, "server/discover", meta("2027-01-01")),
        hello(2),
        READY,
        order(3),
    ],
    "bare discovery, then initialize": [
        ask(1, "server/discover"),
        hello(2),
        READY,
        order(3),
        ask(4, "tools/list"),
    ],
    "ping first": [ask(0, "ping"), hello(1), READY, ask(2, "tools/list"), order(3)],
    "ping, then modern": [ask(0, "ping"), ask(1, "server/discover", meta()), order(2, **meta())],
    "listing before initialize": [ask(1, "tools/list"), hello(2), READY, ask(3, "tools/list")],
    "calling before initialize": [order(1), hello(2), READY, order(3)],
    "initialize twice": [hello(1), READY, hello(2, "2024-11-05"), ask(3, "tools/list"), order(4)],
    "unknown methods": [hello(1), READY, ask(2, "foo/bar", {}), ask(3, "resources/list"), order(5)],
    "cursors": [
        hello(1),
        READY,
        ask(2, "tools/list", {"cursor": "abc"}),
        ask(3, "tools/list", {"cursor": 5}),
        order(4),
    ],
    "wrong capabilities": [hello(1, capabilities={"roots": 5}), READY, ask(2, "tools/list")],
    "wrong client": [hello(1, clientInfo={"name": "x"}), READY, ask(2, "tools/list")],
    "many capabilities": [
        hello(
            1,
            capabilities={
                "roots": {"listChanged": True},
                "sampling": {},
                "elicitation": {"form": {}, "url": {}},
                "experimental": {"a": {"b": [1]}},
                "zzz": 4,
            },
            clientInfo={"name": "x", "version": "1", "title": "T", "icons": [{"src": "http://a"}]},
        ),
        READY,
        ask(2, "tools/list"),
    ],
    "metadata": [
        hello(1, _meta={"progressToken": 3, "a/b": 1}),
        READY,
        ask(2, "tools/list", {"_meta": {"progressToken": "p"}}),
        order(3),
    ],
    "odd ids": [
        hello('a\u00e9"\\\u2028'),
        READY,
        ask("x\ty", "tools/list"),
        ask(10**20, "ping"),
        ask(-1, "ping"),
        ask(1.5, "tools/list"),
        ask(None, "tools/list"),
        ask(True, "tools/list"),
        order("z"),
    ],
    "rubbish in between": [
        b"not json",
        b"[]",
        b"",
        hello(1),
        READY,
        b'{"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"1.0","id":8,"method":"ping"}',
        ask(2, "ping"),
        order(3),
    ],
    "strange parameters": [
        hello(1),
        READY,
        b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":null}',
        b'{"jsonrpc":"2.0","id":3,"method":"ping","params":[]}',
        order(4),
    ],
    "an unknown tool": [hello(1), READY, ask(2, "tools/call", {"name": "nope"}), order(3)],
    "modern extras": [
        ask(1, "server/discover", {**meta(), "x": 1}),
        ask(2, "tools/list", {**meta(), "y": 2}),
        order(3, **meta()),
    ],
    "modern log levels": [
        ask(1, "server/discover", meta(**{META + "logLevel": "debug"})),
        ask(2, "tools/list", meta(**{META + "logLevel": "bogus"})),
        order(3, **meta()),
    ],
}


FAULTS: Mapping[str, Sequence[tuple[Any, int]]] = {
    "odd ids": [(None, -32600)] * 3,
    "rubbish in between": [(None, -32700), (None, -32600), (7, -32600), (8, -32600)],
    "strange parameters": [(3, -32602)],
}
"""What we answer beyond the SDK: to whom, and the code."""

BY_THREADS = """
from openclaw.cli.commands.mcp_server import prepare_first
from openclaw.mcp_server.bootstrap import Options, serve

serve("openclaw", lambda: prepare_first("openclaw", Options()), by_threads=True)
"""
OURS = {
    "watching": [str(Path(sys.executable).with_name("openclaw")), "mcp-server"],
    "by threads": [sys.executable, "-c", BY_THREADS],
}


@contextmanager
def _ours(way: str) -> Generator[tuple[IO[bytes], IO[bytes]]]:
    with subprocess.Popen(
        OURS[way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        yield child.stdin, child.stdout
        assert child.wait(60) == 0


@contextmanager
def _the_sdks() -> Generator[tuple[IO[bytes], IO[bytes]]]:
    """The SDK's server in a thread, on pipes like those of a process."""
    (its_input, to_it), (from_it, its_output) = os.pipe(), os.pipe()

    async def serve() -> None:
        server = bare_server("openclaw")
        with os.fdopen(its_input) as given, os.fdopen(its_output, "w") as said:
            async with stdio_server(anyio.wrap_file(given), anyio.wrap_file(said)) as streams:
                await server.run(*streams, server.create_initialization_options())

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    with os.fdopen(to_it, "wb") as stdin, os.fdopen(from_it, "rb") as stdout:
        yield stdin, stdout
    thread.join()


def _dialogue(
    server: AbstractContextManager[tuple[IO[bytes], IO[bytes]]],
    messages: Sequence[Message],
    silent: Sequence[tuple[Any, int]] = (),
) -> list[Any]:
    """Send everything, close, and return the answers in an order that does not depend on timing."""
    with server as (stdin, stdout):
        return _answers(stdin, stdout, messages, silent)


def _answers(
    stdin: IO[bytes],
    stdout: IO[bytes],
    messages: Sequence[Message],
    silent: Sequence[tuple[Any, int]],
) -> list[Any]:
    lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
    stdin.write(b"\n".join(lines) + b"\n")
    stdin.flush()
    wanted = {json.dumps(m["id"]) for m in messages if isinstance(m, dict) and _answerable(m)}
    wanted -= {json.dumps(request_id) for request_id, _ in silent}
    answers: list[Any] = []
    while wanted:  # a server that does not answer fails by the suite's own time limit
        line = stdout.readline()
        assert line, f"the server ended while {wanted} waited"
        answers.append(json.loads(line))
        wanted.discard(json.dumps(answers[-1].get("id")))
    stdin.close()
    answers += [json.loads(line) for line in stdout]
    return sorted(answers, key=lambda answer: json.dumps(answer, sort_keys=True))


def _answerable(message: dict[str, Any]) -> bool:
    return type(message.get("id")) in (int, str)


def _split(answers: list[Any], name: str) -> tuple[list[Any], list[tuple[Any, int]]]:
    """The answers that the SDK gives too, and what we answer beyond it."""
    faults = FAULTS.get(name, ())
    known: list[Any] = []
    beyond: list[tuple[Any, int]] = []
    for answer in answers:
        key = (answer["id"], answer.get("error", {}).get("code"))
        if key in faults:
            beyond.append(key)
        else:
            known.append(answer)
    return known, beyond


SPOKEN_BY_THREADS = ("everything at once, 2025-11-25", "modern", "rubbish in between")


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((name, "watching") for name in CASES),
        *((name, "by threads") for name in SPOKEN_BY_THREADS),
    ],
)
def test_a_dialogue_is_answered_as_the_sdk_answers_it(name: str, way: str) -> None:
    expected = _expected(name)
    known, beyond = _split(_dialogue(_ours(way), CASES[name]), name)
    assert known == expected
    assert sorted(beyond, key=str) == sorted(FAULTS.get(name, ()), key=str)


@cache
def _expected(name: str) -> list[Any]:
    return _dialogue(_the_sdks(), CASES[name], silent=FAULTS.get(name, ()))
