"""What a stdio server may access on this machine, and how that is enforced.

Commands of the `exec` tool are confined in the same way.

Bubblewrap if it works: the server has its own file system with the system's programs, its own files
and what the operator listed, sees only its own processes, and has no network or only the public
internet if so configured. Otherwise Landlock with seccomp, which denies everything else but hides
nothing. With neither, `strict` does not start the server.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from openclaw.config.agent_schema import McpServerConfig, ProcessLimits, SandboxConfig
from openclaw.config.paths import expand, home_dir, private_directory
from openclaw.core.file_names import FileName, OwnDirectory
from openclaw.mcp_client.sandbox.internet_proxy import PROXY, VARIABLES
from openclaw.mcp_client.sandbox.support import (
    IN_INTERNET,
    ISOLATION,
    OWN_PROC,
    SandboxSupport,
    detect_support,
    why_no_internet,
)
from openclaw.mcp_client.sandbox.system_calls import can_filter, system_call_filter
from openclaw.mcp_client.sandbox.system_files import (
    DEVICES,
    RESOLVER,
    SETTINGS,
    SYSTEM,
    link_into_home,
    open_settings,
)
from openclaw.mcp_client.transport.child_process import (
    FILTER,
    OPTIONS,
    Program,
    SpawnFailed,
    check,
    find_program,
)

# A program's own files: its executable, its interpreter, and their libraries. Never its neighbours:
# `~/.cargo/bin/server` is one file, and `~/.cargo/credentials.toml` is not part of it.

_MAX_LINKS = 16
_MAX_INTERPRETERS = 4
_MAX_FIRST_LINE = 512

# what an installation with a `lib` directory needs besides its `bin`
_LIBRARIES = ("lib", "lib64", "libexec", "share", "ssl", "jmods", "conf")

# opened as a whole, since the programs in them look each other up
VERSION_MANAGERS = (".asdf", ".pyenv", ".rbenv", ".volta", "mise")


def own_files(program: Program, home: Path, guarded: Iterable[Path]) -> Iterator[Path]:
    """The program's own files, and files in its arguments; never a `guarded` directory."""
    off_limits = {parent for path in (home, *guarded) for parent in (path, *path.parents)}
    command: str | None = find_program(program) or program.command
    for _ in range(_MAX_INTERPRETERS):
        if command is None:
            break
        for path in _steps_to(Path(command).absolute()):
            yield from _parts(path, off_limits)
        command = _interpreter(Path(command), program)
    for word in program.arguments:
        path = Path(word)
        if path.is_absolute() and path.is_file():
            yield path


def _parts(path: Path, off_limits: set[Path]) -> Iterator[Path]:
    modules = [parent for parent in path.parents if parent.name == "node_modules"]
    managers = [parent for parent in path.parents if parent.name in VERSION_MANAGERS]
    trees = [
        directory for directory in (*managers[-1:], *modules[-1:]) if directory not in off_limits
    ]
    if not trees and path.parent.name == "bin":
        prefix = path.parent.parent
        trees = [*_installation(prefix, guarded=prefix in off_limits)]
        trees += [directory for directory in _linked(prefix) if directory not in off_limits]
    yield from trees
    if not any(map(path.is_relative_to, trees)):
        yield path


def _installation(prefix: Path, *, guarded: bool) -> Iterator[Path]:
    if guarded:
        # `pip install --user` puts libraries beside a person's other files.
        yield from (path for path in prefix.glob("lib/python3*/site-packages") if path.is_dir())
    elif (prefix / "pyvenv.cfg").is_file():
        yield prefix
    elif (prefix / "lib").is_dir():
        yield prefix / "bin"
        yield from (prefix / name for name in _LIBRARIES if (prefix / name).is_dir())


def _linked(prefix: Path) -> Iterator[Path]:
    """Libraries elsewhere that a Python installation uses (`pip install -e`)."""
    for file in prefix.glob("lib/python3*/site-packages/*.pth"):
        try:
            lines = file.read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        yield from (Path(line) for line in lines if line.startswith("/") and Path(line).is_dir())


def _steps_to(path: Path) -> Iterator[Path]:
    """The path, every symlink on the way, and the final file."""
    for _ in range(_MAX_LINKS):
        yield path
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
    yield path.resolve()


