"""Starts `openclaw` as a process that need not import anything: it is forked from one that has.

A program that a test starts spends a second or two on imports, and the suite starts hundreds. Here
a process without threads imports everything once and waits; for each program that is to be started
it forks. The program is a real process and a child of the tests' own process (CLONE_PARENT), with the
descriptors, directory, environment and session that were asked for. What starting costs, and what is
imported when, is tested in `tests/process` and `tests/e2e`, where programs are started as always.
"""

import atexit
import ctypes
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import platform
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BIN = Path(sys.executable).parent
_PROGRAMS = {str(_BIN / name): name for name in ("openclaw", "clawdbot")}
_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine()) if sys.platform == "linux" else None
_CLONE_PARENT = 0x00008000
_SIZE = struct.Struct("<q")
# A process with these is another one from its first instruction, but for a few that change nothing.
_MATTERS_AT_START = ("PYTHON", "LC_", "LANG")
_DOES_NOT = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
_UTF_8 = ("LANG", "C.UTF-8")
_LATER = (  # imported when a model or a server is first used
    "concurrent.futures.thread",
    "genai_prices.data",
    "jiter",
    "mcp.client.session",
    "mcp.client.subscriptions",
    "openai.resources.chat.completions.completions",
    "openai.resources.responses.responses",
    "openai.types.responses.response_usage",
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai",
    "uvicorn.lifespan.off",
)

_MEASURING = ("coverage", "coverage.data", "coverage.tracer", "sqlite3")
"""What counts a program's lines, and what that imports when it starts."""


@dataclass(frozen=True, slots=True)
class Start:
    """What to start, and how; descriptors travel beside it, the first three as 0, 1 and 2."""

    program: str
    argv: list[str]
    environ: dict[str, str]
    cwd: str
    keep: list[int]
    session: bool = False
    group: int = -1
    umask: int = -1
    terminal: bool = False


