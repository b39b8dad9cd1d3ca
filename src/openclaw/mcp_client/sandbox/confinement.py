"""What a stdio server may reach on this machine, and what keeps it to that.

Bubblewrap where it works: a file system of its own with the system's programs, what the server is
made of and what the operator named, its own processes, and no network where none is wanted. Else
Landlock, which denies what was not named but hides nothing. Else `strict` does not start the server.
"""

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.config.paths import expand, home_dir
from openclaw.mcp_client.transport.child_process import (
    OPTIONS,
    Program,
    SpawnFailed,
    check,
    located,
)

if TYPE_CHECKING:
    from openclaw.config.agent_schema import McpServerConfig, ProcessLimits, SandboxConfig


# A shell sets them and becomes the program, which costs about a millisecond: there is no moment in
# which the server runs without them, and none in which we run our own code after a fork.

logger = logging.getLogger(__name__)

_SHELL = "/bin/sh"
_REFUSED = 125
_PROC = Path("/proc")


def limited(program: Program, limits: "ProcessLimits", *, platform: str = sys.platform) -> Program:
    """The program with these bounds; raises `SpawnFailed` where the system has none to offer."""
    orders = _orders(limits)
    if not orders:
        return program
    if platform == "win32":
        raise SpawnFailed("`limits` cannot be kept on Windows", hint="take them out")
    script = "; ".join([*orders, 'exec "$0" "$@"'])
    return replace(
        program, command=_SHELL, arguments=("-c", script, program.command, *program.arguments)
    )


def _orders(limits: "ProcessLimits") -> list[str]:
    orders: list[str] = []
    if limits.memory_mb is not None:
        orders.append(_order(f"ulimit -v {limits.memory_mb * 1024}"))
    if limits.open_files is not None:
        orders.append(_order(f"ulimit -n {limits.open_files}"))
    if limits.cpu_seconds is not None:
        orders.append(_order(f"ulimit -t {limits.cpu_seconds}"))
    if limits.processes is not None:
        most = limits.processes + _running()
        # One shell calls them -p, the other -u, where -p cannot be set.
        orders.append(_order(f"ulimit -p {most} 2>/dev/null || ulimit -u {most}"))
    return orders


def _order(order: str) -> str:
    return f"{order} || exit {_REFUSED}"


def _running() -> int:
    """How many threads this user has: the system counts those of all programs together."""
    if sys.platform != "linux":
        return 0
    own, total = os.getuid(), 0
    if own == 0:
        logger.warning("`limits.processes` does not bind a server that runs as root")
    for directory in _PROC.iterdir():
        if directory.name.isdigit():
            try:
                if directory.stat().st_uid == own:
                    total += sum(1 for _ in (directory / "task").iterdir())
            except OSError:
                continue
    return total


logger = logging.getLogger(__name__)

Confine = Callable[["McpServerConfig", Program], Program]

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/gnu/store")
"""Programs and libraries."""

SYSTEM_SETTINGS = tuple(
    f"/etc/{name}"
    for name in (
        "alternatives",
        "ca-certificates",
        "ca-certificates.conf",
        "crypto-policies",
        "fonts",
        "gai.conf",
        "group",
        "host.conf",
        "hosts",
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "localtime",
        "mime.types",
        "nsswitch.conf",
        "passwd",
        "pki",
        "protocols",
        "resolv.conf",
        "services",
        "ssl",
        "timezone",
    )
)
"""What programs look up; nothing of it is secret."""

RESOLVER = ("/run/systemd/resolve",)
"""Where /etc/resolv.conf may point to."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

_LANDLOCK = Path(__file__).with_name("landlock.py")
_PROBE_SECONDS = 5.0
_MAX_LINKS = 16
_MAX_INTERPRETERS = 4
_MAX_FIRST_LINE = 512


@dataclass(frozen=True, slots=True)
class Means:
    """What this machine can confine with: the path of a bubblewrap that works, Landlock's version."""

    bubblewrap: str | None
    why_no_bubblewrap: str
    landlock: int

    @property
    def best(self) -> str | None:
        """The name of what is used."""
        return "bubblewrap" if self.bubblewrap else "landlock" if self.landlock else None

    @property
    def missing(self) -> str:
        """Why there is nothing, in words."""
        return f"{self.why_no_bubblewrap}, and the kernel has no Landlock"