def _interpreter(script: Path, program: Program) -> str | None:
    """The program that runs a script, by its first line; for `env`, the one that it names."""
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
    return find_program(replace(program, command=named[0])) if named else None


# A shell sets the limits and then execs the program, which costs about a millisecond: the server
# never runs without them, and we run none of our own code after a fork.

logger = logging.getLogger(__name__)


def with_limits(
    program: Program, limits: ProcessLimits, *, platform: str = sys.platform
) -> Program:
    """The program with these limits; raises `SpawnFailed` if the system can't enforce them."""
    memory = None if limits.memory_mb is None else limits.memory_mb * 1024
    bounds = (("-v", memory), ("-n", limits.open_files), ("-t", limits.cpu_seconds))
    orders = [f"ulimit {option} {most}" for option, most in bounds if most is not None]
    if limits.processes is not None:
        most = limits.processes + _running()
        # Some shells call it -p; others call it -u and can't set -p.
        orders.append(f"ulimit -p {most} 2>/dev/null || ulimit -u {most}")
    if not orders:
        return program
    if platform == "win32":
        raise SpawnFailed("`limits` cannot be enforced on Windows", hint="remove them")
    script = " || exit 125; ".join([*orders, 'exec "$0" "$@"'])
    return replace(
        program, command="/bin/sh", arguments=("-c", script, program.command, *program.arguments)
    )


def _running() -> int:
    """The number of this user's threads: the system counts those of all programs together."""
    if sys.platform != "linux":
        return 0
    own, total = os.getuid(), 0
    if own == 0:
        logger.warning("`limits.processes` does not limit a server that runs as root")
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                if directory.stat().st_uid == own:
                    total += sum(1 for _ in (directory / "task").iterdir())
            except OSError:
                continue
    return total


_LANDLOCK = Path(__file__).with_name("landlock.py")
_HOMES = "sandbox"  # below the state directory


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Paths are absolute and exist. `own_home` replaces `home`; `hidden` looks empty."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    network: "bool | Literal['internet']"
    home: Path
    own_home: Path
    hidden: Path


def own_home(state: Path, server: str, command: str | None) -> Path:
    """Where a server's own home directory is, whether it exists or not."""
    identity = json.dumps([server, command]).encode()
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", server)[:40]
    name = FileName(f"{plain}-{hashlib.sha256(identity).hexdigest()[:12]}")
    return OwnDirectory(state / _HOMES) / name


