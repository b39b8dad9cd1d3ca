"""Speech to text, by whichever provider is available."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.to_thread
import httpx2
import orjson

from openclaw.core.errors import OpenClawError, describe
from openclaw.media.documents import Extracted, output_of
from openclaw.secrets.refs import Secret

if TYPE_CHECKING:
    from openclaw.config.agent_schema import ProviderConfig
    from openclaw.config.schema import TranscriptionConfig

logger = logging.getLogger(__name__)

NOT_SET_UP = "audio is kept but not transcribed: no transcription provider is set up"


class TranscriptionFailed(OpenClawError):
    """Raised when a provider could not transcribe a recording."""


class Transcriber(Protocol):
    """Turns a sound file into words. A failure is a note, never an exception."""

    async def transcribe(self, path: Path, mime_type: str) -> Extracted: ...


class NoTranscriber:
    async def transcribe(self, path: Path, mime_type: str) -> Extracted:
        return Extracted(note=NOT_SET_UP)


OPENAI, DEEPGRAM = "OpenAI", "Deepgram"
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "gpt-4o-mini-transcribe"
DEEPGRAM_URL = "https://api.deepgram.com"
DEEPGRAM_MODEL = "nova-3"
_ANSWER_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class CloudProvider:
    """OpenAI or Deepgram, which is sent the recording; None means the service's default."""

    name: str
    key: Secret
    base_url: str | None
    model: str | None
    language: str | None
    seconds: float

    async def transcribe(self, path: Path, mime_type: str) -> Extracted:
        recording = await anyio.to_thread.run_sync(path.read_bytes)
        spoken = {"language": self.language} if self.language else {}
        request: dict[str, Any] = {
            "url": f"{(self.base_url or OPENAI_URL).rstrip('/')}/audio/transcriptions",
            "headers": {"Authorization": f"Bearer {self.key.reveal()}"},
            "data": {"model": self.model or OPENAI_MODEL, "response_format": "json", **spoken},
            "files": {"file": (path.name, recording, mime_type)},
        }
        keys: tuple[str | int, ...] = ("text",)  # of the transcript in the answer
        if self.name == DEEPGRAM:
            spoken = spoken or {"detect_language": "true"}
            request = {
                "url": f"{(self.base_url or DEEPGRAM_URL).rstrip('/')}/v1/listen",
                "headers": {
                    "Authorization": f"Token {self.key.reveal()}",
                    "Content-Type": mime_type,
                },
                "params": {"model": self.model or DEEPGRAM_MODEL, "smart_format": "true", **spoken},
                "content": recording,
            }
            keys = ("results", "channels", 0, "alternatives", 0, "transcript")
        return Extracted(_text_at(await _post(self.seconds, **request), *keys).strip())


async def _post(seconds: float, **request: Any) -> Any:
    """The decoded answer; every failure is a `TranscriptionFailed`."""
    pieces = bytearray()
    try:
        with anyio.fail_after(seconds):
            async with (
                httpx2.AsyncClient(timeout=seconds) as client,
                client.stream("POST", **request) as response,
            ):
                async for piece in response.aiter_bytes():
                    pieces += piece
                    if len(pieces) > _ANSWER_BYTES:
                        raise TranscriptionFailed("its answer is too long")
    except (TimeoutError, httpx2.TimeoutException):
        raise TranscriptionFailed(f"no answer within {seconds:g} s") from None
    except httpx2.HTTPError as error:
        raise TranscriptionFailed(f"{type(error).__name__}: {error}") from None
    try:
        answer = orjson.loads(pieces)
    except ValueError:
        answer = None
    if response.status_code != 200:
        raise TranscriptionFailed(f"HTTP {response.status_code}{_reason_in(answer)}")
    if answer is None:
        raise TranscriptionFailed("its answer is not JSON")
    return answer


def _reason_in(answer: Any) -> str:
    for keys in (("error", "message"), ("err_msg",)):
        try:
            return f": {_text_at(answer, *keys)[:200]}"
        except TranscriptionFailed:
            continue
    return ""


def _text_at(answer: Any, *keys: str | int) -> str:
    with suppress(LookupError, TypeError):
        for step in keys:
            answer = answer[step]
        if isinstance(answer, str):
            return answer
    raise TranscriptionFailed("its answer has no transcript")


# Nothing is ever downloaded: only weights that are already there are used.

_WEIGHTS = "model.bin"
# Of address space; engines map a lot but touch little.
_MEMORY = {"moonshine": 3 << 30, "whisper": 12 << 30}
_CORES = 8  # CPU time counts all threads, so its limit must leave room for them
_PREFERRED = ("small", "base", "medium", "large-v3-turbo", "large-v3", "tiny")
_ENGLISH = ("en", "english")


@dataclass(frozen=True, slots=True)
class LocalProvider:
    engine: str
    weights: Path
    language: str | None
    seconds: float

    @property
    def name(self) -> str:
        return "Whisper" if self.engine == "whisper" else "Moonshine (English)"

    async def transcribe(self, path: Path, mime_type: str) -> Extracted:
        arguments = [self.engine, str(self.weights), str(path), self.language or ""]
        limits = {"memory_bytes": _MEMORY[self.engine], "cpu_seconds": int(self.seconds) * _CORES}
        printed = bytearray()
        with anyio.move_on_after(self.seconds):
            async with output_of("speech", arguments, **limits) as output:
                async for piece in output:
                    printed += piece
                    if len(printed) > _ANSWER_BYTES:  # a file may have taken over the reader
                        raise TranscriptionFailed("the engine printed too much")
        # The model reads an error, and has no use for where the file is.
        told = printed.replace(str(path).encode(), b"the recording")
        try:
            lines = [json.loads(line) for line in told.split(b"\n")[:-1]]
            return _transcript(lines, self.seconds)
        except (ValueError, LookupError, TypeError):
            raise TranscriptionFailed("the engine printed no valid transcript") from None


