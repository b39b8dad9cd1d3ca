"""What is installed: the text files beside our code, and how to add an extra."""

import json
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

DISTRIBUTION = "openclaw-runtime"


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, from the same source."""
    prefix = Path(sys.prefix)
    extras = [extra]
    if (receipt := prefix / "uv-receipt.toml").is_file():
        tool: dict[str, Any] = tomllib.loads(receipt.read_text()).get("tool", {})
        wanted = [one for one in tool.get("requirements", ()) if one.get("name") == DISTRIBUTION]
        before = {one for each in wanted for one in each.get("extras", ())}
        extras = sorted({extra, *before})  # extras that are not named again would be removed
        words = ["uv", "tool", "install", "--force"]
    elif (prefix / "pipx_metadata.json").is_file():
        words = ["pipx", "install", "--force"]
    elif find_spec("pip") is not None:
        words = [sys.executable, "-m", "pip", "install"]
    else:
        words = ["uv", "pip", "install", "--python", sys.executable]
    named = f"[{','.join(extras)}]"
    url, editable = _origin()
    if editable:
        checkout = url2pathname(urlsplit(url).path)
        own = Path(checkout, "scripts", "uv")
        words[:1] = [str(own)] if words[0] == "uv" and own.is_file() else words[:1]
        words += ["-e", f"{checkout}{named}"]
    else:
        words.append(f"{DISTRIBUTION}{named}" + (f" @ {url}" if url else ""))
    return " ".join(f'"{word}"' if set(word) & set(" []") else word for word in words)


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
