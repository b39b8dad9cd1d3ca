"""One gateway for each state directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.gateway.lock import (
    AlreadyRunning,
    GatewayInfo,
    gateway_lock,
    running_gateway,
    wait_until_gone,
)


def lock_file(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "gateway.lock"


def test_a_second_gateway_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    path = lock_file(tmp_path)
    with gateway_lock(path) as publish:
        publish(GatewayInfo(pid=os.getpid(), url="http://127.0.0.1:1"))
        with (
            pytest.raises(AlreadyRunning, match=rf"pid {os.getpid()}, http://127\.0\.0\.1:1"),
            gateway_lock(path),
        ):
            pytest.fail("there are two")
        assert running_gateway(path) == GatewayInfo(os.getpid(), "http://127.0.0.1:1")
        assert not wait_until_gone(path, os.getpid(), 0.02)
    assert running_gateway(path) is None
    assert wait_until_gone(path, os.getpid(), 0)


def test_a_crash_leaves_nothing_behind(tmp_path: Path) -> None:
    path = lock_file(tmp_path)
    program = (
        "import os, pathlib, sys\n"
        "from openclaw.gateway.lock import GatewayInfo, gateway_lock\n"
        f"with gateway_lock(pathlib.Path({str(path)!r})) as publish:\n"
        "    publish(GatewayInfo(1, 'http://gone'))\n"
        "    os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
    assert b"gone" in path.read_bytes()
    assert running_gateway(path) is None
    with gateway_lock(path):
        assert running_gateway(path) == GatewayInfo(pid=os.getpid())


def test_there_is_none_where_there_never_was_one(tmp_path: Path) -> None:
    assert running_gateway(lock_file(tmp_path)) is None


def test_what_is_being_written_is_not_believed(tmp_path: Path) -> None:
    path = lock_file(tmp_path)
    with gateway_lock(path):
        path.write_text('{"pid": 12')
        assert running_gateway(path) == GatewayInfo(pid=0)


def test_what_a_killed_one_said_is_not_its_successors(tmp_path: Path) -> None:
    path = lock_file(tmp_path)
    program = (
        "import os, pathlib\n"
        "from openclaw.gateway.lock import GatewayInfo, gateway_lock\n"
        f"with gateway_lock(pathlib.Path({str(path)!r})) as publish:\n"
        "    publish(GatewayInfo(os.getpid(), 'http://gone'))\n"
        "    os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
    left = path.read_bytes()
    with gateway_lock(path):
        path.write_bytes(left)  # as it is until the new one has written
        assert running_gateway(path) == GatewayInfo(pid=0)


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = lock_file(tmp_path)
    with gateway_lock(path):
        assert path.stat().st_mode & 0o777 == 0o600
