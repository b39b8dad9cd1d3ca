"""The program with standard streams that are closed, or that have no room."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell closes streams")

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def run(tmp_path: Path, words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", f'"{sys.executable}" -m openclaw {words}'],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        input=given,
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_an_empty_one(tmp_path: Path, closed: str) -> None:
    ended = run(tmp_path, f"sessions {closed}")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert bool(ended.stdout) is (">&-" not in closed.replace("2>&-", ""))


def test_an_mcp_server_without_input_ends_at_once(tmp_path: Path) -> None:
    ended = run(tmp_path, "mcp-server <&-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_init_says_how_to_do_without_questions(tmp_path: Path) -> None:
    ended = run(tmp_path, "init <&-")
    assert ended.returncode != 0
    assert b"Traceback" not in ended.stderr
    assert b"--yes" in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(("command", "given"), [("sessions", b""), ("mcp-server", PING)])
def test_output_without_room_is_said_in_words(tmp_path: Path, command: str, given: bytes) -> None:
    ended = run(tmp_path, f"{command} > /dev/full", given)
    assert ended.returncode == 1
    assert b"No space left on device" in ended.stderr
    assert b"OSError" not in ended.stderr
