import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openclaw.core.errors import InvalidRequest
from openclaw.media.stored_files import OrderFiles, order_files, sweep


@pytest.mark.requirement("M-8")
def test_files_are_private_randomly_named_and_gone_afterwards(tmp_path: Path) -> None:
    root = tmp_path / "tmp"
    with order_files(root) as files:
        first = files.save([b"a", b"b"], "image/png")
        second = files.save([b"c"], "application/x-unheard-of")
        assert first.read_bytes() == b"ab"
        assert first.suffix == ".png"
        assert second.suffix == ""
        assert first.stat().st_mode & 0o777 == 0o600
        assert files.directory.stat().st_mode & 0o777 == 0o700
        assert root.stat().st_mode & 0o777 == 0o700
    assert list(root.iterdir()) == []


def test_files_are_gone_also_when_the_order_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with order_files(tmp_path / "tmp") as files:
            files.save([b"x"], "image/png")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_quota_bounds_what_one_order_may_store(tmp_path: Path) -> None:
    files = OrderFiles(tmp_path, quota=3)
    files.save([b"ab"], "image/png")
    with pytest.raises(InvalidRequest, match="attachments exceed"):
        files.save([b"cd"], "image/png")


def test_what_a_killed_process_left_is_swept_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from openclaw.media.stored_files import order_files\n"
        "with order_files(Path(sys.argv[1])) as files:\n"
        "    files.save([b'x'], 'image/png'); os.kill(os.getpid(), 9)"
    )
    root = tmp_path / "tmp"
    subprocess.run([sys.executable, "-c", program, str(root)], check=False)
    assert len(list(root.iterdir())) == 1
    with order_files(root) as files:
        assert sweep(root) == 1
        assert list(root.iterdir()) == [files.directory]
    assert sweep(tmp_path / "missing") == 0


@pytest.fixture
def hour_ago() -> float:
    return time.time() - 3700


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "tmp"


def left_behind(root: Path, name: str, *, locked: bool) -> Path:
    """A directory as a process leaves it that was killed while it made or removed it."""
    directory = root / name
    directory.mkdir(parents=True)
    (directory / "file").touch()
    if locked:
        (directory / ".lock").touch()
    return directory


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("name", ["new-1", "order-1"])
def test_what_was_half_made_or_half_removed_is_swept_when_it_is_old(
    root: Path, hour_ago: float, name: str, locked: bool
) -> None:
    directory = left_behind(root, name, locked=locked)
    if not (locked and name == "order-1"):
        assert sweep(root) == 0  # somebody may be about to go on with it
    os.utime(directory, (hour_ago, hour_ago))
    assert sweep(root) == 1
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("name", ["new-1", "order-1"])
def test_what_another_process_holds_is_left_however_old_it_is(
    root: Path, hour_ago: float, name: str
) -> None:
    directory = left_behind(root, name, locked=True)
    program = (
        "import os, sys; from openclaw.config.paths import lock\n"
        "lock(os.open(sys.argv[1], os.O_RDWR)); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(directory / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        os.utime(directory, (hour_ago, hour_ago))
        assert sweep(root) == 0
        other.kill()
    assert sweep(root) == 1


def test_two_that_sweep_at_once_and_one_that_begins_are_not_in_each_others_way(
    root: Path, hour_ago: float
) -> None:
    for number in range(50):
        directory = left_behind(root, f"new-{number}", locked=number % 2 == 0)
        os.utime(directory, (hour_ago, hour_ago))
    with ThreadPoolExecutor(2) as both, order_files(root) as files:
        swept = [both.submit(sweep, root) for _ in range(2)]
        files.save([b"x"], "image/png")
        assert sum(one.result() for one in swept) >= 50
        assert list(root.iterdir()) == [files.directory]
