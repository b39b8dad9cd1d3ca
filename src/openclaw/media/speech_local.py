"""Speech to text on this machine: Whisper where its weights are, else the small recogniser.

Nothing is ever downloaded: weights are used where they already lie.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio

from openclaw.media.confined import Bounds, output_of
from openclaw.media.transcription import Transcript, TranscriptionFailed

_WEIGHTS = "model.bin"
_MEMORY = {
    "moonshine": 3 << 30,
    "whisper": 12 << 30,
}  # of address space; engines map much, touch little
_CORES = 8  # a time limit on the CPU's clock must leave room for all threads
_PREFERRED = ("small", "base", "medium", "large-v3-turbo", "large-v3", "tiny")
_ENGLISH = ("en", "english")


@dataclass(frozen=True, slots=True)
class LocalProvider:
    """An engine with its weights."""

    engine: str
    weights: Path
    language: str | None
    seconds: float

    @property
    def name(self) -> str:
        """As a person knows it."""
        return "Whisper" if self.engine == "whisper" else "Moonshine (English)"

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        """The words, as many as the time allows."""
        arguments = [self.engine, str(self.weights), str(path), self.language or ""]
        bounds = Bounds(_MEMORY[self.engine], cpu_seconds=int(self.seconds) * _CORES)
        printed = bytearray()
        with anyio.move_on_after(self.seconds):
            async with output_of("openclaw.media.speech_worker", arguments, bounds) as output:
                async for piece in output:
                    printed += piece
        return _transcript([json.loads(line) for line in printed.split(b"\n")[:-1]], self.seconds)


def _transcript(lines: Sequence[dict[str, Any]], seconds: float) -> Transcript:
    heard = [line for line in lines if "error" not in line]
    text = " ".join(line["text"] for line in heard if line["text"])
    until, whole = (heard[-1]["until"], heard[-1]["of"]) if heard else (0.0, 0.0)
    if heard and until >= whole:
        return Transcript(text)
    reason = next((line["error"] for line in lines if "error" in line), None)
    if text:
        why = reason or f"that is as far as it came within {seconds:g} s"
        return Transcript(text, f"only the first {until:.0f} of {whole:.0f} s ({why})")
    raise TranscriptionFailed(reason or f"it broke down or took longer than {seconds:g} s")


def find_whisper(
    model: str | None, language: str | None, seconds: float, environ: Mapping[str, str]
) -> LocalProvider | None:
    """Whisper, where the package and weights are there: those named, or any in the usual cache."""
    if find_spec("faster_whisper") is None:
        return None
    weights = whisper_weights(model, environ)
    return None if weights is None else LocalProvider("whisper", weights, language, seconds)


def whisper_weights(model: str | None, environ: Mapping[str, str]) -> Path | None:
    """The directory of the weights: `model` is that directory, or a name as in the cache."""
    if model and (Path(model).expanduser() / _WEIGHTS).is_file():
        return Path(model).expanduser()
    cached = {name: path for path in _cached(environ) for name in _names_of(path)}
    if model:
        return cached.get(model.lower())
    found = next((cached[name] for name in _PREFERRED if name in cached), None)
    return found or next(iter(cached.values()), None)


def _cached(environ: Mapping[str, str]) -> list[Path]:
    """Every snapshot of a Whisper for CTranslate2 in the cache of the Hugging Face hub."""
    home = environ.get("HF_HOME") or f"{environ.get('HOME', '~')}/.cache/huggingface"
    hub = Path(environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()
    return sorted(path.parent for path in hub.glob(f"models--*whisper*/snapshots/*/{_WEIGHTS}"))


def _names_of(snapshot: Path) -> tuple[str, str]:
    """The repository's name, and the short one: `Systran/faster-whisper-small` and `small`."""
    repository = snapshot.parents[1].name.removeprefix("models--").replace("--", "/").lower()
    return repository, repository.rpartition("whisper-")[2]


def find_moonshine(language: str | None, seconds: float) -> LocalProvider | None:
    """The small recogniser, where it is installed and English is spoken."""
    if language is not None and language.lower().partition("-")[0] not in _ENGLISH:
        return None
    # Found, not imported: the package that carries the weights has an engine that older CPUs lack.
    carrier = find_spec("moonshine_cpp")
    if carrier is None or carrier.origin is None or find_spec("moonshine_voice") is None:
        return None
    weights = Path(carrier.origin).parent / "models" / "base-en"
    return LocalProvider("moonshine", weights, language, seconds) if weights.is_dir() else None
