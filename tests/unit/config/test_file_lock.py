"""Locks that go with their holder, on both kinds of system."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw.config.paths import lock, try_byte_lock, try_lock

HOLDER = """
import os, sys
from openclaw.config.paths import lock
lock(os.open(sys.argv[1], os.O_RDWR))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lock"
    path.write_bytes(b"text")
    return path


@pytest.fixture
def descriptor(path: Path) -> Iterator[int]:
    opened = os.open(path, os.O_RDWR)
    yield opened
    os.close(opened)


def test_one_holder_at_a_time_until_it_closes_the_file(path: Path, descriptor: int) -> None:
    other = os.open(path, os.O_RDWR)
    assert try_lock(other)
    assert not try_lock(descriptor)
    os.close(other)
    assert try_lock(descriptor)


def test_waiting_ends_when_the_holder_lets_go(path: Path, descriptor: int) -> None:
    other = os.open(path, os.O_RDWR)
    lock(other)
    waiter = threading.Thread(target=lock, args=[descriptor])
    waiter.start()
    os.close(other)
    waiter.join(60)
    assert not waiter.is_alive()


def test_the_lock_of_a_process_that_is_killed_is_free(path: Path, descriptor: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert not try_lock(descriptor)
        holder.kill()
        holder.wait()
        lock(descriptor)


def test_a_descriptor_that_cannot_be_locked_is_no_lock_that_is_held() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        try_lock(999_999)


class Msvcrt:
    """A stand-in for the Windows library: one lock for each byte of the file."""

    LK_NBLCK = 2

    def __init__(self, failure: int | None = None) -> None:
        self.failure = failure
        self.locked: list[tuple[int, int, int]] = []

    def locking(self, fd: int, mode: int, nbytes: int, /) -> None:
        if self.failure is not None:
            raise OSError(self.failure, "no")
        self.locked.append((os.lseek(fd, 0, os.SEEK_CUR), mode, nbytes))


def test_on_windows_one_byte_far_behind_the_text_is_locked(descriptor: int) -> None:
    library = Msvcrt()
    os.lseek(descriptor, 3, os.SEEK_SET)
    assert try_byte_lock(descriptor, library)
    assert library.locked == [(1 << 30, Msvcrt.LK_NBLCK, 1)]
    assert os.read(descriptor, 10) == b"t"  # where it stood before


@pytest.mark.parametrize("failure", [errno.EACCES, errno.EDEADLK])
def test_on_windows_a_lock_that_is_held_is_not_taken(descriptor: int, failure: int) -> None:
    assert not try_byte_lock(descriptor, Msvcrt(failure))
    assert os.lseek(descriptor, 0, os.SEEK_CUR) == 0


def test_on_windows_other_trouble_is_raised(descriptor: int) -> None:
    with pytest.raises(OSError, match="no"):
        try_byte_lock(descriptor, Msvcrt(errno.EBADF))