class Sandbox:
    """Confines servers as configured.

    No server sees the `state` directory unless it is named explicitly; each has its home in it.
    """

    def __init__(
        self, environ: Mapping[str, str], state: Path, *, means: SandboxSupport | None = None
    ) -> None:
        self._environ = environ
        self._state = state
        self._means = means
        self._home = home_dir(environ)

    def confine(
        self, config: McpServerConfig, program: Program, name: str = "", roots: Sequence[Path] = ()
    ) -> Program:
        """The program to start; raises `SpawnFailed` if `strict` can't be enforced.

        Without a directory of its own choice it starts in the one that is kept for it. `roots` are
        the server's working directories. The first call probes the machine, which takes a few
        milliseconds.
        """
        check(program)
        confined = self._sandboxed(config, program, name, roots)
        if confined.directory is None and not confined.hidden_options:
            # Not ours: what lies in a project must not decide which program `npx` or `python -m` is.
            confined = replace(confined, directory=self._own_home(name, config))
        return with_limits(confined, config.limits)

    def _sandboxed(
        self, config: McpServerConfig, program: Program, name: str, roots: Sequence[Path]
    ) -> Program:
        wanted = config.sandbox
        if wanted.mode == "off":
            return program
        means = self._means or detect_support(self._environ.get("PATH", os.defpath))
        strict = wanted.mode == "strict"
        if means.best is None:
            reason = f"no sandbox is available here: {means.missing}"
            if strict:
                raise SpawnFailed(reason, hint='install bubblewrap, or set `sandbox` to "auto"')
            logger.warning("'%s' runs without a sandbox: %s", program.command, reason)
            return program
        rules = self._access_rules(config, program, name, roots)
        if means.bubblewrap is not None:
            why = why_no_internet(means.bubblewrap) if rules.network == "internet" else None
            if why is not None:
                hint = "allow user namespaces, or choose `network: true` or `network: false`"
                raise SpawnFailed(f'`network: "internet"` is not available here: {why}', hint=hint)
            return in_bubblewrap(means.bubblewrap, rules, program)
        for reason in _weaknesses(wanted, means):
            if strict:
                raise SpawnFailed(reason, hint="install bubblewrap")
            logger.warning("%s", reason)
        return in_landlock(rules, program, sockets=not means.sockets)

    def _access_rules(
        self, config: McpServerConfig, program: Program, name: str, roots: Sequence[Path]
    ) -> AccessRules:
        wanted = config.sandbox
        read = [*self._named("read", wanted.read, program)]
        write = [*self._named("write", wanted.write, program)]
        if program.directory is not None:
            read.append(program.directory.absolute())
        if wanted.workspace if wanted.workspace is not None else wanted.mode == "auto":
            write += self._working_directories(roots, program, named=bool(wanted.workspace))
        if wanted.mode == "auto":
            also_read, also_write = self._mentioned_paths(config, program)
            read, write = [*read, *also_read], [*write, *also_write]
        return AccessRules(
            read=(*read, *own_files(program, self._home, (self._home / ".local", self._state))),
            write=tuple(write),
            network=wanted.network,
            home=self._home,
            own_home=self._own_home(name, config),
            hidden=self._state,
        )

    def _own_home(self, name: str, config: McpServerConfig) -> Path:
        """This server's own home directory, which survives restarts."""
        home = own_home(self._state, name, config.command)
        for directory in (home.parent, home):
            private_directory(directory)
        return home

    def _working_directories(
        self, roots: Sequence[Path], program: Program, *, named: bool
    ) -> Iterator[Path]:
        own = () if program.directory is None else (program.directory.absolute(),)
        for directory in (*roots, *own):
            if not directory.is_dir():
                continue
            if self._holds_home(directory) and not (named and directory == self._home):
                logger.warning(
                    "the sandbox gives no access to %s; list what is needed in it", directory
                )
            else:
                yield directory

    def _mentioned_paths(
        self, config: McpServerConfig, program: Program
    ) -> tuple[list[Path], list[Path]]:
        """Absolute paths on the command line and in `env`: those to read, and those to write.

        A script comes with its project, and a database with its directory, for the journal.
        """
        read: list[Path] = []
        write: list[Path] = []
        options = (word.partition("=")[2] for word in program.arguments if word.startswith("-"))
        variables = (program.environment.get(name, "") for name in config.env)
        for word in (*program.arguments, *options, *variables):
            path = Path(word)
            if not path.is_absolute() or any(map(path.is_relative_to, SYSTEM)):
                continue
            if path.suffix in _SCRIPTS and path.is_file():
                directories = [parent for parent in path.parents if self._may_open(parent)]
                marked = (p for p in directories if any((p / n).exists() for n in _PROJECT_FILES))
                read.append(next(marked, directories[0] if directories else path))
            elif path.suffix in _DATABASES and self._may_open(path.parent):
                write.append(path.parent)
            elif path.is_file() or (path.is_dir() and self._may_open(path)):
                write.append(path)
        return read, write

    def _may_open(self, directory: Path) -> bool:
        return directory.is_dir() and not self._holds_home(directory)

    def _holds_home(self, directory: Path) -> bool:
        """Whether opening this would open the user's home, or our state."""
        return any(directory in path.parents for path in (self._home / ".ssh", self._state))

    def _named(self, key: str, paths: Iterable[str], program: Program) -> Iterator[Path]:
        for text in paths:
            path = (program.directory or Path.cwd()) / expand(text, self._environ)
            if not path.exists():
                raise SpawnFailed(
                    f"sandbox.{key}: {path} does not exist", hint="create it, or remove the entry"
                )
            yield path


_SCRIPTS = frozenset({".js", ".mjs", ".cjs", ".ts", ".mts", ".py", ".rb", ".php", ".jar", ".sh"})
_DATABASES = frozenset({".db", ".sqlite", ".sqlite3", ".duckdb"})
_PROJECT_FILES = ("package.json", "pyproject.toml", "node_modules", ".venv", "Gemfile", ".git")


