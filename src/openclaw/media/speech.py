"""Which provider of speech to text is taken, as the configuration says."""

from collections.abc import Awaitable, Callable, Mapping

from openclaw.config.schema import ProviderConfig, TranscriptionConfig
from openclaw.media.speech_cloud import CloudSettings, DeepgramProvider, OpenAiProvider
from openclaw.media.speech_local import find_moonshine, find_whisper
from openclaw.media.transcription import FirstAvailable, NoTranscriber, Provider, Transcriber
from openclaw.secrets.secret import Secret

ResolveText = Callable[[str], Awaitable[Secret]]

_NEEDED = {
    "local": "neither Whisper with weights in its cache nor the extra `speech` is installed",
    "openai": "OPENAI_API_KEY or media.transcription.apiKey is not set",
    "deepgram": "DEEPGRAM_API_KEY or media.transcription.apiKey is not set",
}


class Speech:
    """Finds each provider where it is there."""

    def __init__(
        self,
        settings: TranscriptionConfig,
        openai: ProviderConfig | None,
        environ: Mapping[str, str],
        resolve: ResolveText,
    ) -> None:
        self._settings = settings
        self._openai = openai
        self._environ = environ
        self._resolve = resolve
        self._seconds = settings.timeout_ms / 1000

    def transcriber(self) -> Transcriber:
        """The one that is asked for; `auto` is the first that is there."""
        wanted = self._settings.provider
        finders = {
            "local": (self._whisper, self._moonshine),
            "openai": (self._openai_provider,),
            "deepgram": (self._deepgram,),
        }
        if wanted == "off":
            return NoTranscriber()
        if wanted == "auto":
            return FirstAvailable([find for group in finders.values() for find in group])
        return FirstAvailable(finders[wanted], f"not transcribed: {_NEEDED[wanted]}")

    async def _whisper(self) -> Provider | None:
        settings = self._settings
        return find_whisper(settings.model, settings.language, self._seconds, self._environ)

    async def _moonshine(self) -> Provider | None:
        return find_moonshine(self._settings.language, self._seconds)

    async def _openai_provider(self) -> Provider | None:
        own, shared = self._settings, self._openai
        key = own.api_key or (shared and shared.api_key) or self._variable("OPENAI_API_KEY")
        if not key:
            return None
        return OpenAiProvider(await self._cloud(key, own.base_url or (shared and shared.base_url)))

    async def _deepgram(self) -> Provider | None:
        own = self._settings
        # With `auto`, key and address are OpenAI's, which comes first.
        mine = own.provider == "deepgram"
        key = (own.api_key if mine else None) or self._variable("DEEPGRAM_API_KEY")
        if not key:
            return None
        return DeepgramProvider(await self._cloud(key, own.base_url if mine else None))

    async def _cloud(self, key: str, base_url: str | None) -> CloudSettings:
        own = self._settings
        # With `auto`, the model's name is Whisper's.
        model = None if own.provider == "auto" else own.model
        return CloudSettings(await self._resolve(key), base_url, model, own.language, self._seconds)

    def _variable(self, name: str) -> str | None:
        # A reference, so that the value is known to the redactor before anyone else has it.
        return f"secret://env/{name}" if self._environ.get(name) else None
