"""A server's process on Windows: a job object holds it and all it starts.

The job ends its processes when its last handle closes, which the system does also for a host that
was killed: no keeper is needed.
"""

import contextlib
import ctypes
import os.path
import queue
import subprocess
import sys
import threading
from asyncio import Future, get_running_loop
from collections.abc import Callable, Mapping
from pathlib import PureWindowsPath
from subprocess import Popen
from typing import IO, Any

import anyio

from openclaw.mcp_client.transport.child_process import Grace, Program, describe_exit
from openclaw.mcp_client.transport.stdio import LinePipe
from openclaw.stdio.pipes import READ_BYTES, OnEnd, OnLines, StderrSink, nobody

_EXTENSIONS = ".COM;.EXE;.BAT;.CMD"


def find_program(
    command: str, environ: Mapping[str, str], is_file: Callable[[str], bool] = os.path.isfile
) -> str:
    """The file that a shell would run for this command: `npx` is `npx.cmd` there. Pure but for `is_file`."""
    known = {name.upper(): value for name, value in environ.items()}
    extensions = known.get("PATHEXT", _EXTENSIONS).split(";")
    path = PureWindowsPath(command)
    whole = path.suffix.upper() in (extension.upper() for extension in extensions)
    names = [command] if whole else [command + extension.lower() for extension in extensions]
    places = [""] if path.name != command else known.get("PATH", "").split(";")
    candidates = (str(PureWindowsPath(place, name)) for place in places for name in names)
    return next((candidate for candidate in candidates if is_file(candidate)), command)


class ThreadedPipe(LinePipe):
    """Three threads that do nothing but move bytes; all else happens on the event loop."""

    def __init__(
        self,
        process: "Popen[bytes]",
        *,
        limit: int,
        on_lines: OnLines,
        on_end: OnEnd,
        stderr: StderrSink,
    ) -> None:
        super().__init__(limit=limit, on_lines=on_lines, on_end=on_end, stderr=stderr)
        self._process = process
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._may_read = threading.Event()

    def open(self) -> None:
        """Start to read."""
        self._may_read.set()
        stdout, stderr = self._process.stdout, self._process.stderr
        assert stdout is not None
        assert stderr is not None
        self._thread("stdout", lambda: self._read(stdout, self._take, self._may_read))
        always = threading.Event()
        always.set()
        self._thread("stderr", lambda: self._read(stderr, self._stderr.feed, always))
        self._thread("stdin", self._send_all)

    def pause(self) -> None:
        """Read no more until `resume`; the server waits once its pipe is full."""
        self._may_read.clear()

    def resume(self) -> None:
        """Read again."""
        self._may_read.set()

    def write(self, line: bytes) -> bool:
        """Send a line as soon as the server takes it; False where it cannot be sent."""
        if self._ended or self._closed:
            return False
        self._unsent_bytes += len(line)
        self._outgoing.put(line)
        return True

    def discard(self) -> None:
        """Send no more and let go what still comes."""
        self._ended = True
        self._on_lines = nobody
        self._outgoing.put(None)
        self.resume()
        self._wake()

    def close(self) -> None:
        """Stop; the threads leave when the process's pipes close."""
        self._closed = True
        self._outgoing.put(None)
        self.resume()

    def _let_go(self) -> None:
        self._wake()

    def _thread(self, name: str, target: Callable[[], None]) -> None:
        title = f"{name} of {self._process.pid}"
        threading.Thread(target=target, name=title, daemon=True).start()

    def _read(
        self, pipe: "IO[bytes]", take: Callable[[bytes], None], may_read: threading.Event
    ) -> None:
        taken = threading.Semaphore(1)

        def deliver(chunk: bytes) -> None:
            try:
                if not self._closed:
                    take(chunk)
            finally:
                taken.release()

        # Read by the file, not by its number, which is another's once the file is closed.
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # closed pipes, a closed loop
            while not self._closed:
                taken.acquire()  # one piece on its way at a time
                may_read.wait()
                chunk = pipe.read(READ_BYTES)
                if not chunk:
                    return
                self._loop.call_soon_threadsafe(deliver, chunk)

    def _send_all(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            while (line := self._outgoing.get()) is not None:
                stdin.write(line)
                stdin.flush()
                self._loop.call_soon_threadsafe(self._sent, len(line))

    def _sent(self, size: int) -> None:
        self._unsent_bytes -= size
        if not self.congested:
            self._wake()


_EXTENDED_LIMITS = 9
_KILL_ON_CLOSE = 0x2000
_LIMIT_FLAGS_OFFSET = 16
_LIMITS_SIZE = 144
"""JOBOBJECT_EXTENDED_LIMIT_INFORMATION on 64-bit Windows; all we set in it is the flags."""


class WindowsChild:
    """A running process in a job of its own. There is no gentle signal: the job is ended whole."""

    def __init__(self, process: "subprocess.Popen[bytes]", job: Any, grace: Grace) -> None:
        self._process, self._job, self._grace = process, job, grace
        self._loop = get_running_loop()
        self._exited: Future[int] = self._loop.create_future()
        self.pid = process.pid
        threading.Thread(target=self._wait, name=f"wait-{self.pid}", daemon=True).start()

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._exited.result() if self._exited.done() else None

    def pipe(self, **options: Any) -> ThreadedPipe:
        """The child's pipes; they end when it exits."""
        pipe = ThreadedPipe(self._process, **options)
        self._exited.add_done_callback(lambda done: pipe.end(describe_exit(done.result())))
        return pipe

    async def shut_down(self) -> None:
        """End its input, give it time, then end the job."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with anyio.move_on_after(self._grace.stdin):
            while not self._exited.done():
                gone = anyio.Event()
                self._exited.add_done_callback(lambda _, gone=gone: gone.set())
                await gone.wait()
        if sys.platform == "win32" and self._job is not None:
            ctypes.windll.kernel32.TerminateJobObject(self._job, 1)
            ctypes.windll.kernel32.CloseHandle(self._job)
        self._process.kill()

    def close_pipes(self) -> None:
        """Close our ends."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _wait(self) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._report, code)

    def _report(self, code: int) -> None:
        if not self._exited.done():
            self._exited.set_result(code)


def start(program: Program, popen: "Callable[..., subprocess.Popen[bytes]]") -> Any:
    """The process and its job, from a worker thread."""
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        process = popen(program, creationflags=flags)
        return process, _job_for(process)
    raise NotImplementedError("jobs are a thing of Windows")


def _job_for(process: "subprocess.Popen[bytes]") -> Any:
    if sys.platform == "win32":
        kernel = ctypes.windll.kernel32
        kernel.CreateJobObjectW.restype = ctypes.c_void_p
        job = ctypes.c_void_p(kernel.CreateJobObjectW(None, None))
        limits = ctypes.create_string_buffer(_LIMITS_SIZE)
        flags = ctypes.c_uint32(_KILL_ON_CLOSE)
        ctypes.memmove(ctypes.addressof(limits) + _LIMIT_FLAGS_OFFSET, ctypes.byref(flags), 4)
        kernel.SetInformationJobObject(job, _EXTENDED_LIMITS, limits, _LIMITS_SIZE)
        kernel.AssignProcessToJobObject(job, ctypes.c_void_p(int(process._handle)))  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType] - the standard library has no other way to the handle
        return job
    return None