@dataclass(frozen=True, slots=True)
class Reach:
    """What one server may reach. Paths are absolute and exist."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    network: bool
    home: Path
    hidden: tuple[Path, ...] = ()


class Sandbox:
    """Puts every program of this host into what its server's configuration says.

    `state` is the directory that no server may see unless it is named outright.
    """

    def __init__(
        self, environ: Mapping[str, str], *, state: Path | None = None, means: Means | None = None
    ) -> None:
        self._environ = environ
        self._state = state
        self._means = means

    def confine(self, config: "McpServerConfig", program: Program) -> Program:
        """The program as it is to be started; raises `SpawnFailed` where `strict` cannot be kept.

        It may look at the machine for some milliseconds, the first time that it is used.
        """
        check(program)
        return limited(self._sandboxed(config.sandbox, program), config.limits)

    def _sandboxed(self, wanted: "SandboxConfig", program: Program) -> Program:
        if wanted.mode == "off":
            return program
        means = self._means or find_means(self._environ.get("PATH", os.defpath))
        strict = wanted.mode == "strict"
        if means.best is None:
            return self._without(strict, f"no sandbox can be had here: {means.missing}", program)
        reach = self._reach(wanted, program)
        if means.bubblewrap is not None:
            return in_bubblewrap(means.bubblewrap, reach, program)
        if not wanted.network:
            _judge_network(strict)
        return in_landlock(reach, program)

    def _without(self, strict: bool, reason: str, program: Program) -> Program:
        if strict:
            raise SpawnFailed(reason, hint='install bubblewrap, or set `sandbox` to "auto"')
        logger.warning("'%s' runs without a sandbox: %s", program.command, reason)
        return program

    def _reach(self, wanted: "SandboxConfig", program: Program) -> Reach:
        home = home_dir(self._environ)
        named = [*self._named("read", wanted.read, program)]
        if program.directory is not None:
            named.append(program.directory.absolute())
        return Reach(
            read=(*named, *parts_of(program, guarded=self._guarded(home))),
            write=tuple(self._named("write", wanted.write, program)),
            network=wanted.network,
            home=home,
            hidden=() if self._state is None or not self._state.is_dir() else (self._state,),
        )

    def _guarded(self, home: Path) -> tuple[Path, ...]:
        state = () if self._state is None else (self._state,)
        return (home, home / ".local", *state)

    def _named(self, key: str, paths: Iterable[str], program: Program) -> Iterator[Path]:
        for given in paths:
            path = (program.directory or Path.cwd()) / expand(given, self._environ)
            if not path.exists():
                raise SpawnFailed(
                    f"sandbox.{key}: {path} does not exist", hint="make it, or take it out"
                )
            yield path


def _judge_network(strict: bool) -> None:
    reason = "Landlock denies TCP alone, so that `network: false` does not wholly hold"
    if strict:
        raise SpawnFailed(reason, hint="install bubblewrap")
    logger.warning("%s", reason)


@lru_cache(maxsize=4)
def find_means(path: str) -> Means:
    """What this machine can confine with; found out by trying, once."""
    if sys.platform != "linux":
        return Means(None, f"there is no bubblewrap for {sys.platform}", 0)
    from openclaw.mcp_client.sandbox.landlock import version

    found = shutil.which("bwrap", path=path) or shutil.which("bwrap", path=os.defpath)
    if found is None:
        return Means(None, "bubblewrap (bwrap) is not installed", version())
    trouble = _trouble_with(found)
    return Means(None if trouble else found, trouble or "", version())


def _trouble_with(bubblewrap: str) -> str | None:
    """Why it does not work here, such as a kernel that grants no namespaces to this user."""
    options = [*_ISOLATION, "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc"]
    try:
        tried = subprocess.run(  # noqa: S603  the operator's own bubblewrap
            [bubblewrap, *options, "--dev", "/dev", "/bin/sh", "-c", ":"],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be run ({error})"
    if tried.returncode == 0:
        return None
    said = tried.stderr.decode(errors="replace").strip().partition("\n")[0][:200]
    return f"bubblewrap does not work here ({said or f'code {tried.returncode}'})"


_ISOLATION = (
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--cap-drop",
    "ALL",
)
"""No --die-with-parent: it means the thread that started it, which ends long before we do. No
--new-session: the server stays in the group that is ended with it."""


def in_bubblewrap(bubblewrap: str, reach: Reach, program: Program) -> Program:
    """The program inside bubblewrap, which gets everything but its own name by a descriptor.

    Its environment is empty: whatever stands there can be read inside, as that of process 1.
    """
    options = [*_ISOLATION, *([] if reach.network else ["--unshare-net"])]
    for path in (*SYSTEM, *SYSTEM_SETTINGS, *RESOLVER):
        options += ["--ro-bind-try", path, path]
    options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]  # noqa: S108  mount points inside
    options += ["--tmpfs", str(reach.home)]
    for _, flag, path in sorted(_mounts(reach), key=lambda mount: mount[0]):
        options += [flag, path] if flag == "--tmpfs" else [flag, path, path]
    options += ["--remount-ro", "/"]
    options += ["--chdir", str((program.directory or reach.home).absolute())]
    for name, value in program.environment.items():
        options += ["--setenv", name, value]
    command = located(program) or program.command
    return Program(
        command=bubblewrap,
        arguments=("--args", OPTIONS, "--", command, *program.arguments),
        environment={},
        hidden_options=tuple(options),
    )


def _mounts(reach: Reach) -> Iterator[tuple[tuple[int, int], str, str]]:
    """What is mounted, with its place: outer before inner, and writing over reading."""
    for rank, flag, paths in (
        (0, "--tmpfs", reach.hidden),
        (1, "--ro-bind", reach.read),
        (2, "--bind", reach.write),
    ):
        for path in dict.fromkeys(paths):
            yield (len(path.parts), rank), flag, str(path)


def in_landlock(reach: Reach, program: Program) -> Program:
    """The program behind a small one of ours that confines itself and then becomes it."""
    command = located(program) or program.command
    policy = {
        "read": [*SYSTEM, *SYSTEM_SETTINGS, *RESOLVER, "/proc", "/sys", *map(str, reach.read)],
        "write": [*DEVICES, *map(str, reach.write)],
        "network": reach.network,
    }
    return replace(
        program,
        command=sys.executable,
        arguments=("-I", "-S", str(_LANDLOCK), json.dumps(policy), command, *program.arguments),
    )


def parts_of(program: Program, guarded: Iterable[Path]) -> Iterator[Path]:
    """What the program itself is made of: where it and its interpreter are installed, and files that
    it is given to run.

    Of a place that holds `guarded` directories only the file itself is taken.
    """
    holders = {parent for path in guarded for parent in (path, *path.parents)}
    command: str | None = located(program) or program.command
    for _ in range(_MAX_INTERPRETERS):
        if command is None:
            break
        for path in _steps_to(Path(command).absolute()):
            installed = path.parent.parent
            yield path if path.parent.name != "bin" or installed in holders else installed
        command = _interpreter(Path(command), program)
    for word in program.arguments:
        given = Path(word)
        if given.is_absolute() and given.is_file():
            yield given


def _steps_to(path: Path) -> Iterator[Path]:
    """The path, every link on the way, and the file in the end."""
    for _ in range(_MAX_LINKS):
        yield path
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
    yield path.resolve()


def _interpreter(script: Path, program: Program) -> str | None:
    """What runs a script, by its first line; `env` names a program that is looked up."""
    try:
        with script.open("rb") as file:
            first = file.readline(_MAX_FIRST_LINE)
    except OSError:
        return None
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    if not words:
        return None
    if Path(words[0]).name != "env":
        return words[0]
    named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return located(replace(program, command=named[0])) if named else None
