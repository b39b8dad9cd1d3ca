"""Nothing leads out of the workspace."""

import os
import stat
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw.agent.tools.workspace import Workspace
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import ToolResult

Words = Callable[..., Awaitable[str]]
Call = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("do not read me")
    return path


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "./../secret.txt",
        "a/b/../../../secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "..",
        "a/../..",
        "link-out",
        "link-out/secret.txt",
        "absolute-out",
        "dir-out/secret.txt",
        "chain-1",
        "a/up/up/secret.txt",
    ],
)
@pytest.mark.parametrize("tool", ["read", "write", "edit", "list", "search", "attach"])
async def test_no_path_leads_out(
    workspace: Path, secret: Path, call: Call, tool: str, path: str
) -> None:
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "link-out").symlink_to("../secret.txt")
    (workspace / "absolute-out").symlink_to(secret)
    (workspace / "dir-out").symlink_to("..")
    (workspace / "chain-1").symlink_to("a/chain-2")
    (workspace / "a" / "chain-2").symlink_to("../../secret.txt")
    (workspace / "a" / "up").symlink_to("..")
    (workspace / "up").symlink_to("..")
    more = {"content": "x", "old_text": "do", "new_text": "did", "pattern": "read"}
    result = await call(tool, path=path, **more)
    assert result.is_error
    assert "do not read me" not in str(result)
    assert secret.read_text() == "do not read me"


async def test_links_and_dots_that_stay_inside_are_followed(workspace: Path, ok: Words) -> None:
    (workspace / "a").mkdir()
    (workspace / "a" / "file").write_text("inside")
    (workspace / "to-file").symlink_to("a/file")
    (workspace / "to-dir").symlink_to(workspace / "a")
    (workspace / "a" / "back").symlink_to("..")
    for path in ("a/file", "./a//file", "a/../a/file", "to-file", "to-dir/file", "a/back/a/file"):
        assert await ok("read", path=path) == "inside"
    assert await ok("read", path=str(workspace / "a" / "file")) == "inside"


async def test_a_loop_of_links_ends(workspace: Path, refused: Words) -> None:
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    assert "loop" in await refused("read", path="a")
    assert "loop" in await refused("write", path="a/x", content="")


async def test_a_write_through_a_link_that_stays_inside_changes_its_target(
    workspace: Path, ok: Words
) -> None:
    (workspace / "link").symlink_to("new")
    await ok("write", path="link", content="x")
    assert (workspace / "link").is_symlink()
    assert (workspace / "new").read_text() == "x"


@pytest.mark.parametrize("tool", ["read", "write", "edit", "attach"])
async def test_special_files_are_refused_and_never_waited_for(
    workspace: Path, refused: Words, tool: str
) -> None:
    os.mkfifo(workspace / "pipe")
    with anyio.fail_after(60):
        words = await refused(tool, path="pipe", content="x", old_text="a", new_text="b")
    assert "not an ordinary file" in words


async def test_a_hard_link_to_a_file_outside_is_not_written_through(
    workspace: Path, secret: Path, ok: Words
) -> None:
    os.link(secret, workspace / "hard")
    await ok("write", path="hard", content="mine")
    assert secret.read_text() == "do not read me"


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "x" * 300, "x" * 300 + "/y"])
async def test_paths_that_no_system_takes_are_refused_with_words(refused: Words, path: str) -> None:
    await refused("read", path=path)
    await refused("write", path=path, content="")


@pytest.mark.parametrize("path", [".git/config", "a/.GIT/hooks/pre-commit", ".git", "linked/x"])
async def test_no_tool_writes_what_git_runs(
    workspace: Path, ok: Words, refused: Words, path: str
) -> None:
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "config").write_text("[core]\n")
    (workspace / "linked").symlink_to(".git")
    (workspace / "mine").write_text("x")
    assert "with git" in await refused("write", path=path, content="[core] fsmonitor = ./x")
    assert "with git" in await refused("move", path="mine", to=path)
    assert "[core]" in await ok("read", path=".git/config")
    if path == ".git/config":
        assert "with git" in await refused("edit", path=path, old_text="core", new_text="x")
    assert [*(workspace / ".git" / "hooks").iterdir()] == []
    assert not (workspace / "a" / ".GIT").exists()


