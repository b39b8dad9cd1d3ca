"""What holds in every test: a temporary home, loopback only, and nothing left running."""

import asyncio
import gc
import inspect
import os
import socket
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.support.postgres_server import Server, make_store, shared_server
from tests.support.warm_start import STARTER, Starter

# On a busy machine an example, or its making, may take long without being at fault.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ours", _PATIENT, max_examples=40)
settings.register_profile("soak", _PATIENT, max_examples=2000)
settings.load_profile("ours")

_TESTS = Path(__file__).parent
_LOOPBACK = ("127.", "::1", "localhost")
_LAST_SECONDS = 60  # a bound for a busy machine, not a wait
_STARTED_COLD = ("e2e", "process")
_OTHERS = (
    "_shutdown_watcher",  # of sse-starlette: one for the whole process
    "TestRunner",
    "run_async_from_thread",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the long versions of tests, alone")


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(
        20_000, 20, 20
    )  # looking for cycles as often as usual takes a tenth of the time
    if config.getoption("--soak"):
        settings.load_profile("soak")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a soak, leave out what has no long version."""
    if config.getoption("--soak"):
        items[:] = [one for one in items if _has_a_long_version(one)]


def _has_a_long_version(item: pytest.Item) -> bool:
    generated = is_hypothesis_test(getattr(item, "obj", None))
    return generated or "soaking" in getattr(item, "fixturenames", ())


def pytest_collection_finish() -> None:
    """What collecting made stays: looking for rubbish among it again and again takes seconds."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Save a worker's coverage while it still lives: it is ended from outside, not by itself."""
    if hasattr(session.config, "workerinput"):
        from coverage import Coverage

        measuring = Coverage.current()
        if measuring is not None:
            measuring.save()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write out half characters in what a test printed: a report with one cannot leave its worker."""
    report = yield
    report.sections = [
        (name, said.encode(errors="backslashreplace").decode()) for name, said in report.sections
    ]
    return report


@pytest.fixture(scope="session")
def soaking(pytestconfig: pytest.Config) -> bool:
    """Whether a test runs in its long version, as `scripts/soak` does."""
    return bool(pytestconfig.getoption("--soak"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One PostgreSQL server for the whole run, whichever of its workers needs one first."""
    own = tmp_path_factory.getbasetemp()
    with shared_server(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: Server) -> Iterator[str]:
    """A database whose schema is there already, to be copied for each test."""
    database = postgres.create()
    make_store(postgres.url(database))
    yield database
    postgres.drop(database)


@pytest.fixture
def postgres_url(postgres: Server, postgres_template: str) -> Iterator[str]:
    """The address of a database that is the test's own, with a store that is empty."""
    database = postgres.create(postgres_template)
    yield postgres.url(database)
    postgres.drop(database)


@pytest.fixture
def bare_postgres_url(postgres: Server) -> Iterator[str]:
    """The address of a database that is the test's own, where there is no store yet."""
    database = postgres.create()
    yield postgres.url(database)
    postgres.drop(database)


@pytest.fixture(scope="module", autouse=True)
def programs_run_unmeasured(request: pytest.FixtureRequest) -> Iterator[None]:
    """Programs that tests start run as they do for users: nobody counts their lines.

    Counting takes a program a second to start with, and what runs in the tests' own process is
    enough; but for the command line, which is hardly run in any other way.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not request.path.is_relative_to(_TESTS / "interaction" / "cli"):
            patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        yield


@pytest.fixture(scope="session")
def starter() -> Iterator[Starter]:
    yield STARTER
    STARTER.close()


@pytest.fixture(scope="module", autouse=True)
def programs_start_warm(request: pytest.FixtureRequest, starter: Starter) -> Iterator[None]:
    """Our programs need not import anything, but for tests of how they start."""
    cold = any(request.path.is_relative_to(_TESTS / name) for name in _STARTED_COLD)
    own = request.node.get_closest_marker("warm_start" if cold else "cold_start")
    with nullcontext() if cold is (own is None) else starter.in_place():
        yield


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, so that no test reads or writes the real one."""
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(path))
    for name in ("OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture(autouse=True)
def patience_with_new_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of tests have no time to lose on a busy machine: turns wait for them."""
    monkeypatch.setattr("openclaw.runtime.runtime._NEW_SERVER_SECONDS", 60.0)


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that reaches for another machine fails at once, and says so."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if not isinstance(address, str | bytes):  # a Unix socket has a path
            host = str(address[0])
            if not host.startswith(_LOOPBACK):
                raise AssertionError(f"a test tried to reach {host}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


def _shares_a_server(request: pytest.FixtureRequest) -> bool:
    """Whether an async fixture outlives the test: the tasks of its connections do so, rightly."""
    if request.path.is_relative_to(_TESTS / "e2e"):
        return True
    known: Any = request.node
    definitions = [one for all_ in known._fixtureinfo.name2fixturedefs.values() for one in all_]
    return any(
        one.scope != "function" and inspect.isasyncgenfunction(one.func) for one in definitions
    )


@pytest.fixture(autouse=True)
def nothing_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """No thread that would keep the process alive, and no task, outlives its test."""
    before = set(threading.enumerate())
    if "anyio_backend" in request.fixturenames and not _shares_a_server(request):
        request.getfixturevalue("no_task_left_running")
    yield
    left = [t for t in threading.enumerate() if t not in before and not t.daemon]
    pools = [t for t in left if any(n in t.name for n in ("Executor", "AnyIO", "asyncio_"))]
    assert [t.name for t in left if t not in pools] == []


@pytest.fixture
async def no_task_left_running() -> AsyncIterator[None]:
    """Looks for tasks inside the loop that runs the test; a plain fixture has no loop to look in."""
    before = _tasks()
    yield
    if left := _tasks() - before:  # one that was cancelled, or serves a thread, may be about to end
        await asyncio.wait(left, timeout=_LAST_SECONDS)
    assert sorted(map(str, _tasks() - before)) == []


def _tasks() -> set[asyncio.Task[object]]:
    """All but those that run the tests and fixtures themselves, or serve a thread that still runs."""
    return {
        t
        for t in asyncio.all_tasks()
        if not any(name in getattr(t.get_coro(), "__qualname__", "") for name in _OTHERS)
    }
