"""Getting a file over HTTP: with resume, with progress, and with errors in plain words."""

import errno
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj, disk_usage
from typing import TYPE_CHECKING

from openclaw.config.paths import PRIVATE_FILE
from openclaw.core.errors import OperatorFacing
from openclaw.net.proxies import proxy_for

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 60.0  # a server that sends nothing for this long is taken to be gone
ATTEMPTS = 4  # how often a broken transfer is taken up again where it stopped
_PIECE = 1 << 18
_PARTIAL, _RANGE_REFUSED = 206, 416


@dataclass(frozen=True, slots=True)
class Progress:
    what: str
    done: int
    total: int | None


Report = Callable[[Progress], None]


class DownloadFailed(OperatorFacing):
    """Raised when a file could not be fetched; what came so far is kept for the next try."""


def open_client(
    url: str,
    environ: Mapping[str, str],
    certificates: str | None,
    login: tuple[str, str] | None = None,
) -> "httpx2.Client":
    import httpx2

    verify = ssl.create_default_context(cafile=certificates) if certificates else True
    return httpx2.Client(
        auth=login,
        trust_env=False,
        proxy=proxy_for(url, environ),
        verify=verify,
        follow_redirects=True,
        timeout=httpx2.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
    )


def need_space(directory: Path, size: int | None) -> None:
    """Say that the disk is too full before anything is fetched."""
    free = disk_usage(directory).free
    if size is not None and free < size:
        raise OperatorFacing(
            f"{_mega(size)} MB are needed under {directory}, and {_mega(free)} MB are free",
            hint="make room, or set OPENCLAW_STATE_DIR to a larger disk",
        )


def _mega(size: int) -> int:
    return -(-size // 1_000_000)


def disk_error(error: OSError, path: Path) -> OperatorFacing:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return OperatorFacing(
            f"the disk is full: {path} could not be written",
            hint="make room and run it again; what came so far is kept",
        )
    return OperatorFacing(f"cannot write {path}: {error.strerror or error}")


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(url).hostname or url


class Download:
    """One file on its way to `target`; whatever is in `target` already is taken as its beginning."""

    def __init__(self, client: "httpx2.Client", url: str, target: Path, report: Report) -> None:
        self._client = client
        self._url = url
        self._target = target
        self._report = report

    def run(self, expected: int | None) -> None:
        """Fetch the rest. A transfer that breaks is taken up again a few times."""
        import httpx2

        last: Exception | None = None
        for _ in range(ATTEMPTS):
            before = self._size()
            if expected is not None and before == expected:
                return
            try:
                self._once(before, expected)
            except httpx2.HTTPStatusError as error:
                raise DownloadFailed(
                    f"{_host(self._url)} answered {error.response.status_code} for {self._target.name}"
                ) from error
            except httpx2.TransportError as error:
                last = error
            else:
                if expected is None or self._size() >= expected:
                    return
        why = f"{type(last).__name__}: {last}" if last else "the transfer ended early"
        raise DownloadFailed(
            f"could not fetch {self._target.name} from {_host(self._url)} ({why})",
            hint="run it again: it continues where it stopped",
        )

    def _size(self) -> int:
        return self._target.stat().st_size if self._target.exists() else 0

    def _once(self, start: int, expected: int | None) -> None:
        headers = {"Range": f"bytes={start}-"} if start else {}
        headers["Accept-Encoding"] = "identity"
        with self._client.stream("GET", self._url, headers=headers) as response:
            if response.status_code == _RANGE_REFUSED:
                self._target.unlink(missing_ok=True)  # what is there is not the file's beginning
                return
            response.raise_for_status()
            resumed = response.status_code == _PARTIAL
            done = start if resumed else 0
            length = response.headers.get("Content-Length")
            total = expected or (done + int(length) if length else None)
            self._target.touch(mode=PRIVATE_FILE)
            with self._target.open("ab" if resumed else "wb") as file:
                # As it comes: a larger buffer would be lost with a broken connection.
                for piece in response.iter_raw():
                    file.write(piece)
                    done += len(piece)
                    self._report(Progress("download", done, total))


def copy_file(source: Path, target: Path) -> None:
    target.touch(mode=PRIVATE_FILE)
    with source.open("rb") as reader, target.open("wb") as writer:
        copyfileobj(reader, writer, _PIECE)
