"""The program with standard streams that are closed, or that have no room."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell closes streams")

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def run(
    tmp_path: Path,
    words: str,
    given: bytes = b"",
    stdout: Any = subprocess.PIPE,
    first: str = "",
    **more: str,
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", f'{first} "{sys.executable}" -m openclaw {words}'],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **more},
        input=given,
        stdout=stdout,
        stderr=subprocess.PIPE,
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
def test_an_mcp_server_says_that_its_answers_have_no_room(tmp_path: Path) -> None:
    ended = run(tmp_path, "mcp-server > /dev/full", PING)
    assert ended.returncode == 1
    assert b"No space left on device" in ended.stderr
    assert b"OSError" not in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [
        "sessions",
        "status --json",
        "sessions show nobody --json",
        "status --json --bogus",
        "--help",
        "--version",
        "mcp --help",
    ],
)
def test_output_without_room_is_one_line_on_stderr(
    tmp_path: Path, words: str, unbuffered: str
) -> None:
    ended = run(tmp_path, f"{words} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    *before, told = ended.stderr.decode().splitlines()
    assert told == "openclaw: Cannot write the output: No space left on device."
    assert (ended.returncode, bool(before)) == (1, "bogus" in words)


@pytest.mark.parametrize("words", ["--help", "mcp --help", "status --json"])
def test_a_file_that_cannot_grow_is_no_crash(tmp_path: Path, words: str) -> None:
    command = f"{words} > {tmp_path / 'out'}"
    ended = run(tmp_path, command, first="ulimit -f 0;", PYTHONUNBUFFERED="1")
    told = b"openclaw: Cannot write the output: File too large.\n"
    assert (ended.returncode, ended.stderr) == (1, told)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["--help", "mcp --help", "status --json"])
def test_a_reader_that_left_needs_no_words(tmp_path: Path, words: str, unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        ended = run(tmp_path, words, stdout=pipe, PYTHONUNBUFFERED=unbuffered)
    assert (ended.returncode, ended.stderr) == (141, b"")
