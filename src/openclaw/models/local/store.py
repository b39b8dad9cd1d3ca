"""The models directory: what lies there, and whether it is what it should be."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from openclaw.config.paths import PRIVATE_FILE, private_directory
from openclaw.core.errors import InvalidRequest, ModelUnavailable, OperatorFacing
from openclaw.models.local.weights import CATALOGUE, FromUrl, ToolUse, Weights, find_weights

_CHUNK = 1 << 20
_MAGIC = b"GGUF"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_OWN = "weights of your own: what it is good for is not known here"

Tick = Callable[[int], None]


def check_name(name: str) -> str:
    """A name that is safe as a file name."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is no name for weights",
            hint="use lower-case letters, digits, dots and hyphens",
        )
    return name


def file_sha256(path: Path, tick: Tick = lambda done: None) -> str:
    """The SHA-256 of a file, read piece by piece."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            tick(len(piece))
    return digest.hexdigest()


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def write_private(path: Path, text: str) -> None:
    """Write a small file of ours, whole or not at all."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.touch(mode=PRIVATE_FILE)
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


@dataclass(frozen=True, slots=True)
class Installed:
    """Weights that are on this machine."""

    weights: Weights
    path: Path


class WeightStore:
    """The weights under one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path_of(self, weights: Weights) -> Path:
        """Where these weights lie, or would."""
        return self.directory / weights.file_name

    def prepare(self) -> Path:
        """Make the directory, private."""
        return private_directory(self.directory)

    def is_installed(self, weights: Weights) -> bool:
        """Whether the file is there; `verify` says whether it is right."""
        return self.path_of(weights).is_file()

    def installed(self) -> list[Installed]:
        """Everything that is there, the catalogue's first."""
        known = [
            Installed(w, self.path_of(w)) for w in (*CATALOGUE, *self.own()) if self.is_installed(w)
        ]
        return sorted(known, key=lambda one: one.weights.name)

    def own(self) -> list[Weights]:
        """Weights that the user added by address, from the notes beside them."""
        notes = sorted(self.directory.glob("*.source.json")) if self.directory.is_dir() else []
        return [w for note in notes if (w := self._from_note(note)) is not None]

    def _from_note(self, note: Path) -> Weights | None:
        facts = _read_json(note)
        name = note.name.removesuffix(".source.json")
        if not _NAME.fullmatch(name) or not isinstance(facts.get("sha256"), str):
            return None
        return own_weights(name, str(facts.get("url", "")), facts["sha256"])

    def remember(self, weights: Weights) -> None:
        """Keep the address and hash of weights that are not in the catalogue."""
        if isinstance(weights.source, FromUrl) and find_weights(weights.name) is None:
            facts = {"url": weights.source.url, "sha256": weights.sha256}
            write_private(self.directory / f"{weights.name}.source.json", json.dumps(facts))

    def note_first_answer(self, weights: Weights) -> bool:
        """Whether these weights never answered before; from now on they have."""
        note = self.directory / f"{Path(weights.name).name}.answered"
        try:
            private_directory(self.directory)
            note.touch(mode=PRIVATE_FILE, exist_ok=False)
        except FileExistsError:
            return False
        except (OSError, OperatorFacing):  # what cannot be noted is told again
            return True
        return True

    def find(self, name: str) -> Weights | None:
        """The catalogue's weights of this name, else the user's own."""
        return find_weights(name) or next((w for w in self.own() if w.name == name), None)

    def verify(self, weights: Weights) -> Path:
        """The path of weights whose hash is right.

        The hash is computed once for each size and time of change, and remembered.
        """
        path = self.path_of(weights)
        stamp = self.directory / f"{weights.name}.verified.json"
        now = _stamp(path, weights.sha256)
        if _read_json(stamp) == now:
            return path
        found = file_sha256(path)
        if found != weights.sha256:
            raise ModelUnavailable(
                f"the weights {path} are damaged: their SHA-256 is {found}, not {weights.sha256}",
                hint=f"fetch them anew: openclaw models pull {weights.name} --force",
            )
        write_private(stamp, json.dumps(now))
        return path


def _stamp(path: Path, sha256: str) -> dict[str, Any]:
    try:
        facts = path.stat()
    except OSError as error:
        raise ModelUnavailable(
            f"cannot read the weights {path}: {error.strerror or error}",
            hint="fetch them with: openclaw models pull",
        ) from error
    return {"sha256": sha256, "size": facts.st_size, "mtime_ns": facts.st_mtime_ns}


def own_weights(name: str, url: str, sha256: str) -> Weights:
    """Weights by address and hash that the catalogue does not know."""
    return Weights(
        check_name(name), name, FromUrl(url), sha256.lower(), None, _OWN, licence="unknown"
    )


def own_file(path: Path) -> Weights:
    """A GGUF of the user's own, used where it lies. It is theirs: only its first bytes are checked."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelUnavailable(f"cannot read {path}: {error.strerror or error}") from error
    if magic != _MAGIC:
        raise ModelUnavailable(f"{path} is not a GGUF file")
    return Weights(
        path.stem,
        path.name,
        FromUrl(path.as_uri()),
        "",
        None,
        _OWN,
        ToolUse.ADAPTER,
        licence="unknown",
    )
