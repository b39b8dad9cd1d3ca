"""What is installed: the text files beside our code, and how to add an extra."""

import json
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

DISTRIBUTION = "openclaw-runtime"
_IMAGE = "openclaw-image"  # a file that deploy/Dockerfile makes


Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Installation:
    """How the program was installed, and the commands that upgrade it; none if it can't do that itself."""

    kind: str
    upgrade: tuple[Command, ...] = ()
    checkout: str | None = None

    def reinstall(self, version: str) -> tuple[Command, ...]:
        """The commands that bring back a version, which is a commit if this is a checkout."""
        if self.checkout is not None:
            switch = ("git", "-C", self.checkout, "checkout", "--quiet", version)
            return (switch, *self.upgrade[1:])
        url, _ = _origin()
        wanted = f" @ {url}" if url else f"=={version}"
        return ((*_installer(), DISTRIBUTION + _named(_extras()) + wanted),)


def installation() -> Installation:
    prefix, url, editable = Path(sys.prefix), *_origin()
    source = url2pathname(urlsplit(url).path) if url.startswith("file:") else ""
    pull = ("git", "-C", source, "pull", "--quiet", "--ff-only")
    if editable:
        return Installation("checkout", (pull, (f"{source}/scripts/setup",)), source)
    if (prefix / _IMAGE).is_file():
        return Installation("container")
    if not Path(__file__).is_relative_to(prefix) and not _is_installed():
        return Installation("single file")
    if source and Path(source, ".git").exists():  # installed from it with `pip install .`
        replace = ("--reinstall-package", DISTRIBUTION) if _installer()[0] == "uv" else ()
        again = (*_installer(), *replace, f"{DISTRIBUTION}{_named(_extras())} @ {url}")
        return Installation("copy of a checkout", (pull, again), source)
    if (prefix / "uv-receipt.toml").is_file():
        return Installation("uv tool", (("uv", "tool", "upgrade", DISTRIBUTION),))
    if (prefix / "pipx_metadata.json").is_file():
        return Installation("pipx", (("pipx", "upgrade", DISTRIBUTION),))
    return Installation("pip", ((*_installer(), "--upgrade", DISTRIBUTION + _named(_extras())),))


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, from the same source."""
    words = list(_installer())
    named = _named(sorted({extra, *_extras()}))  # extras that are not named again would be removed
    url, editable = _origin()
    if editable:
        checkout = url2pathname(urlsplit(url).path)
        own = Path(checkout, "scripts", "uv")
        words[:1] = [str(own)] if words[0] == "uv" and own.is_file() else words[:1]
        words += ["-e", f"{checkout}{named}"]
    else:
        words.append(f"{DISTRIBUTION}{named}" + (f" @ {url}" if url else ""))
    return shown_command(words)


def shown_command(words: Sequence[str]) -> str:
    return " ".join(f'"{word}"' if set(word) & set(" []") else word for word in words)


def _installer() -> Command:
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").is_file():
        return ("uv", "tool", "install", "--force")
    if (prefix / "pipx_metadata.json").is_file():
        return ("pipx", "install", "--force")
    if find_spec("pip") is not None:
        return (sys.executable, "-m", "pip", "install")
    return ("uv", "pip", "install", "--python", sys.executable)


def _extras() -> list[str]:
    """The extras that uv or pipx was asked for; pip keeps what is installed, and says nothing."""
    try:
        receipt = tomllib.loads((Path(sys.prefix) / "uv-receipt.toml").read_text())
    except OSError:
        return []
    tool: dict[str, Any] = receipt.get("tool", {})
    wanted = [one for one in tool.get("requirements", ()) if one.get("name") == DISTRIBUTION]
    return sorted(str(extra) for each in wanted for extra in each.get("extras", ()))


def _named(extras: Sequence[str]) -> str:
    return f"[{','.join(extras)}]" if extras else ""


def _is_installed() -> bool:
    """Whether an installer put it where it is: a single file unpacks itself elsewhere."""
    try:
        return bool(distribution(DISTRIBUTION).read_text("INSTALLER"))
    except PackageNotFoundError:
        return False


def uninstall_command() -> str:
    """The command that removes this installation."""
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").is_file():
        return f"uv tool uninstall {DISTRIBUTION}"
    if (prefix / "pipx_metadata.json").is_file():
        return f"pipx uninstall {DISTRIBUTION}"
    pip = f'"{sys.executable}" -m pip uninstall' if find_spec("pip") else "uv pip uninstall"
    return f"{pip} {DISTRIBUTION}"


def _origin() -> tuple[str, bool]:
    """The URL it was installed from (empty for an index), and whether that is a working copy."""
    try:
        text = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return "", False
    facts: dict[str, Any] = json.loads(text) if text else {}
    return facts.get("url", ""), bool(facts.get("dir_info", {}).get("editable"))


def read_data(package: str, name: str) -> bytes:
    return (files(package) / name).read_bytes()


@cache
def sections(package: str, name: str) -> dict[str, dict[str, list[str]]]:
    """A file's lines by the kind and the name of their section, whose heading is `[kind name]`."""
    found: dict[str, dict[str, list[str]]] = {}
    lines: list[str] = []
    for line in read_data(package, name).decode().splitlines():
        if line.startswith("["):
            kind, _, head = line.strip("[]").partition(" ")
            lines = found.setdefault(kind, {}).setdefault(head, [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return found
