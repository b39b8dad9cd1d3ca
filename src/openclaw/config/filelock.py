"""Locks on files that go with their holder: the operating system gives them back, however it ends.

They hold between processes and, as every open file has its own, between threads. Closing the
descriptor gives the lock back.
"""

import errno
import os
import sys
import time
from typing import Protocol

# Windows locks bytes, and others may not even read them: so one that no file of ours reaches.
_LOCKED_BYTE = 1 << 30
_POLL_SECONDS = 0.02
_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


class ByteLocks(Protocol):
    """What is used of `msvcrt`."""

    @property
    def LK_NBLCK(self) -> int:
        """Take the lock or fail at once."""
        ...

    def locking(self, fd: int, mode: int, nbytes: int, /) -> None:
        """Lock so many bytes from where the file stands."""
        ...


def try_lock(descriptor: int) -> bool:
    """Take the lock, unless somebody holds it. Raises OSError where the file cannot be locked."""
    if sys.platform == "win32":
        import msvcrt

        return try_byte_lock(descriptor, msvcrt)
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return _held(error)
    return True


def lock(descriptor: int) -> None:
    """Take the lock as soon as nobody holds it."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    while not try_lock(descriptor):
        time.sleep(_POLL_SECONDS)


def try_byte_lock(descriptor: int, library: ByteLocks) -> bool:
    """The same where locks are on bytes; the file stands afterwards where it stood."""
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
    try:
        library.locking(descriptor, library.LK_NBLCK, 1)
    except OSError as error:
        return _held(error)
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)
    return True


def _held(error: OSError) -> bool:
    """False, for a lock that somebody else has; any other trouble is raised."""
    if error.errno not in _HELD:
        raise error
    return False
