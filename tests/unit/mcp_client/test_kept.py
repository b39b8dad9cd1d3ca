"""A kept result's name says all that is needed to show it; sessions do not see each other's."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.mcp_client.kept import Kept, directory_for, from_name, new_name


@given(st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()), st.booleans())
def test_the_name_says_whose_it_is_and_how_it_is_shown(server: str, guarded: bool) -> None:
    for kept in (Kept(server, "frame", guarded), Kept(server, "datamark", guarded)):
        name = new_name(kept)
        assert from_name(name) == kept
        assert "/" not in name
        assert len(name) < 255 or not server.isascii()


@pytest.mark.parametrize(
    "name", ["", "notes.txt", "mcp-.frame.txt", "mcp-s-1.txt", "mcp-s-1.html.txt"]
)
def test_other_names_are_no_kept_results(name: str) -> None:
    assert from_name(name) is None


def test_every_session_of_every_agent_has_its_own_directory() -> None:
    root = Path("/r")
    pairs = [("a", "b"), ("a", "c"), ("b", "b"), ("ab", ""), ("", "ab"), ("../..", "x")]
    found = {directory_for(root, agent, session) for agent, session in pairs}
    assert len(found) == len(pairs)
    assert {directory.parent for directory in found} == {root}
