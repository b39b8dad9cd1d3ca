import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.core.errors import InvalidRequest
from openclaw.media.store import OrderFiles, order_files, sweep


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
        "import os, sys; from pathlib import Path; from openclaw.media.store import order_files\n"
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
