"""Who is let in: the configured token, and one that only this account can read.

Front ends on the same machine authenticate with a token that the gateway makes at every start and
puts, readable by its owner alone, into the state directory. Nobody has to copy anything, and it
works where the configured token is a reference that the front end cannot resolve.
"""

import hmac
import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.config.paths import PRIVATE_FILE
from openclaw.secrets.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Generator

_BYTES = 32


def local_token_path(root: Path) -> Path:
    """Where the local token lies while a gateway runs."""
    return root / "gateway.token"


@contextmanager
def local_token(root: Path) -> "Generator[Secret]":
    """A fresh token for this machine's front ends, in its file until the gateway ends."""
    value = secrets.token_urlsafe(_BYTES)
    path = local_token_path(root)
    unborn = path.with_suffix(f".{os.getpid()}")
    unborn.unlink(missing_ok=True)
    with os.fdopen(os.open(unborn, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "w") as f:
        f.write(value)
    unborn.replace(path)
    try:
        yield Secret(value)
    finally:
        with suppress(OSError):
            path.unlink()


def read_local_token(root: Path) -> Secret | None:
    """The token of the gateway that runs now, where this account may read it."""
    try:
        return Secret(local_token_path(root).read_text("ascii").strip())
    except (OSError, ValueError):
        return None


class Tokens:
    """Compares what a client sent with what it should be, in constant time."""

    def __init__(self, configured: Secret | None, local: Secret) -> None:
        self.open = configured is None
        known = [local] if configured is None else [configured, local]
        self._known = [one.reveal().encode() for one in known]
        self._local = local.reveal().encode()

    def admits(self, given: bytes | None) -> bool:
        """Whether this bearer token is one of ours; where none is configured, anyone is let in.

        Programs that insist on sending some key are let in then, too.
        """
        if self.open:
            return True
        if given is None:
            return False
        # Every candidate is compared, so that time does not say which one came close.
        matches = [hmac.compare_digest(given, one) for one in self._known]
        return any(matches)

    def is_local(self, given: bytes | None) -> bool:
        """Whether this is the token that only this account can read."""
        return given is not None and hmac.compare_digest(given, self._local)
