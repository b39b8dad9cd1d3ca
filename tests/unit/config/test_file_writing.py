"""Writing the file: one at a time, all or nothing, and only what holds."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.config.edit import edit_config, set_value
from openclaw.config.load import load_config
from openclaw.config.paths import locked, write_atomically
from openclaw.core.errors import InvalidConfig, OperatorFacing


def add_server(path: Path, name: str) -> None:
    edit_config(path, {}, lambda text: set_value(text, ("mcp", "servers", name), {"command": name}))


ADD_TEN = """
import sys
from pathlib import Path
from openclaw.config.edit import set_value
from openclaw.config.edit import edit_config
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


def test_a_link_to_a_file_that_is_not_there_yet_is_followed(tmp_path: Path) -> None:
    (tmp_path / "dots").mkdir()
    first, second = tmp_path / "openclaw.json", tmp_path / "second"
    first.symlink_to("second")
    second.symlink_to("dots/openclaw.json")
    edit_config(first, {}, lambda text: "{}")
    assert (tmp_path / "dots/openclaw.json").read_text() == "{}\n"
    assert first.is_symlink()
    assert second.is_symlink()


def test_a_link_into_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    link = tmp_path / "openclaw.json"
    link.symlink_to(tmp_path / "unmounted/openclaw.json")
    with pytest.raises(
        OperatorFacing, match=r"openclaw\.json is a link to .*, which does not exist"
    ):
        edit_config(link, {}, lambda text: "{}")
    assert not (tmp_path / "unmounted").exists()


def test_links_in_a_circle_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OperatorFacing, match="its links lead in a circle"):
        edit_config(tmp_path / "a", {}, lambda text: "{}")


def test_a_state_directory_that_is_open_to_others_is_closed_by_the_first_write(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    environ = {"OPENCLAW_STATE_DIR": str(state)}
    edit_config(state / "openclaw.json", environ, lambda text: "{}")
    assert state.stat().st_mode & 0o777 == 0o700
    other = tmp_path / "other"
    other.mkdir()
    other.chmod(0o755)  # a directory that is not ours alone stays as it is
    edit_config(other / "openclaw.json", environ, lambda text: "{}")
    assert other.stat().st_mode & 0o777 == 0o755