def _transcript(lines: Sequence[dict[str, Any]], seconds: float) -> Extracted:
    heard = [line for line in lines if "error" not in line]
    text = " ".join(line["text"] for line in heard if line["text"])
    until, whole = (heard[-1]["until"], heard[-1]["of"]) if heard else (0.0, 0.0)
    if heard and until >= whole:
        return Extracted(text)
    reason = next((line["error"] for line in lines if "error" in line), None)
    if text:
        why = reason or f"that is all it could do in {seconds:g} s"
        return Extracted(text, f"only the first {until:.0f} of {whole:.0f} s ({why})")
    raise TranscriptionFailed(reason or f"it crashed or took longer than {seconds:g} s")


def whisper_weights(model: str | None, environ: Mapping[str, str]) -> Path | None:
    """The directory of the weights: `model` is that directory, or a name in the cache."""
    if model and (Path(model).expanduser() / _WEIGHTS).is_file():
        return Path(model).expanduser()
    home = environ.get("HF_HOME") or f"{environ.get('HOME', '~')}/.cache/huggingface"
    hub = Path(environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()
    cached: dict[str, Path] = {}
    for file in sorted(hub.glob(f"models--*whisper*/snapshots/*/{_WEIGHTS}")):
        # By the repository's name, and by the short one: `Systran/faster-whisper-small`, `small`.
        name = file.parents[2].name.removeprefix("models--").replace("--", "/").lower()
        cached[name] = cached[name.rpartition("whisper-")[2]] = file.parent
    if model:
        return cached.get(model.lower())
    found = next((cached[name] for name in _PREFERRED if name in cached), None)
    return found or next(iter(cached.values()), None)


def find_local(
    settings: "TranscriptionConfig", environ: Mapping[str, str], seconds: float
) -> LocalProvider | None:
    language = settings.language
    weights = whisper_weights(settings.model, environ) if find_spec("faster_whisper") else None
    if weights is not None:
        return LocalProvider("whisper", weights, language, seconds)
    if language is not None and language.lower().partition("-")[0] not in _ENGLISH:
        return None
    # Found, not imported: the package with the weights has an engine that older CPUs can't run.
    carrier = find_spec("moonshine_cpp")
    if carrier is None or carrier.origin is None or find_spec("moonshine_voice") is None:
        return None
    weights = Path(carrier.origin).parent / "models" / "base-en"
    return LocalProvider("moonshine", weights, language, seconds) if weights.is_dir() else None


ResolveText = Callable[[str], Awaitable[Secret]]

_NEEDED = {
    "local": "neither Whisper with weights in its cache nor the extra `speech` is installed",
    "openai": "OPENAI_API_KEY or media.transcription.apiKey is not set",
    "deepgram": "DEEPGRAM_API_KEY or media.transcription.apiKey is not set",
}


class Speech:
    """Uses the first provider that is available for each recording.

    If it fails, no other is tried: a recording goes only where its owner expects.
    """

    def __init__(
        self,
        settings: "TranscriptionConfig",
        openai: "ProviderConfig | None",
        environ: Mapping[str, str],
        resolve: ResolveText,
    ) -> None:
        self._settings = settings
        self._openai = openai
        self._environ = environ
        self._resolve = resolve
        self._seconds = settings.timeout_ms / 1000

    async def transcribe(self, path: Path, mime_type: str) -> Extracted:
        try:
            provider = await self._provider()
        except OpenClawError as error:
            logger.warning("no transcription provider: %s", describe(error))
            return Extracted(note=f"not transcribed: {describe(error)}")
        if provider is None:
            needed = _NEEDED.get(self._settings.provider)
            return Extracted(note=f"not transcribed: {needed}" if needed else NOT_SET_UP)
        try:
            found = await provider.transcribe(path, mime_type)
        except TranscriptionFailed as error:
            logger.warning("%s could not transcribe a recording: %s", provider.name, error.message)
            return Extracted(note=f"not transcribed: {provider.name}: {error.message}")
        if not found.text and found.note is None:
            return Extracted(note=f"{provider.name} heard no words in it")
        note = f"transcribed by {provider.name}"
        return Extracted(found.text or None, f"{note}; {found.note}" if found.note else note)

    async def _provider(self) -> "CloudProvider | LocalProvider | None":
        own, shared, wanted = self._settings, self._openai, self._settings.provider
        if wanted in ("local", "auto"):
            found = find_local(own, self._environ, self._seconds)
            if found is not None:
                return found
        if wanted in ("openai", "auto"):
            key = own.api_key or (shared and shared.api_key) or self._variable("OPENAI_API_KEY")
            base_url = own.base_url or (shared and shared.base_url)
            if key:
                return await self._cloud(OPENAI, key, base_url)
        if wanted in ("deepgram", "auto"):
            # With `auto`, key and address are OpenAI's, which comes first.
            mine = wanted == "deepgram"
            key = (own.api_key if mine else None) or self._variable("DEEPGRAM_API_KEY")
            if key:
                return await self._cloud(DEEPGRAM, key, own.base_url if mine else None)
        return None

    async def _cloud(self, name: str, key: str, base_url: str | None) -> CloudProvider:
        own = self._settings
        # With `auto`, the model's name is Whisper's.
        model = None if own.provider == "auto" else own.model
        secret = await self._resolve(key)
        return CloudProvider(name, secret, base_url, model, own.language, self._seconds)

    def _variable(self, name: str) -> str | None:
        # A reference, so that the value is known to the redactor before anyone else has it.
        return f"secret://env/{name}" if self._environ.get(name) else None
