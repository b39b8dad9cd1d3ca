"""A server's process on Windows, in a job object, which also ends it if the host is killed."""

import ctypes
import os.path
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import PureWindowsPath
from subprocess import Popen
from typing import Any

from openclaw.mcp_client.transport.child_process import (
    ChildPipe,
    Ends,
    Grace,
    Program,
    RunningChild,
)
from openclaw.stdio.descriptors import ThreadedReader
from openclaw.stdio.pipes import ThreadedWriter


def find_program(
    command: str, environ: Mapping[str, str], is_file: Callable[[str], bool] = os.path.isfile
) -> str:
    """The file that a shell would run for this command (`npx.cmd` for `npx`)."""
    known = {name.upper(): value for name, value in environ.items()}
    extensions = known.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";")
    path = PureWindowsPath(command)
    whole = path.suffix.upper() in (extension.upper() for extension in extensions)
    names = [command] if whole else [command + extension.lower() for extension in extensions]
    places = [""] if path.name != command else known.get("PATH", "").split(";")
    candidates = (str(PureWindowsPath(place, name)) for place in places for name in names)
    return next((candidate for candidate in candidates if is_file(candidate)), command)


def threaded_ends(process: "Popen[bytes]") -> Ends:
    """Threads that move bytes. They read the file: its number may be reused after it is closed."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return Ends(
        ThreadedWriter(process.stdin.write, f"stdin of {process.pid}"),
        ThreadedReader(process.stdout.read, f"stdout of {process.pid}"),
        ThreadedReader(process.stderr.read, f"stderr of {process.pid}"),
    )


_EXTENDED_LIMITS = 9
_KILL_ON_CLOSE = 0x2000
_LIMIT_FLAGS_OFFSET = 16
_LIMITS_SIZE = 144  # JOBOBJECT_EXTENDED_LIMIT_INFORMATION on 64-bit Windows; we only set the flags.


class WindowsChild(RunningChild):
    """There is no gentle signal on Windows: the whole job is ended."""

    def __init__(self, process: "Popen[bytes]", job: Any, grace: Grace) -> None:
        super().__init__(process, grace)
        self._job = job
        self._wait_on_a_thread()

    def pipe(self, **options: Any) -> ChildPipe:
        return ChildPipe(threaded_ends(self._process), self._exited, **options)

    async def shut_down(self) -> None:
        self.close_stdin()
        await self._exits_within(self._grace.stdin)
        if sys.platform == "win32" and self._job is not None:
            ctypes.windll.kernel32.TerminateJobObject(self._job, 1)
            ctypes.windll.kernel32.CloseHandle(self._job)
        self._process.kill()


def start(program: Program, popen: "Callable[..., Popen[bytes]]") -> Any:
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        process = popen(program, creationflags=flags)
        return process, _job_for(process)
    raise NotImplementedError("jobs are a thing of Windows")


def _job_for(process: "Popen[bytes]") -> Any:
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
