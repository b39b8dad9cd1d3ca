"""Speech to text over HTTP: OpenAI's API, which others speak too, and Deepgram's."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from openclaw.media.transcription import Transcript, TranscriptionFailed
from openclaw.secrets.secret import Secret

if TYPE_CHECKING:
    import httpx2

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "gpt-4o-mini-transcribe"
DEEPGRAM_URL = "https://api.deepgram.com"
DEEPGRAM_MODEL = "nova-3"
_ANSWER_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class CloudSettings:
    """What both providers need; what is None is the provider's default."""

    key: Secret
    base_url: str | None
    model: str | None
    language: str | None
    seconds: float


class OpenAiProvider:
    """`POST /v1/audio/transcriptions`."""

    name = "OpenAI"

    def __init__(self, settings: CloudSettings) -> None:
        self._settings = settings

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        """The words of this file."""
        settings = self._settings
        url = f"{(settings.base_url or OPENAI_URL).rstrip('/')}/audio/transcriptions"
        fields = {"model": settings.model or OPENAI_MODEL, "response_format": "json"}
        if settings.language:
            fields["language"] = settings.language
        recording = await anyio.to_thread.run_sync(path.read_bytes)
        headers = {"Authorization": f"Bearer {settings.key.reveal()}"}
        async with _client(settings.seconds) as client:
            answer = await _post(
                client,
                url,
                headers=headers,
                data=fields,
                files={"file": (path.name, recording, mime_type)},
            )
        return Transcript(_text_at(answer, "text").strip())


class DeepgramProvider:
    """`POST /v1/listen`."""

    name = "Deepgram"

    def __init__(self, settings: CloudSettings) -> None:
        self._settings = settings

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        """The words of this file."""
        settings = self._settings
        url = f"{(settings.base_url or DEEPGRAM_URL).rstrip('/')}/v1/listen"
        spoken = (
            {"language": settings.language} if settings.language else {"detect_language": "true"}
        )
        query = {"model": settings.model or DEEPGRAM_MODEL, "smart_format": "true", **spoken}
        recording = await anyio.to_thread.run_sync(path.read_bytes)
        headers = {"Authorization": f"Token {settings.key.reveal()}", "Content-Type": mime_type}
        async with _client(settings.seconds) as client:
            answer = await _post(client, url, headers=headers, params=query, content=recording)
        words = _text_at(answer, "results", "channels", 0, "alternatives", 0, "transcript")
        return Transcript(words.strip())


@asynccontextmanager
async def _client(seconds: float) -> "AsyncGenerator[httpx2.AsyncClient]":
    """A client whose every failure is a `TranscriptionFailed`; the time limit covers it all."""
    import httpx2  # loaded only where a recording is sent

    try:
        with anyio.fail_after(seconds):
            async with httpx2.AsyncClient(timeout=seconds) as client:
                yield client
    except (TimeoutError, httpx2.TimeoutException):
        raise TranscriptionFailed(f"no answer within {seconds:g} s") from None
    except httpx2.HTTPError as error:
        raise TranscriptionFailed(f"{type(error).__name__}: {error}") from None


async def _post(
    client: "httpx2.AsyncClient", url: str, *, headers: Mapping[str, str], **body: Any
) -> Any:
    async with client.stream("POST", url, headers=dict(headers), **body) as response:
        pieces = bytearray()
        async for piece in response.aiter_bytes():
            pieces += piece
            if len(pieces) > _ANSWER_BYTES:
                raise TranscriptionFailed("its answer is too long")
    try:
        import orjson

        answer = orjson.loads(bytes(pieces))
    except ValueError:
        answer = None
    if response.status_code != 200:
        raise TranscriptionFailed(f"HTTP {response.status_code}{_reason_in(answer)}")
    if answer is None:
        raise TranscriptionFailed("its answer is not JSON")
    return answer


def _reason_in(answer: Any) -> str:
    """What the provider says is wrong, in either's shape."""
    for place in (("error", "message"), ("err_msg",)):
        try:
            return f": {_text_at(answer, *place)[:200]}"
        except TranscriptionFailed:
            continue
    return ""


def _text_at(answer: Any, *place: str | int) -> str:
    for step in place:
        try:
            answer = answer[step]
        except (LookupError, TypeError):
            raise TranscriptionFailed("its answer has no transcript") from None
    if not isinstance(answer, str):
        raise TranscriptionFailed("its answer has no transcript")
    return answer
