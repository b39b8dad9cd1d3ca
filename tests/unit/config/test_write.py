"""Writing the file: one at a time, all or nothing, and only what holds."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.config.edit import set_value
from openclaw.config.load import load_config
from openclaw.config.write import edit_config, locked, write_atomically
from openclaw.core.errors import InvalidConfig, OperatorFacing


def add_server(path: Path, name: str) -> None:
    edit_config(path, {}, lambda text: set_value(text, ("mcp", "servers", name), {"command": name}))


ADD_TEN = """
import sys
from pathlib import Path
from openclaw.config.edit import set_value
from openclaw.config.write import edit_config
path, prefix = Path(sys.argv[1]), sys.argv[2]
for index in range(10):
    name = prefix + str(index)
    edit_config(path, {}, lambda text: set_value(text, ("mcp", "servers", name), {"command": name}))
"""


def test_a_new_file_is_made_private_with_its_directory(tmp_path: Path) -> None:
    path = tmp_path / "state" / "openclaw.json"
    add_server(path, "x")
    assert list(load_config(path, {}).config.mcp.servers) == ["x"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_invalid_result_is_refused_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text("{ /* mine */ }")
    with pytest.raises(InvalidConfig):
        edit_config(path, {}, lambda text: set_value(text, ("gateway", "port"), "x"))
    assert path.read_text() == "{ /* mine */ }"
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        ".openclaw.json.lock",
        "home",
        "openclaw.json",
    ]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    real.write_text("{}")
    link = tmp_path / "openclaw.json"
    link.symlink_to(real)
    add_server(link, "x")
    assert link.is_symlink()
    assert "x" in real.read_text()


def test_an_edit_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text("{}")
    before = path.stat()
    edit_config(path, {}, lambda text: text)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.subprocess
def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    writers = [
        subprocess.Popen([sys.executable, "-c", ADD_TEN, str(path), prefix]) for prefix in "ab"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(load_config(path, {}).config.mcp.servers) == 20


def test_a_lock_that_is_never_given_back_is_an_error_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    with (
        locked(path),
        pytest.raises(OperatorFacing, match=r"another program has been changing .* for 0 s"),
        locked(path, timeout=0),
    ):
        pass


def test_a_failure_while_writing_leaves_nothing_behind(tmp_path: Path) -> None:
    directory = tmp_path / "openclaw.json"
    directory.mkdir()
    (directory / "x").touch()
    with pytest.raises(OperatorFacing, match="cannot write"):
        write_atomically(directory, "{}")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["home", "openclaw.json"]
    with pytest.raises(OperatorFacing, match="cannot write"):
        write_atomically(tmp_path / "missing" / "x", "{}")
    with pytest.raises(OperatorFacing, match="cannot write"), locked(tmp_path / "missing" / "x"):
        pass