async def test_a_missing_workspace_is_told(workspace: Path, refused: Words) -> None:
    workspace.rmdir()
    assert "workspace cannot be used" in await refused("list")


def test_swapping_a_directory_for_a_link_wins_no_race(workspace: Path, secret: Path) -> None:
    """Another process relinks a component all the time; not one read may show the outside."""
    inside = workspace / "inside"
    inside.mkdir()
    (inside / "secret.txt").write_text("inside")
    (workspace / "outside").symlink_to("..")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (workspace / "inside").rename(workspace / "aside")
            (workspace / "outside").rename(workspace / "inside")
            (workspace / "inside").rename(workspace / "outside")
            (workspace / "aside").rename(workspace / "inside")

    swapper = threading.Thread(target=swap)
    swapper.start()
    place = Workspace(workspace)
    read: set[bytes] = set()
    try:
        for _ in range(2000):
            try:
                with place.open_file("inside/secret.txt") as (file, _, _):
                    read.add(file.read())
            except ToolFailure:
                continue
    finally:
        stop.set()
        swapper.join()
    assert read <= {b"inside"}


def test_no_descriptor_is_left_open(workspace: Path) -> None:
    (workspace / "a").mkdir()
    (workspace / "a" / "f").write_text("x")
    (workspace / "out").symlink_to("../..")
    place = Workspace(workspace)
    before = _open_descriptors()
    for path in ("a/f", "out", "a/none", "a/f/x", "../x", "a"):
        try:
            with place.open_file(path):
                pass
        except ToolFailure:
            continue
        place.replace_file("a/f", b"y")
    assert _open_descriptors() == before


async def test_a_write_leaves_no_other_file_and_keeps_the_mode(workspace: Path, ok: Words) -> None:
    await ok("write", path="new", content="1")
    assert stat.S_IMODE((workspace / "new").stat().st_mode) == 0o644 & ~_umask()
    (workspace / "new").chmod(0o750)
    await ok("write", path="new", content="2")
    assert stat.S_IMODE((workspace / "new").stat().st_mode) == 0o750
    assert [path.name for path in workspace.iterdir()] == ["new"]


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
def test_nothing_is_made_for_everybody_to_change_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Workspace(tmp_path).replace_file("a/b/new", b"x")
    finally:
        os.umask(before)
    for made in ("a", "a/b", "a/b/new"):
        assert not (tmp_path / made).stat().st_mode & 0o022


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _tree(root: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    for number, place in enumerate((root, root / "a", root / "a" / "b", root.parent)):
        (place / "f").write_text(f"{number}")
    (root / "a" / "up").symlink_to("..")
    (root / "in").symlink_to("a/b")
    (root / "out").symlink_to("..")
    (root / "a" / "abs").symlink_to(root / "a")
    (root / "a" / "b" / "etc").symlink_to("/etc")
    (root / "self").symlink_to("self")


@given(
    parts=st.lists(
        st.sampled_from(["..", ".", "", "a", "b", "f", "up", "in", "out", "abs", "etc", "self"]),
        max_size=7,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_opened_is_what_the_system_would_open_and_lies_inside(
    tmp_path: Path, parts: list[str]
) -> None:
    root = tmp_path / "fuzzed"
    if not root.exists():
        root.mkdir()
        _tree(root)
    path = "/".join([*parts, "f"])
    if path.startswith("/"):
        path = path.lstrip("/")
    try:
        with Workspace(root).open_file(path) as (file, _, relative):
            content = file.read()
    except ToolFailure:
        return
    real = (root / path).resolve(strict=True)
    assert real.is_relative_to(root.resolve())
    assert real == (root / relative).resolve(strict=True)
    assert content == real.read_bytes()