class Starter:
    """The tests' side: one process that forks, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._owner = os.getpid()
        self._used = False

    def start(self, wanted: Start, descriptors: Sequence[int]) -> int:
        """The id of the new process."""
        said = json.dumps(
            {name: getattr(wanted, name) for name in Start.__dataclass_fields__}
        ).encode("ascii")
        with self._lock:
            there = self._socket or self._begin()
            socket.send_fds(there, [_SIZE.pack(len(said))], list(descriptors))
            there.sendall(said)
            return _SIZE.unpack(_exactly(there, _SIZE.size))[0]

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm_start", str(theirs.fileno())],
                env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._socket = ours
        return ours

    def close(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()

    @contextmanager
    def in_place(self) -> Generator[None]:
        """Have `subprocess`, and all that builds on it, start our programs in this way."""
        if _CLONE is None:
            yield
            return
        module: Any = subprocess
        real = module._fork_exec

        def fork_exec(*given: Any) -> int:
            wanted = _understood(given) if os.getpid() == self._owner else None
            return real(*given) if wanted is None else self.start(*wanted)

        module._fork_exec = fork_exec
        self._used = True
        try:
            yield
        finally:
            self._used = False
            module._fork_exec = real

    def start_on_terminal(
        self, command: Sequence[str], environ: Mapping[str, str], descriptor: int
    ) -> int | None:
        """The id of one of our programs on this terminal; None if it has to be started as always."""
        found = _program_of(list(command))
        if not self._used or found is None or not _may_be_warm(environ):
            return None
        where = str(Path.cwd())
        wanted = Start(*found, dict(environ), where, [], session=True, terminal=True)
        return self.start(wanted, [descriptor] * 3)


STARTER = Starter()


def _understood(given: Sequence[Any]) -> tuple[Start, list[int]] | None:
    """What `subprocess` asks for, if it is one of our programs and can be started from here."""
    if len(given) != 23:  # of another version of Python
        return None
    (args, _, close, keep, cwd, env, stdin, _, _, stdout, _, stderr, _, ended) = given[:14]
    session, group, gid, _, uid, umask, before = given[15:22]
    found = _program_of([os.fsdecode(one) for one in args])
    if found is None or not close or (gid, uid, before) != (None, None, None):
        return None
    environ = dict(os.environ)
    if env is not None:
        environ = dict(os.fsdecode(one).split("=", 1) for one in env)
    if not _may_be_warm(environ):
        return None
    standard = [one if one >= 0 else number for number, one in enumerate((stdin, stdout, stderr))]
    kept = [one for one in keep if one != ended]
    where = os.fsdecode(cwd) if cwd is not None else str(Path.cwd())
    wanted = Start(*found, environ, where, kept, session, group, umask)
    return wanted, standard + kept


def _may_be_warm(environ: Mapping[str, str]) -> bool:
    return not any(
        name.startswith(_MATTERS_AT_START) and name not in _DOES_NOT and (name, value) != _UTF_8
        for name, value in environ.items()
    )


def _program_of(argv: list[str]) -> tuple[str, list[str]] | None:
    """Which of our programs this is, and its arguments."""
    if argv[:3] == [sys.executable, "-m", "openclaw"]:
        return "openclaw", argv[2:]
    name = _PROGRAMS.get(argv[0])
    return (name, argv) if name is not None else None


def _exactly(there: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = there.recv(size - len(data))
        if not piece:
            raise EOFError("the process that starts others has ended")
        data += piece
    return data


# What follows runs in the process that forks.


def _import_everything() -> None:
    import openclaw

    left_out = ("openclaw.testing", "openclaw.__main__")
    for found in pkgutil.walk_packages(openclaw.__path__, "openclaw."):
        if not found.name.startswith(left_out) and not found.name.endswith("_worker"):
            importlib.import_module(found.name)
    for name in (*_LATER, *_MEASURING):
        importlib.import_module(name)
    inspect.stack()  # finds the file of every module; coverage asks for it when it starts


def _serve(there: socket.socket) -> None:
    _import_everything()
    gc.collect()
    gc.freeze()
    while True:
        head, descriptors, _, _ = socket.recv_fds(there, _SIZE.size, 64)
        if not head:
            return
        wanted = Start(**json.loads(_exactly(there, _SIZE.unpack(head)[0])))
        pid = _fork_beside()
        if pid == 0:
            there.close()
            _become(wanted, descriptors)
        there.sendall(_SIZE.pack(pid))
        for one in descriptors:
            os.close(one)


def _fork_beside() -> int:
    """Fork a child of our own parent."""
    python, system = ctypes.pythonapi, ctypes.PyDLL(None)
    python.PyOS_BeforeFork()
    pid = system.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


def _become(wanted: Start, descriptors: list[int]) -> None:
    code = 1
    try:
        _take_place(wanted, descriptors)
        _measure_if_asked()
        import openclaw.cli.main as entry

        code = (entry.main if wanted.program == "openclaw" else entry.clawdbot)()
    except SystemExit as left:
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)  # noqa: T201 - as Python does
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
    finally:
        vars(threading)["_shutdown"]()
        vars(atexit)["_run_exitfuncs"]()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = code or 120
        os._exit(code)


def _take_place(wanted: Start, descriptors: list[int]) -> None:
    if wanted.session:
        os.setsid()
    if wanted.group >= 0:
        os.setpgid(0, wanted.group)
    if wanted.umask >= 0:
        os.umask(wanted.umask)
    import fcntl

    aside = [fcntl.fcntl(one, fcntl.F_DUPFD, 1000) for one in descriptors]
    places = [0, 1, 2, *wanted.keep]
    os.closerange(3, 1000)
    for one, place in zip(aside, places, strict=True):
        os.dup2(one, place)
    for one in aside:
        os.close(one)
    if wanted.terminal:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(wanted.cwd)
    os.environ.clear()
    os.environ.update(wanted.environ)
    time.tzset()
    sys.argv = wanted.argv
    sys.stdin = _text(0, "r", sys.stdin)
    sys.stdout = _text(1, "w", sys.stdout)
    sys.stderr = _text(2, "w", sys.stderr)
    python: Any = sys
    python.__stdin__, python.__stdout__, python.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def _text(descriptor: int, mode: str, before: Any) -> Any:
    lines = descriptor == 2 or os.isatty(descriptor)
    at_once = "PYTHONUNBUFFERED" in os.environ
    raw: Any = open(descriptor, f"{mode}b", closefd=False)  # noqa: SIM115 - as long as we live
    return io.TextIOWrapper(
        raw, before.encoding, before.errors, line_buffering=lines, write_through=at_once
    )


def _measure_if_asked() -> None:
    if "COVERAGE_PROCESS_CONFIG" in os.environ:
        import coverage

        measuring: Any = coverage.process_startup()
        if measuring is not None:
            # It would look for files that never ran; the tests' own process does so for all.
            measuring._post_save_work = lambda: None


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