def _weaknesses(wanted: SandboxConfig, means: SandboxSupport) -> Iterator[str]:
    if wanted.network == "internet":
        yield '`network: "internet"` needs bubblewrap: Landlock cannot tell addresses apart'
    elif not wanted.network:
        yield "Landlock only denies TCP, so `network: false` is not fully enforced"
    if not means.sockets:
        yield "with Landlock on this kind of machine every Unix socket can be reached"


def _without_keys() -> Iterator[str]:
    """Hide the names of the kernel's keys; the filter keeps their contents."""
    for path in ("/proc/keys", "/proc/key-users"):
        if Path(path).exists():
            yield from ("--ro-bind", "/dev/null", path)


def in_bubblewrap(bubblewrap: str, rules: AccessRules, program: Program) -> Program:
    """The program in bubblewrap, which gets its options through a descriptor.

    Bubblewrap's environment is empty: the server could read it, as that of process 1.
    """
    options = [*ISOLATION, *(["--unshare-net"] if rules.network is False else [])]
    options += ["--seccomp", FILTER] if can_filter() else []
    for path in (*SYSTEM, *RESOLVER, str(SETTINGS)):
        options += ["--ro-bind-try", path, path]
    for path in open_settings().hidden:
        hide = ["--tmpfs"] if path.is_dir() else ["--ro-bind", "/dev/null"]
        options += [*hide, str(path)]
    options += [*OWN_PROC, *_without_keys(), "--dev", "/dev"]
    options += ["--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]  # noqa: S108  mount points inside
    options += ["--bind", str(rules.own_home), str(rules.home)]
    for _, flag, path in sorted(_mounts(rules), key=lambda mount: mount[0]):
        options += [flag, path] if flag == "--tmpfs" else [flag, path, path]
    options += ["--remount-ro", "/"]
    options += ["--chdir", str((program.directory or rules.home).absolute())]
    environment, around = dict(program.environment), ()
    if rules.network == "internet":
        around = IN_INTERNET
        environment |= dict.fromkeys(VARIABLES, PROXY)
        environment |= {"NO_PROXY": "", "no_proxy": "", "NODE_USE_ENV_PROXY": "1"}
    for name, value in environment.items():
        options += ["--setenv", name, value]
    command = find_program(program) or program.command
    first, *rest = [*around, bubblewrap, "--args", OPTIONS, "--", command, *program.arguments]
    return Program(
        command=first,
        arguments=tuple(rest),
        environment={},
        hidden_options=tuple(options),
        filter=system_call_filter(unix_sockets=True) if can_filter() else b"",
    )


def _mounts(rules: AccessRules) -> Iterator[tuple[tuple[int, int], str, str]]:
    """What is mounted, in order: outer before inner, and writing over reading."""
    for rank, flag, paths in (
        (0, "--tmpfs", (rules.hidden,)),
        (1, "--ro-bind", rules.read),
        (2, "--bind", rules.write),
    ):
        for path in dict.fromkeys(paths):
            if flag != "--ro-bind" or not _is_open(path, rules):
                yield (len(path.parts), rank), flag, str(path)


def _is_open(path: Path, rules: AccessRules) -> bool:
    """Whether a directory above is mounted, with nothing hidden in between."""
    for directory in path.parents:
        if directory in (rules.hidden, rules.home):
            return directory in rules.read
        if directory in rules.read or directory in rules.write:
            return True
    return False


def in_landlock(rules: AccessRules, program: Program, *, sockets: bool = False) -> Program:
    """The program, started by a small script of ours that confines itself and then execs it."""
    command = find_program(program) or program.command
    settings = open_settings().readable
    policy = {
        "read": [*SYSTEM, *RESOLVER, "/proc", "/sys", *map(str, (*settings, *rules.read))],
        "list": [str(SETTINGS)],
        "write": [*DEVICES, *map(str, (*rules.write, rules.own_home))],
        "network": rules.network is not False,
        "filter": "" if sockets else system_call_filter(unix_sockets=False).hex(),
    }
    temporary = rules.own_home / "tmp"
    with contextlib.suppress(OSError):  # the server may have put anything there
        temporary.mkdir(mode=0o700)
    link_into_home(rules.own_home, rules.home, rules.read)
    own = {"HOME": str(rules.own_home), "TMPDIR": str(temporary)}
    return replace(
        program,
        command=sys.executable,
        arguments=("-I", "-S", str(_LANDLOCK), json.dumps(policy), command, *program.arguments),
        environment={**program.environment, **own},
    )
