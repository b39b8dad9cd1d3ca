"""Where configuration and state live."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw.config.paths import (
    StatePaths,
    config_path,
    expand,
    private_directory,
    private_file,
    state_dir,
    target_of,
)
from openclaw.core.errors import OperatorFacing


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("environ", "state", "config"),
    [
        ({"HOME": "/h"}, "/h/.openclaw", "/h/.openclaw/openclaw.json"),
        ({"HOME": "/h", "OPENCLAW_STATE_DIR": "/s"}, "/s", "/s/openclaw.json"),
        ({"HOME": "/h", "OPENCLAW_STATE_DIR": "~/s"}, "/h/s", "/h/s/openclaw.json"),
        ({"HOME": "/h", "OPENCLAW_CONFIG_PATH": "~/c.json"}, "/h/.openclaw", "/h/c.json"),
        ({"HOME": "/h", "OPENCLAW_STATE_DIR": "/s", "OPENCLAW_CONFIG_PATH": "/c"}, "/s", "/c"),
        ({"HOME": "/h", "OPENCLAW_STATE_DIR": "", "OPENCLAW_CONFIG_PATH": ""}, "/h/.openclaw", "/h/.openclaw/openclaw.json"),
        ({"USERPROFILE": "/u"}, "/u/.openclaw", "/u/.openclaw/openclaw.json"),
    ],
)  # fmt: skip
def test_the_environment_says_where(environ: dict[str, str], state: str, config: str) -> None:
    assert state_dir(environ) == Path(state)
    assert config_path(environ) == Path(config)
    assert StatePaths.of(environ).root == Path(state)


def test_without_a_home_in_the_environment_it_is_the_accounts_own(home: Path) -> None:
    assert state_dir({}) == home / ".openclaw"


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_path({"OPENCLAW_CONFIG_PATH": "c.json"}) == tmp_path / "c.json"


def test_a_tilde_is_the_home_directory() -> None:
    assert expand("~", {"HOME": "/h"}) == Path("/h")
    assert expand("~/x", {"HOME": "/h"}) == Path("/h/x")
    assert expand("~other/x", {"HOME": "/h"}) == Path("~other/x")
    assert expand("/a/~", {"HOME": "/h"}) == Path("/a/~")


def test_everything_lies_under_the_state_directory_and_nothing_falls_together(
    tmp_path: Path,
) -> None:
    paths = StatePaths(tmp_path / "state")
    places = [
        paths.database, paths.audit_log, paths.gateway_log, paths.cache, paths.pins, paths.models,
        paths.temp, paths.tokens, paths.results.path, paths.workspace, paths.gateway_lock,
    ]  # fmt: skip
    assert len(set(places)) == len(places)
    assert all(place.is_relative_to(paths.root) for place in places)
    assert not paths.root.exists()
    assert mode(paths.prepare().root) == 0o700


def test_directories_and_files_are_made_private_and_narrowed_where_they_were_not(
    tmp_path: Path,
) -> None:
    wide = tmp_path / "wide"
    wide.mkdir(mode=0o755)
    file = wide / "file"
    file.write_text("kept")
    file.chmod(0o644)
    assert mode(private_directory(wide)) == 0o700
    assert mode(private_file(file)) == 0o600
    assert file.read_text() == "kept"
    assert mode(private_file(tmp_path / "new" / "deep" / "file")) == 0o600
    assert mode(tmp_path / "new") == mode(tmp_path / "new" / "deep") == 0o700


def test_what_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OperatorFacing, match="is a file, not a directory"):
        private_directory(tmp_path / "file" / "x")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "missing" / "x")
    with pytest.raises(OperatorFacing, match="cannot use the file"):
        private_file(tmp_path / "dangling")


@pytest.mark.parametrize("at", ["link", "link/deep"])
def test_a_link_to_nothing_is_named_and_nothing_is_made_there(tmp_path: Path, at: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(OperatorFacing, match=r"link is a link to .*/gone, which does not exist"):
        private_directory(tmp_path / at)
    assert not (tmp_path / "gone").exists()


def test_a_file_is_written_where_its_link_leads(tmp_path: Path) -> None:
    assert target_of(tmp_path / "file") == tmp_path / "file"
    (tmp_path / "link").symlink_to(tmp_path / "new")  # made by the first write
    assert target_of(tmp_path / "link") == tmp_path / "new"
    (tmp_path / "far").symlink_to(tmp_path / "gone" / "file")
    with pytest.raises(OperatorFacing, match=r"far is a link to .*/gone/file, which does not"):
        target_of(tmp_path / "far")
    assert not (tmp_path / "gone").exists()


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that others can enter, which those of the tests are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root gives away")
def test_a_directory_of_another_user_is_not_used(open_to_all: Path) -> None:
    theirs, ours = open_to_all / "theirs", open_to_all / "ours"
    for place, owner in ((theirs, 65533), (ours, 65534)):
        place.mkdir()
        place.chmod(0o777)
        os.chown(place, owner, owner)
    os.seteuid(65534)
    try:
        with pytest.raises(OperatorFacing, match="belongs to another user"):
            private_directory(theirs)
        assert mode(private_directory(ours)) == 0o700
    finally:
        os.seteuid(0)
    assert mode(theirs) == 0o777
    assert mode(private_directory(theirs)) == 0o700  # root may use whatever there is
