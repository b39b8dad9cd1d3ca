"""Starts the server and answers a client's handshake while a thread imports what takes orders.

Imports are few on purpose: this is the cold path of every client that starts the server.
"""

import os
import select
import sys
import threading  # here, since the thread that imports it first counts as the main one

from openclaw.mcp_server.handshake import Handshake, id_bytes, is_call, parsed
from openclaw.mcp_server.recorded_handshake import RESULTS
from openclaw.stdio import descriptors
from openclaw.stdio.lines import LineSplitter
from openclaw.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from openclaw.stdio.lines import TooLong

_TAKEN_WHILE_LOADING = 64 << 20  # then the client has to wait
_SWITCH_INTERVAL_WHILE_LOADING = 0.0005  # the import must not hold back an answer for 5 ms


_FLAGS = {"-v": "verbose", "--verbose": "verbose", "--log-json": "log_json", "--local": "local"}


class Options:
    """The command line's options, under the full parser's names."""

    agent: str | None = None
    config: str | None = None
    verbose = log_json = local = False


def answers_for(program: str) -> "dict[str, bytes]":
    version = __version__.encode()
    return {key: body.replace(b"@VERSION@", version) for key, body in RESULTS[program].items()}


def parse_options(arguments: "list[str]") -> Options | None:
    """The options if they are ordinary; None if the full parser has to explain or help."""
    options = Options()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            setattr(options, _FLAGS[word], True)
        elif name in ("--agent", "--config") and (equals or rest):
            setattr(options, name[2:], value if equals else rest.pop(0))
        else:
            return None
    return options


class _Loader:
    def __init__(self, load: "Callable[[], Any]", tell: "Callable[[], Any]") -> None:
        self._prepare = load
        self._tell = tell
        self.loaded: Any = None
        self.error: BaseException | None = None
        self.finished = threading.Event()

    def start(self) -> None:
        sys.setswitchinterval(_SWITCH_INTERVAL_WHILE_LOADING)
        threading.Thread(target=self._load, daemon=True, name="load order server").start()

    def _load(self) -> None:
        try:
            self.loaded = self._prepare()
        except BaseException as error:  # noqa: BLE001 (reported on the main thread)
            self.error = error
        finally:
            self._tell()
            self.finished.set()


class ClientPipe:
    """The client's end as raw file descriptors; `reader` is set if threads move the bytes."""

    def __init__(self, wire_in: int, wire_out: int) -> None:
        self.wire_in, self.wire_out = wire_in, wire_out
        self.splitter = LineSplitter()
        self.reader: descriptors.ThreadedReader | None = None
        self.taken = 0
        self.at_end = False

    def lines(self, chunk: bytes) -> "list[bytes | TooLong]":
        """The lines that this chunk completes; an empty chunk is the end."""
        self.taken += len(chunk)
        self.at_end = not chunk
        return self.splitter.feed(chunk) if chunk else self.splitter.finish()

    def write(self, data: bytes) -> None:
        descriptors.write_all(lambda view: os.write(self.wire_out, view), data)


def _answer(pipe: ClientPipe, handshake: Handshake, chunk: bytes) -> None:
    answers = b"".join(filter(None, map(handshake.feed, pipe.lines(chunk))))
    if answers:
        pipe.write(answers)
    if pipe.at_end and not handshake.owes_an_answer:
        os._exit(0)  # nobody waits for anything: no need to finish the import


def _answer_until_loaded(
    pipe: ClientPipe, handshake: Handshake, load: "Callable[[], Any]", wake: "tuple[int, int]"
) -> _Loader:
    if sys.platform == "win32":
        raise NotImplementedError("there is no poll(2) on Windows; threads are used there")
    done, signal_done = wake
    loader = _Loader(load, lambda: os.write(signal_done, b"x"))
    poll = select.poll()
    poll.register(pipe.wire_in, select.POLLIN)
    poll.register(done, select.POLLIN)
    ready = poll.poll(0)  # what is already there is answered before the import starts
    started = False
    while not loader.finished.is_set():
        if any(fd == pipe.wire_in for fd, _ in ready):
            _answer(pipe, handshake, os.read(pipe.wire_in, descriptors.READ_BYTES))
            if pipe.at_end or pipe.taken > _TAKEN_WHILE_LOADING:
                poll.unregister(pipe.wire_in)
        if not started:
            loader.start()
            started = True
        ready = poll.poll()
    return loader


def _answer_by_threads(
    pipe: ClientPipe, handshake: Handshake, load: "Callable[[], Any]"
) -> _Loader:
    """The same for systems that cannot wait for a pipe and the import at once."""
    reader = pipe.reader = descriptors.ThreadedReader(lambda size: os.read(pipe.wire_in, size))
    loader = _Loader(load, reader.wake)
    loader.start()
    while (chunk := reader.get()) is not None:
        _answer(pipe, handshake, chunk)
        if pipe.taken > _TAKEN_WHILE_LOADING:
            loader.finished.wait()
            break
    return loader


def _refuse(pipe: ClientPipe, handshake: Handshake, error: BaseException) -> None:
    """Print the error, and answer every waiting request with one."""
    sys.excepthook(type(error), error, error.__traceback__)
    for line in handshake.queue:
        message: Any = parsed(line) if isinstance(line, bytes) else None
        if is_call(message) and type(message.get("id")) in (int, str):
            body = b'"error":{"code":-32603,"message":"the server failed to start; see its log"}'
            pipe.write(b'{"jsonrpc":"2.0","id":%b,%b}\n' % (id_bytes(message["id"]), body))


def serve(
    program: str,
    load: "Callable[[], Any]",
    *,
    by_threads: bool = sys.platform == "win32",
) -> "NoReturn":
    """Serve one client until it goes away, and leave the process.

    `load` imports and prepares what takes orders; it runs on a thread while the handshake is answered.
    """
    descriptors.run_and_leave(
        lambda: _serve(ClientPipe(*descriptors.claim_stdio()), program, load, by_threads=by_threads)
    )


def _serve(pipe: ClientPipe, program: str, load: "Callable[[], Any]", *, by_threads: bool) -> int:
    handshake = Handshake(answers_for(program), f"order_{program}")
    if by_threads:
        loader = _answer_by_threads(pipe, handshake, load)
    else:
        wake = os.pipe()
        loader = _answer_until_loaded(pipe, handshake, load, wake)
        for end in wake:
            os.close(end)
    sys.setswitchinterval(0.005)
    if loader.error is not None:
        _refuse(pipe, handshake, loader.error)
        return 1
    return loader.loaded(pipe, handshake)
