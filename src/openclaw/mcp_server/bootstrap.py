"""Starts the server so that a client has its handshake answered while the SDK still loads.

Imports are few on purpose: this is the cold path of every client that starts the server.
"""

import os
import select
import sys
import threading  # first imported on the main thread: whoever imports it counts as the main one

from openclaw.mcp_server.handshake import Answers, Handshake, id_bytes, is_call, loads
from openclaw.mcp_server.recorded_handshake import LATEST, LEGACY, MODERN, RESULTS
from openclaw.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from openclaw.mcp_server.chunk_reader import Pieces

_CHUNK = 1 << 18
_TAKEN_WHILE_LOADING = 64 << 20  # then the client has to wait until there is who takes orders
_SWITCH_INTERVAL_WHILE_LOADING = 0.0005  # the import must not hold back an answer for 5 ms


class Options:
    """What the command line asked for, under the names that the full parser gives it."""

    agent: str | None = None
    config: str | None = None
    verbose = log_json = local = False


def answers_for(program: str) -> Answers:
    """The recorded answers of this program, with its version in them."""
    version = __version__.encode()
    return Answers(
        LEGACY,
        MODERN,
        LATEST,
        {key: body.replace(b"@VERSION@", version) for key, body in RESULTS[program].items()},
    )


def parse_options(arguments: "list[str]") -> Options | None:
    """The options where they are ordinary; None where the full parser has to explain or help."""
    options = Options()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in ("-v", "--verbose"):
            options.verbose = True
        elif word == "--log-json":
            options.log_json = True
        elif word == "--local":
            options.local = True
        elif name in ("--agent", "--config") and (equals or rest):
            setattr(options, name[2:], value if equals else rest.pop(0))
        else:
            return None
    return options


class _Loader:
    """Imports the SDK's side on a thread, and calls `tell` when it is there or has failed."""

    def __init__(self, load: "Callable[[], Any]", tell: "Callable[[], Any]") -> None:
        self._prepare = load
        self._tell = tell
        self.loaded: Any = None
        self.error: BaseException | None = None
        self.finished = threading.Event()

    def start(self) -> None:
        sys.setswitchinterval(_SWITCH_INTERVAL_WHILE_LOADING)
        threading.Thread(target=self._load, daemon=True, name="load-sdk").start()

    def _load(self) -> None:
        try:
            self.loaded = self._prepare()
        except BaseException as error:  # noqa: BLE001 (reported on the main thread)
            self.error = error
        finally:
            self._tell()
            self.finished.set()


def _claim_stdio() -> "tuple[int, int]":
    """Keep the wire to ourselves: what any library reads or prints goes elsewhere."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(null, 1)
    os.close(null)
    sys.stdout = sys.stderr
    return wire_in, wire_out


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class _Wire:
    """The client's end as raw file descriptors, with whatever is left of an unfinished line."""

    def __init__(self, wire_in: int, wire_out: int) -> None:
        self.wire_in, self.wire_out = wire_in, wire_out
        self.rest: list[bytes] = []
        self.taken = 0
        self.at_end = False

    def lines(self, chunk: bytes) -> "list[bytes]":
        """Take a piece and return the lines that this finished; an empty piece is the end."""
        self.taken += len(chunk)
        if not chunk:
            self.at_end = True
            finished, self.rest = [b"".join(self.rest)], []
            return finished
        if b"\n" not in chunk:
            self.rest.append(chunk)
            return []
        head, *tail = chunk.split(b"\n")
        finished = [b"".join([*self.rest, head]), *tail[:-1]]
        self.rest = [tail[-1]]
        return finished


def _answer(wire: _Wire, handshake: Handshake, chunk: bytes) -> None:
    answers = b"".join(filter(None, map(handshake.feed, wire.lines(chunk))))
    if answers:
        _write_all(wire.wire_out, answers)
    if wire.at_end and not handshake.owes_an_answer:
        os._exit(0)  # nobody waits for anything: no need to finish the import


def _answer_until_loaded(
    wire: _Wire, handshake: Handshake, load: "Callable[[], Any]", wake: "tuple[int, int]"
) -> _Loader:
    if sys.platform == "win32":
        raise NotImplementedError("there is no poll(2) on Windows; threads are used there")
    done, ring = wake
    loader = _Loader(load, lambda: os.write(ring, b"x"))
    poll = select.poll()
    poll.register(wire.wire_in, select.POLLIN)
    poll.register(done, select.POLLIN)
    ready = poll.poll(0)  # what is already there is answered before the import starts
    started = False
    while not loader.finished.is_set():
        if any(fd == wire.wire_in for fd, _ in ready):
            _answer(wire, handshake, os.read(wire.wire_in, _CHUNK))
            if wire.at_end or wire.taken > _TAKEN_WHILE_LOADING:
                poll.unregister(wire.wire_in)
        if not started:
            loader.start()
            started = True
        ready = poll.poll()
    return loader


def _answer_by_threads(
    wire: _Wire, handshake: Handshake, load: "Callable[[], Any]", pieces: "Pieces"
) -> _Loader:
    """The same where nothing can wait for a pipe and the import at once."""
    loader = _Loader(load, pieces.wake)
    pieces.start()
    loader.start()
    while (chunk := pieces.get()) is not None:
        _answer(wire, handshake, chunk)
        if wire.taken > _TAKEN_WHILE_LOADING:
            loader.finished.wait()
            break
    return loader


def _refuse(wire: _Wire, handshake: Handshake, error: BaseException) -> None:
    """Say why nothing will be answered, on stderr and to every request that waits."""
    sys.excepthook(type(error), error, error.__traceback__)
    for line in handshake.queue:
        if not isinstance(line, bytes):
            continue
        try:
            message = loads(line)
        except (ValueError, StopIteration, RecursionError):
            continue
        if is_call(message) and type(message.get("id")) in (int, str):
            body = b'"error":{"code":-32603,"message":"the server failed to start; see its log"}'
            _write_all(
                wire.wire_out, b'{"jsonrpc":"2.0","id":%b,%b}\n' % (id_bytes(message["id"]), body)
            )


def serve(
    program: str,
    load: "Callable[[], Any]",
    *,
    by_threads: bool = sys.platform == "win32",
) -> "NoReturn":
    """Serve one client until it goes away, and leave the process.

    `load` imports and prepares the SDK's side; it runs on a thread while the handshake is answered.
    """
    code = 0
    try:
        code = _serve(_Wire(*_claim_stdio()), program, load, by_threads=by_threads)
    except BrokenPipeError:
        code = 0
    except KeyboardInterrupt:
        code = 130
    sys.stderr.flush()
    # Daemon threads and half-imported modules have nothing left to say once the client is gone.
    os._exit(code)


def _pieces(fd: int) -> "Pieces":
    from openclaw.mcp_server.chunk_reader import Pieces

    return Pieces(fd)


def _serve(wire: _Wire, program: str, load: "Callable[[], Any]", *, by_threads: bool) -> int:
    handshake = Handshake(answers_for(program))
    pieces = _pieces(wire.wire_in) if by_threads else None
    if pieces is not None:
        loader = _answer_by_threads(wire, handshake, load, pieces)
    else:
        wake = os.pipe()
        loader = _answer_until_loaded(wire, handshake, load, wake)
        for end in wake:
            os.close(end)
    sys.setswitchinterval(0.005)
    if loader.error is not None:
        _refuse(wire, handshake, loader.error)
        return 1
    return loader.loaded.run(
        wire.wire_in,
        wire.wire_out,
        handshake.queue,
        wire.rest,
        at_end=wire.at_end,
        pieces=pieces,
    )
