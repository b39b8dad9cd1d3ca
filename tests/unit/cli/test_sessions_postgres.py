"""`openclaw sessions`, `status` and `doctor` with a store on a database server."""

import json
from pathlib import Path

import anyio
import pytest

from openclaw.cli.main import run
from openclaw.core.clock import SystemClock
from openclaw.core.outcome import Outcome
from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.store import open_postgres_store
from openclaw.sessions.records import EntryKind, NewEntry
from openclaw.sessions.sqlite.store import open_sqlite_store
from openclaw.sessions.store import SessionStore

Captured = pytest.CaptureFixture[str]


async def fill(store: SessionStore) -> None:
    for key in ("trip", "work"):
        session = await store.open_session("main", key)
        async with store.acquire_lane(session) as lane:
            turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, f"about {key}")])
            await lane.finish_turn(turn, Outcome.OK)


@pytest.fixture
def filled(postgres_url: str) -> str:
    async def work() -> None:
        async with open_postgres_store(parsed(postgres_url)) as store:
            await fill(store)

    anyio.run(work)
    return postgres_url


@pytest.fixture
def stored(home: Path) -> Path:
    path = home / ".openclaw" / "sessions.db"

    async def work() -> None:
        async with open_sqlite_store(path, SystemClock()) as store:
            await fill(store)

    anyio.run(work)
    return path


def sessions(*arguments: str) -> int:
    return run("openclaw", ["sessions", *arguments])


def configure(home: Path, store: str) -> None:
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(json.dumps({"sessions": {"store": store}}))
    path.chmod(0o600)


def keys(capsys: Captured) -> list[str]:
    return [info["key"] for info in json.loads(capsys.readouterr().out)["sessions"]]


def test_conversations_on_a_server_are_listed_shown_searched_and_deleted(
    filled: str, capsys: Captured
) -> None:
    assert sessions("--store", filled, "--json") == 0
    assert keys(capsys) == ["work", "trip"]
    assert sessions("show", "trip", "--store", filled) == 0
    assert "about trip" in capsys.readouterr().out
    assert sessions("search", "about", "--store", filled, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["hits"]) == 2
    assert sessions("export", "trip", "--store", filled) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert sessions("delete", "trip", "--yes", "--store", filled) == 0
    capsys.readouterr()
    assert sessions("--store", filled, "--json") == 0
    assert keys(capsys) == ["work"]


def test_the_configured_server_is_used_with_its_address_from_a_secret(
    home: Path, filled: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, "secret://env/STORE_URL")
    monkeypatch.setenv("STORE_URL", filled)
    assert sessions("--json") == 0
    assert keys(capsys) == ["work", "trip"]


def test_a_server_without_a_store_is_empty_or_missing_and_stays_as_it_is(
    home: Path, bare_postgres_url: str, capsys: Captured
) -> None:
    assert sessions("--store", bare_postgres_url) == 1
    assert "There is no session store" in capsys.readouterr().err
    configure(home, bare_postgres_url)
    assert sessions() == 0
    assert "No conversations yet." in capsys.readouterr().out
    assert run("openclaw", ["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sessions"]["count"] == 0
    assert run("openclaw", ["doctor", "--json"]) in (0, 1)
    assert "no conversations are stored yet" in capsys.readouterr().out
    assert sessions("--store", bare_postgres_url) == 1


def test_status_and_doctor_look_at_the_configured_server(
    home: Path, filled: str, capsys: Captured
) -> None:
    configure(home, filled)
    assert run("openclaw", ["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sessions"]["count"] == 2
    run("openclaw", ["doctor", "--json"])
    assert "the PostgreSQL server holds the conversations" in capsys.readouterr().out


def test_a_server_that_is_away_is_an_error_that_hides_its_password(
    home: Path, capsys: Captured
) -> None:
    configure(home, "postgresql://me:hunter2hunter2@127.0.0.1:1/x")
    assert sessions() == 1
    assert run("openclaw", ["status", "--json"]) == 0
    assert run("openclaw", ["doctor", "--json"]) == 1
    said = "".join(capsys.readouterr())
    assert "cannot be reached" in said
    assert "plaintext password" not in said  # doctor has words of its own for it
    assert "sessions.store is a credential in plain text" in said
    assert run("openclaw", ["config", "validate"]) == 0
    said += "".join(capsys.readouterr())
    assert "sessions.store has a plaintext password in config" in said
    assert "hunter2" not in said


def test_a_reference_in_an_address_needs_brackets(home: Path, capsys: Captured) -> None:
    configure(home, "postgresql://me:secret://env/PW@db.example/x")
    assert run("openclaw", ["config", "validate"]) == 2
    assert "angle brackets" in "".join(capsys.readouterr())
    configure(home, "postgresql://me:<secret://env/PW>@db.example/x")
    assert run("openclaw", ["config", "validate"]) == 0
    assert "plaintext" not in "".join(capsys.readouterr())


def test_conversations_are_copied_to_a_server_and_back(
    tmp_path: Path, stored: Path, postgres_url: str, capsys: Captured
) -> None:
    assert sessions("copy", "file", postgres_url) == 0
    assert (
        capsys.readouterr().out == "Copied 2 conversations with 6 entries; 0 were there already.\n"
    )
    assert sessions("copy", "file", postgres_url, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {"copied": 0, "unchanged": 2, "entries": 0, "refused": []}
    back = tmp_path / "back.db"
    assert sessions("copy", postgres_url, str(back)) == 0
    capsys.readouterr()
    assert sessions("--store", str(back), "--json") == 0
    assert keys(capsys) == ["work", "trip"]


def test_a_copy_that_cannot_begin_says_why(
    tmp_path: Path, stored: Path, bare_postgres_url: str, capsys: Captured
) -> None:
    assert sessions("copy", str(tmp_path / "none.db"), str(tmp_path / "to.db")) == 1
    assert "There is no session store at" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
    assert sessions("copy", bare_postgres_url, str(tmp_path / "to.db")) == 1
    assert "There is no session store on PostgreSQL" in capsys.readouterr().err
    assert sessions("copy", "file", "file") == 2
    assert "same store" in capsys.readouterr().err


def test_what_was_not_copied_is_named_and_the_copy_fails(
    tmp_path: Path, stored: Path, capsys: Captured
) -> None:
    other = tmp_path / "other.db"

    async def occupy() -> None:
        async with open_sqlite_store(other, SystemClock()) as store:
            await store.open_session("main", "trip")

    anyio.run(occupy)
    assert sessions("copy", "file", str(other)) == 1
    assert "not copied: 'trip' of agent 'main': the target has another" in capsys.readouterr().err
    assert sessions("copy", "file", str(other), "--json") == 1
    (refused,) = json.loads(capsys.readouterr().out)["refused"]
    assert refused["key"] == "trip"
