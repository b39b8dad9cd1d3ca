"""Changing several places, moving, deleting, and undoing a turn."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.unit.media.test_documents import make_pdf

from openclaw.agent.tools import checkpoints as module
from openclaw.agent.tools.base import NativeTools
from openclaw.agent.tools.checkpoints import Checkpoints
from openclaw.agent.tools.native_tools import native_tools
from openclaw.core.content import text_of
from openclaw.core.file_names import OwnDirectory
from openclaw.core.tools import CallContext

Do = Callable[..., Awaitable[str]]


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(OwnDirectory(tmp_path / "undo"))


@pytest.fixture
def tools(workspace: Path, checkpoints: Checkpoints) -> NativeTools:
    return native_tools("main", workspace, checkpoints=checkpoints, plugins=False)


@pytest.fixture
def do(tools: NativeTools) -> Do:
    async def do(turn: str, name: str, **arguments: object) -> str:
        context = CallContext("main", "s", "c", turn=turn)
        return text_of((await tools.call(name, arguments, context)).blocks)

    return do


def edit(old: str, new: str, **more: object) -> dict[str, object]:
    return {"old_text": old, "new_text": new, **more}


async def test_several_edits_are_made_in_order_all_or_none(workspace: Path, do: Do) -> None:
    file = workspace / "f"
    file.write_text("a b b c")
    edits = [edit("a", "x"), edit("b", "y", all=True), edit("y c", "z")]
    assert await do("t", "edit", path="f", edits=edits) == "Changed 'f' in 4 places."
    assert file.read_text() == "x y z"
    wrong = await do("t", "edit", path="f", edits=[edit("x", "q"), edit("nothing", "q")])
    assert wrong.startswith("Edit 2: `old_text` is not in 'f'")
    assert file.read_text() == "x y z"


@pytest.mark.parametrize("turn", ["../../victim/t", "..", "undo-1", "a\0b", "x" * 5000, "\ud800"])
async def test_a_turn_that_a_client_named_is_saved_inside_and_undone(
    workspace: Path, checkpoints: Checkpoints, do: Do, tmp_path: Path, turn: str
) -> None:
    victims = [tmp_path / "victim" / f"{number}" for number in range(module.KEPT_TURNS + 5)]
    for victim in victims:
        victim.mkdir(parents=True)
    (tmp_path / "victim").chmod(0o755)
    (workspace / "f").write_text("1")
    await do(turn, "write", path="f", content="2")
    assert all(victim.is_dir() for victim in victims)
    assert (tmp_path / "victim").stat().st_mode & 0o777 == 0o755
    (saved,) = checkpoints.root.path.glob("*/*")
    assert {one.stat().st_mode & 0o777 for one in saved.iterdir()} == {0o600}
    assert checkpoints.undo("main", "s").startswith("Undone")
    assert (workspace / "f").read_text() == "1"


@pytest.mark.parametrize("edits", [[], ["a"], "a"])
async def test_edits_that_are_none_are_refused(workspace: Path, do: Do, edits: object) -> None:
    (workspace / "f").write_text("a")
    assert "Give `edits`" in await do("t", "edit", path="f", edits=edits)
    assert "not both" in await do("t", "edit", path="f", **edit("a", "b"), edits=[edit("a", "b")])


async def test_a_file_is_moved_and_nothing_is_overwritten(workspace: Path, do: Do) -> None:
    (workspace / "a").write_text("1")
    (workspace / "b").write_text("2")
    assert "already exists" in await do("t", "move", path="a", to="b")
    assert "not a workspace file" in await do("t", "move", path="missing", to="c")
    assert "leads out" in await do("t", "move", path="a", to="../out")
    assert await do("t", "move", path="a", to="new/c") == "Moved 'a' to 'new/c'."
    assert (workspace / "new" / "c").read_text() == "1"
    assert not (workspace / "a").exists()


async def test_what_stands_for_a_secret_is_not_written_over_it(workspace: Path, do: Do) -> None:
    file = workspace / "app.conf"
    file.write_text("password=hunter2\nport=1\n")
    shown = "password=[REDACTED]\nport=1\n"
    for said in (
        await do("t", "write", path="app.conf", content=shown),
        await do("t", "edit", path="app.conf", **edit(shown, "port=2\n")),
        await do("t", "edit", path="app.conf", **edit("port=1", shown)),
    ):
        assert "[REDACTED] stands for a secret that you are not shown" in said
    assert file.read_text() == "password=hunter2\nport=1\n"
    assert "Changed" in await do("t", "edit", path="app.conf", **edit("port=1", "port=2"))
    assert "Wrote" in await do("t", "write", path="new.md", content=shown)
    assert "Wrote" in await do("t", "write", path="new.md", content=shown + "x")


async def test_the_last_turn_with_changes_is_undone_and_no_other(
    workspace: Path, do: Do, checkpoints: Checkpoints
) -> None:
    (workspace / "old").write_text("first")
    (workspace / "old").chmod(0o755)
    (workspace / "tree" / "deep").mkdir(parents=True)
    (workspace / "tree" / "deep" / "f").write_text("inside")
    (workspace / "tree" / "link").symlink_to("/etc/passwd")
    await do("t1", "write", path="old", content="second")
    await do("t2", "edit", path="old", **edit("second", "third"))
    await do("t2", "edit", path="old", **edit("third", "fourth"))
    await do("t2", "write", path="made/new", content="x")
    await do("t2", "move", path="made/new", to="moved")
    assert "(1 files)" in await do("t2", "delete", path="tree")
    await do("t2", "delete", path="old")
    assert not (workspace / "tree").exists()
    assert Path("/etc/passwd").exists()
    assert "tree/deep/f: restored" in checkpoints.undo("main", "s")
    assert (workspace / "old").read_text() == "second"
    assert (workspace / "old").stat().st_mode & 0o777 == 0o755
    assert (workspace / "tree" / "deep" / "f").read_text() == "inside"
    assert not (workspace / "moved").exists()
    assert not (workspace / "made" / "new").exists()
    again = checkpoints.undo("main", "s", "redo")
    assert again.startswith("Redone:\n")
    assert "- old: removed" in again
    assert not (workspace / "old").exists()
    assert "nothing to undo" in checkpoints.undo("main", "other")


async def test_undo_goes_back_turn_by_turn_and_redo_goes_forward_again(
    workspace: Path, do: Do, checkpoints: Checkpoints
) -> None:
    file = workspace / "f"
    file.write_text("0")
    for turn in (1, 2, 3):
        await do(f"t{turn}", "write", path="f", content=str(turn))
    seen = [(checkpoints.undo("main", "s").splitlines()[0], file.read_text()) for _ in range(4)]
    assert [text for _, text in seen] == ["2", "1", "0", "0"]
    assert seen[0][0].endswith("2 earlier turns can be undone too.")
    assert "nothing to undo" in seen[3][0]
    forward = [(checkpoints.undo("main", "s", "redo"), file.read_text())[1] for _ in range(3)]
    assert forward == ["1", "2", "3"]
    assert checkpoints.undo("main", "s", "redo") == "There is nothing to redo."
    assert checkpoints.undo("main", "s").startswith("Undone")
    await do("t4", "write", path="f", content="4")
    assert checkpoints.undo("main", "s", "redo") == "There is nothing to redo."
    assert checkpoints.undo("main", "s").startswith("Undone")
    assert file.read_text() == "2"


async def test_as_many_turns_as_are_kept_can_be_undone_and_redone(
    workspace: Path, do: Do, checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_TURNS", 3)
    for turn in range(5):
        await do(f"t{turn}", "write", path="f", content=str(turn))
    for _ in range(3):
        checkpoints.undo("main", "s")
    assert (workspace / "f").read_text() == "1"
    for _ in range(3):
        checkpoints.undo("main", "s", "redo")
    assert (workspace / "f").read_text() == "4"


async def test_what_a_session_changed_is_compared_with_what_was_there_before_it(
    workspace: Path, do: Do, checkpoints: Checkpoints
) -> None:
    (workspace / "f").write_text("a\nb\n")
    (workspace / "gone").write_text("x")
    (workspace / "same").write_text("1")
    (workspace / "picture").write_bytes(b"\xff\x00")
    await do("t1", "edit", path="f", **edit("a", "A"))
    await do("t1", "write", path="same", content="2")
    await do("t2", "edit", path="f", **edit("b", "B"))
    await do("t2", "write", path="same", content="1")
    await do("t2", "write", path="d/new", content="n")
    await do("t2", "delete", path="gone")
    await do("t2", "write", path="picture", content="text")
    found = {one.path: (one.what, one.before, one.after) for one in checkpoints.diff("main", "s")}
    assert found == {
        "f": ("changed", "a\nb\n", "A\nB\n"),
        "d/new": ("added", "", "n"),
        "gone": ("removed", "x", ""),
        "picture": ("changed", None, "text"),
    }
    checkpoints.undo("main", "s")
    found = {one.path: (one.before, one.after) for one in checkpoints.diff("main", "s")}
    assert found == {"f": ("a\nb\n", "A\nb\n"), "same": ("1", "2")}
    assert checkpoints.diff("main", "other") == []


async def test_a_link_that_was_planted_is_not_followed_when_undoing(
    workspace: Path, tmp_path: Path, do: Do, checkpoints: Checkpoints
) -> None:
    (workspace / "d").mkdir()
    (workspace / "d" / "f").write_text("mine")
    await do("t", "write", path="d/f", content="changed")
    (workspace / "d" / "f").unlink()
    (workspace / "d").rmdir()
    (workspace / "d").symlink_to(tmp_path)
    assert "not restored" in checkpoints.undo("main", "s")
    assert not (tmp_path / "f").exists()


async def test_what_could_not_be_undone_is_not_done(
    workspace: Path, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 3)
    (workspace / "big").write_text("large")
    assert "could not be undone" in await do("t", "delete", path="big")
    assert (workspace / "big").read_text() == "large"


async def test_only_the_latest_turns_are_kept(
    workspace: Path, tmp_path: Path, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_TURNS", 2)
    for turn in range(5):
        await do(f"t{turn}", "write", path="f", content=str(turn))
    (session,) = (tmp_path / "undo").iterdir()
    copies = [one for one in session.glob("*/*") if one.name != "changes.jsonl"]
    assert sorted(one.read_text() for one in copies) == ["2", "3"]


async def test_a_pdf_is_read_as_text(workspace: Path, do: Do) -> None:
    make_pdf(workspace / "a.pdf", ["The price is 40."])
    assert "The price is 40." in await do("t", "read", path="a.pdf")
    (workspace / "b.pdf").write_bytes(b"%PDF-1.4\nbroken")
    assert "could not be extracted" in await do("t", "read", path="b.pdf")


async def test_what_has_changed_since_is_left_alone_unless_it_is_undone_anyway(
    workspace: Path, do: Do, checkpoints: Checkpoints
) -> None:
    for name in ("hand", "both", "mine"):
        (workspace / name).write_text("old")
        await do("t", "write", path=name, content="new")
    await do("t", "write", path="removed", content="new")
    (workspace / "hand").write_text("by hand")
    (workspace / "removed").unlink()
    (workspace / "both").write_text("by hand")  # in between two changes of the turn
    await do("t", "edit", path="both", **edit("by hand", "by hand and model"))
    shown = checkpoints.undo("main", "s", "show")
    assert shown.splitlines() == [
        "This would be undone:",
        "- hand: left alone, because it has changed since",
        "- both: left alone, because it has changed since",
        "- mine: would be restored",
        "- removed: left alone, because it has changed since",
    ]
    assert (workspace / "mine").read_text() == "new"
    assert "/undo anyway" in checkpoints.undo("main", "s")
    texts = {path.name: path.read_text() for path in workspace.iterdir()}
    assert texts == {"hand": "by hand", "both": "by hand and model", "mine": "old"}
    assert checkpoints.undo("main", "s").startswith("Nothing was undone.")
    assert (workspace / "hand").read_text() == "by hand"
    assert checkpoints.undo("main", "s", "redo").startswith("Redone")
    assert (workspace / "mine").read_text() == "new"
    assert checkpoints.undo("main", "s").startswith("Undone")
    assert checkpoints.undo("main", "s", "anyway").startswith("Undone")
    assert (workspace / "hand").read_text() == (workspace / "both").read_text() == "old"


async def test_another_sessions_change_is_not_undone_with_ones_own(
    workspace: Path, tools: NativeTools, do: Do, checkpoints: Checkpoints
) -> None:
    (workspace / "f").write_text("1")
    await do("t", "write", path="f", content="2")
    other = CallContext("main", "another", "c", turn="o")
    await tools.call("write", {"path": "f", "content": "3"}, other)
    assert checkpoints.undo("main", "s").startswith("Nothing was undone.")
    assert (workspace / "f").read_text() == "3"
    assert checkpoints.undo("main", "another").startswith("Undone")
    assert (workspace / "f").read_text() == "2"
    assert checkpoints.undo("main", "s").startswith("Undone")
    assert (workspace / "f").read_text() == "1"


async def test_links_and_empty_directories_come_back_and_go_again(
    workspace: Path, do: Do, checkpoints: Checkpoints
) -> None:
    (workspace / "d" / "empty").mkdir(parents=True)
    (workspace / "d" / "empty").chmod(0o700)
    (workspace / "d" / "f").write_text("x")
    (workspace / "d" / "link").symlink_to("/etc/passwd")
    (workspace / "d" / "lost").symlink_to("nowhere")
    (workspace / "d" / "dir").symlink_to("empty")
    before = _tree(workspace)
    await do("t", "delete", path="d")
    assert _tree(workspace) == {}
    assert checkpoints.undo("main", "s").startswith("Undone")
    assert _tree(workspace) == before
    assert checkpoints.undo("main", "s", "redo").startswith("Redone")
    assert _tree(workspace) == {}
    assert Path("/etc/passwd").exists()


def _tree(root: Path) -> dict[str, object]:
    def shown(path: Path) -> object:
        if path.is_symlink():
            return path.readlink()
        return path.stat().st_mode if path.is_dir() else path.read_text()

    return {str(path.relative_to(root)): shown(path) for path in root.rglob("*")}


async def test_gits_own_files_come_back_with_their_directory(
    workspace: Path, do: Do, checkpoints: Checkpoints
) -> None:
    (workspace / "repo" / ".git").mkdir(parents=True)
    (workspace / "repo" / ".git" / "config").write_text("[core]")
    await do("t", "delete", path="repo")
    assert "not restored" not in checkpoints.undo("main", "s")
    assert (workspace / "repo" / ".git" / "config").read_text() == "[core]"
