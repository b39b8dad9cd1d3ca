"""One gateway for each state directory, and how others find it.

The operating system releases the lock when the process ends. The file's content counts only while
the lock is held.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from pathlib import Path

from openclaw.config.paths import StatePaths, private_file, try_lock
from openclaw.core.errors import OperatorFacing
from openclaw.sessions.liveness import is_gone, own_mark

TOKEN_BYTES = 32
_PATIENCE = 0.5  # seconds; readers take the lock for an instant to check it
_STEP = 0.01


class AlreadyRunning(OperatorFacing):
    """Raised when another gateway has this state directory."""


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    pid: int
    url: str = ""  # empty while it starts
    started: int = 0  # milliseconds since 1970
    version: str = ""
    config: str = ""


Publish = Callable[[GatewayInfo], None]


@contextlib.contextmanager
def gateway_lock(path: Path) -> Generator[Publish]:
    """Be the gateway of this state directory, and publish its address; raises `AlreadyRunning`."""

    def publish(info: GatewayInfo) -> None:
        text = json.dumps({**asdict(info), "mark": own_mark()}).encode()
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, text)

    private_file(path)
    descriptor = os.open(path, os.O_RDWR)
    try:
        if not wait_for(lambda: _try_lock(descriptor), _PATIENCE):
            raise _already(path)
        publish(GatewayInfo(pid=os.getpid()))
        yield publish
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def running_gateway(path: Path) -> GatewayInfo | None:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        if _try_lock(descriptor):
            return None
        return _read(descriptor)
    finally:
        os.close(descriptor)


def request_headers(root: Path, url: str) -> dict[str, str] | None:
    """The headers of our own requests to the gateway at `url`.

    None if that gateway is gone: another program may listen there, and gets no token.
    """
    info = running_gateway(StatePaths(root).gateway_lock)
    if info is None or info.url != url:
        return None
    headers = {"content-type": "application/json"}
    if token := read_token(root):
        headers["authorization"] = f"Bearer {token}"
    return headers


def owner_token_path(root: Path) -> Path:
    return root / "gateway.token"


def read_token(root: Path) -> str | None:
    try:
        text = owner_token_path(root).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return text if len(text) >= TOKEN_BYTES else None


def _already(path: Path) -> AlreadyRunning:
    info = running_gateway(path)
    who = f" (pid {info.pid}{f', {info.url}' if info.url else ''})" if info and info.pid else ""
    return AlreadyRunning(
        f"a gateway is already running on {path.parent.parent}{who}",
        hint="stop it with 'openclaw gateway stop', or set OPENCLAW_STATE_DIR to another directory",
    )


def _read(descriptor: int) -> GatewayInfo:
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        said = json.loads(os.read(descriptor, 65_536))
        mark = said.pop("mark", None)
        # A killed gateway may have written this, if its successor has just taken the lock.
        return GatewayInfo(pid=0) if mark and is_gone(mark) else GatewayInfo(**said)
    except (ValueError, TypeError, AttributeError):
        return GatewayInfo(pid=0)  # it is being written


def _try_lock(descriptor: int) -> bool:
    try:
        return try_lock(descriptor)
    except OSError:
        return False


def wait_until_gone(path: Path, pid: int, seconds: float) -> bool:
    def gone() -> bool:
        info = running_gateway(path)
        return info is None or info.pid not in (pid, 0)

    return wait_for(gone, seconds)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(_STEP)
    return True
