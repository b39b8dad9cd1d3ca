"""A kept result's name says all that is needed to show it; sessions do not see each other's."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.content.frame import MCP_SERVER, Mode
from openclaw.core.file_names import OwnDirectory
from openclaw.core.tools import Untrusted
from openclaw.mcp_client.bridge.results import (
    MAX_BYTES,
    MAX_FILES,
    MAX_SESSIONS,
    directory_for,
    from_name,
    make_room,
    new_name,
)


@given(st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()), st.booleans())
def test_the_name_says_whose_it_is_and_how_it_is_shown(server: str, guarded: bool) -> None:
    modes: tuple[Mode, ...] = ("frame", "datamark")
    for mode in modes:
        whose = Untrusted(MCP_SERVER, server, mode, guarded)
        name = str(new_name(whose))
        found = from_name(name)
        assert found is not None
        assert server.startswith(found.sender)
        assert replace(found, sender=server) == whose
        assert len(name) < 255


@pytest.mark.parametrize(
    "name", ["", "notes.txt", "mcp-.frame.txt", "mcp-s-1.txt", "mcp-s-1.html.txt"]
)
def test_other_names_are_no_kept_results(name: str) -> None:
    assert from_name(name) is None


def test_every_session_of_every_agent_has_its_own_directory() -> None:
    root = OwnDirectory(Path("/r"))
    pairs = [("a", "b"), ("a", "c"), ("b", "b"), ("ab", ""), ("", "ab"), ("../..", "x")]
    found = {directory_for(root, agent, session) for agent, session in pairs}
    assert len(found) == len(pairs)
    assert {directory.path.parent for directory in found} == {root.path}


def put(directory: Path, name: str, size: int, age: int) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    with path.open("wb") as file:
        file.truncate(size)
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def test_a_session_keeps_so_many_and_lets_the_oldest_go(tmp_path: Path) -> None:
    session = tmp_path / "s"
    for age in range(MAX_FILES):
        put(session, f"{age}", 1, age)
    assert make_room(session, 1)
    left = {path.name for path in session.iterdir()}
    assert left == {f"{age}" for age in range(MAX_FILES - 1)}


def test_a_session_keeps_so_much_and_no_result_is_larger(tmp_path: Path) -> None:
    session = tmp_path / "s"
    put(session, "old", MAX_BYTES // 2, 2)
    put(session, "new", MAX_BYTES // 2, 1)
    assert make_room(session, MAX_BYTES // 4)
    assert [path.name for path in session.iterdir()] == ["new"]
    assert not make_room(session, MAX_BYTES + 1)
    assert [path.name for path in session.iterdir()] == ["new"]


def test_so_many_sessions_keep_anything(tmp_path: Path) -> None:
    root = tmp_path / "results"
    sessions = [
        directory_for(OwnDirectory(root), "main", str(age)).path for age in range(MAX_SESSIONS + 10)
    ]
    for age, session in enumerate([*sessions, root / "of somebody else"]):
        put(session, "f", 1, 0)
        os.utime(session, (1_000_000 - age, 1_000_000 - age))
    mine = sessions[-1]  # the oldest, but it is the one that wants to keep more
    assert make_room(mine, 1)
    assert set(root.iterdir()) == {*sessions[: MAX_SESSIONS - 1], mine, root / "of somebody else"}
