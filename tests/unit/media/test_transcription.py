"""Which provider is taken, what it is sent, and what its failures become."""

import importlib
import io
import sys
import wave
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.speech_service import SpeechService, speech_service

from openclaw.config.agent_schema import ProviderConfig
from openclaw.config.schema import TranscriptionConfig
from openclaw.core.errors import SecretUnavailable
from openclaw.media import parse_worker, transcription
from openclaw.media.documents import Extracted
from openclaw.media.transcription import (
    NOT_SET_UP,
    LocalProvider,
    Speech,
    TranscriptionFailed,
    whisper_weights,
)
from openclaw.secrets.refs import Secret

CARRIER = find_spec("moonshine_cpp")
KEY = "speech-key-0123456789"


def tone(path: Path, seconds: float = 0.5, *, rate: int = 8_000, channels: int = 1) -> Path:
    """A plain WAV of a tone, 16 bits."""
    beat = np.arange(int(seconds * rate))
    samples = (np.sin(beat * 2 * np.pi * 440 / rate) * 20_000).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.repeat(samples, channels).tobytes())
    return path


def speech(
    environ: Mapping[str, str] | None = None,
    openai: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Speech:
    given = {"HOME": "/nowhere", **(environ or {})}

    async def resolve(text: str) -> Secret:
        scheme = "secret://env/"
        if text.startswith(scheme) and text.removeprefix(scheme) not in given:
            raise SecretUnavailable(text, "is not set")
        return Secret(given[text.removeprefix(scheme)] if text.startswith(scheme) else text)

    provider = None if openai is None else ProviderConfig.model_validate(openai)
    return Speech(TranscriptionConfig.model_validate(settings), provider, given, resolve)


@pytest.fixture
def nothing_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the extras."""
    monkeypatch.setattr(transcription, "find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return tone(tmp_path / "a.wav")


@pytest.mark.usefixtures("nothing_local")
class TestChoice:
    async def test_without_anything_the_recording_gets_a_note(self, recording: Path) -> None:
        transcript = await speech().transcribe(recording, "audio/wav")
        assert transcript == Extracted(note=NOT_SET_UP)

    async def test_switched_off_it_is_off_also_where_a_key_is_there(self, recording: Path) -> None:
        off = speech({"OPENAI_API_KEY": KEY}, provider="off")
        assert await off.transcribe(recording, "audio/wav") == Extracted(note=NOT_SET_UP)

    @pytest.mark.parametrize("provider", ["local", "openai", "deepgram"])
    async def test_a_provider_that_is_asked_for_and_not_there_is_named(
        self, recording: Path, provider: str
    ) -> None:
        chosen = speech(provider=provider)
        note = (await chosen.transcribe(recording, "audio/wav")).note
        assert note is not None
        assert note.startswith("not transcribed: ")
        assert {"local": "Whisper", "openai": "OPENAI_API_KEY", "deepgram": "DEEPGRAM_API_KEY"}[
            provider
        ] in note

    async def test_openai_comes_before_deepgram(self, recording: Path) -> None:
        with speech_service(KEY, "Good morning.") as service:
            keys = {"OPENAI_API_KEY": KEY, "DEEPGRAM_API_KEY": KEY}
            auto = speech(keys, {"baseUrl": f"{service.url}/v1"})
            transcript = await auto.transcribe(recording, "audio/wav")
        assert transcript == Extracted("Good morning.", "transcribed by OpenAI")
        assert [one.api for one in service.requests] == ["openai"]

    async def test_a_key_that_cannot_be_had_is_a_note(self, recording: Path) -> None:
        chosen = speech(provider="openai", apiKey="secret://env/MISSING")
        note = (await chosen.transcribe(recording, "audio/wav")).note
        assert note is not None
        assert "MISSING" in note


class TestCloud:
    @pytest.fixture
    def service(self):
        with speech_service(KEY, " Good morning. ") as service:
            yield service

    async def test_openai_is_sent_the_file_with_model_and_language(
        self, service: SpeechService, recording: Path
    ) -> None:
        chosen = speech(
            provider="openai",
            apiKey=KEY,
            baseUrl=f"{service.url}/v1/",
            model="whisper-1",
            language="en",
        )
        transcript = await chosen.transcribe(recording, "audio/wav")
        assert transcript.text == "Good morning."
        [sent] = service.requests
        assert sent.data == recording.read_bytes()
        assert sent.mime_type == "audio/wav"
        assert sent.fields == {"model": "whisper-1", "response_format": "json", "language": "en"}

    async def test_deepgram_is_sent_the_bytes_and_asked_to_detect_the_language(
        self, service: SpeechService, recording: Path
    ) -> None:
        environ = {"DEEPGRAM_API_KEY": KEY}
        chosen = speech(environ, provider="deepgram", baseUrl=service.url)
        transcript = await chosen.transcribe(recording, "audio/wav")
        assert transcript == Extracted("Good morning.", "transcribed by Deepgram")
        [sent] = service.requests
        assert sent.data == recording.read_bytes()
        assert sent.fields["model"] == "nova-3"
        assert sent.fields["detect_language"] == "true"

    @pytest.mark.parametrize("provider", ["openai", "deepgram"])
    async def test_a_refused_key_is_a_note_in_the_providers_words(
        self, service: SpeechService, recording: Path, provider: str
    ) -> None:
        base = f"{service.url}/v1" if provider == "openai" else service.url
        chosen = speech(provider=provider, apiKey="wrong", baseUrl=base)
        transcript = await chosen.transcribe(recording, "audio/wav")
        assert transcript.text is None
        assert transcript.note is not None
        assert "HTTP 401: In" in transcript.note
        assert "wrong" not in transcript.note

    @pytest.mark.parametrize("provider", ["openai", "deepgram"])
    async def test_an_answer_that_makes_no_sense_is_a_note(
        self, service: SpeechService, recording: Path, provider: str
    ) -> None:
        service.broken = True
        chosen = speech(provider=provider, apiKey=KEY, baseUrl=service.url)
        note = (await chosen.transcribe(recording, "audio/wav")).note
        assert note is not None
        assert note.endswith("its answer is not JSON")

    async def test_silence_is_said_to_be_silence(
        self, service: SpeechService, recording: Path
    ) -> None:
        service.words = ""
        chosen = speech(provider="deepgram", apiKey=KEY, baseUrl=service.url)
        transcript = await chosen.transcribe(recording, "audio/wav")
        assert transcript == Extracted(note="Deepgram heard no words in it")

    async def test_a_service_that_is_not_there_is_a_note(self, recording: Path) -> None:
        with speech_service() as gone:
            pass
        chosen = speech(provider="openai", apiKey=KEY, baseUrl=gone.url)
        note = (await chosen.transcribe(recording, "audio/wav")).note
        assert note is not None
        assert note.startswith("not transcribed: OpenAI: ConnectError")


class TestWhisperWeights:
    def cached(self, hub: Path, repository: str) -> Path:
        snapshot = hub / f"models--{repository.replace('/', '--')}" / "snapshots" / "0a1b"
        snapshot.mkdir(parents=True)
        (snapshot / "model.bin").touch()
        return snapshot

    def test_a_directory_with_weights_is_taken_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "model.bin").touch()
        assert whisper_weights(str(tmp_path), {}) == tmp_path

    def test_a_name_is_looked_up_in_the_cache_only(self, tmp_path: Path) -> None:
        small = self.cached(tmp_path, "Systran/faster-whisper-small")
        environ = {"HF_HUB_CACHE": str(tmp_path)}
        assert whisper_weights("small", environ) == small
        assert whisper_weights("Systran/faster-whisper-small", environ) == small
        assert whisper_weights("large-v3", environ) is None

    def test_without_a_name_the_preferred_of_what_is_cached_is_taken(self, tmp_path: Path) -> None:
        hub = tmp_path / ".cache" / "huggingface" / "hub"
        self.cached(hub, "Systran/faster-whisper-tiny")
        base = self.cached(hub, "Systran/faster-whisper-base")
        assert whisper_weights(None, {"HOME": str(tmp_path)}) == base
        assert whisper_weights(None, {"HF_HOME": str(tmp_path / "empty")}) is None

    async def test_whisper_comes_first_and_weights_that_are_broken_are_a_note(
        self, tmp_path: Path, recording: Path
    ) -> None:
        self.cached(tmp_path, "Systran/faster-whisper-base")
        auto = speech({"HF_HUB_CACHE": str(tmp_path)})
        note = (await auto.transcribe(recording, "audio/wav")).note
        assert note is not None
        assert note.startswith("not transcribed: Whisper: ")


class TestDecoding:
    @pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (16_000, 2), (44_100, 2)])
    def test_a_wave_becomes_one_channel_at_16_khz(
        self, tmp_path: Path, rate: int, channels: int
    ) -> None:
        samples = parse_worker.decode(str(tone(tmp_path / "a.wav", rate=rate, channels=channels)))
        assert abs(len(samples) - 8_000) <= 1
        assert 0.5 < samples.max() < 0.7
        crossings = np.count_nonzero(np.diff(samples > 0))
        assert abs(crossings - 440) < 10  # the tone is still the tone

    @pytest.mark.parametrize("width", [1, 3, 4])
    def test_every_width_of_sample_is_read(self, tmp_path: Path, width: int) -> None:
        path = tmp_path / "a.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(width)
            file.setframerate(16_000)
            high = {1: b"\xc0", 3: b"\x00\x00\x40", 4: b"\x00\x00\x00\x40"}[width]
            file.writeframes(high * 100)
        assert np.allclose(parse_worker.decode(str(path)), 0.5)

    @pytest.mark.parametrize("codec", ["flac", "mp3", "ogg", "adts", "ipod", "f32"])
    def test_other_formats_are_read(self, tmp_path: Path, codec: str) -> None:
        samples = parse_worker.decode(str(encoded(tmp_path, codec)))
        assert 7_000 < len(samples) < 10_000
        assert samples.max() > 0.4

    def test_without_a_decoder_that_is_said(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = encoded(tmp_path, "flac")
        monkeypatch.setitem(sys.modules, "av", None)
        [answer] = parse_worker.answers("speech", "moonshine", "", str(path), "")
        assert answer["error"].startswith("no decoder is installed")

    def test_what_is_no_recording_is_said_to_be_none(self, tmp_path: Path) -> None:
        path = tmp_path / "a.mp3"
        path.write_bytes(b"ID3\x03" + b"\0" * 500)
        [answer] = parse_worker.answers("speech", "moonshine", "", str(path), "")
        assert answer["error"].startswith("it cannot be decoded")

    def test_a_recording_without_sound_is_said_to_have_none(self, tmp_path: Path) -> None:
        [answer] = parse_worker.answers(
            "speech", "moonshine", "", str(tone(tmp_path / "a.wav", 0)), ""
        )
        assert answer["error"] == "it has no sound in it"

    def test_a_long_recording_is_cut_at_its_pauses(self) -> None:
        rate = parse_worker.SAMPLE_RATE
        samples = np.ones(60 * rate, np.float32)
        samples[int(22.0 * rate) : int(22.3 * rate)] = 0
        pieces = list(parse_worker.pieces_of(samples))
        assert 22.0 * rate <= pieces[0][1] <= 22.3 * rate
        assert sum(len(piece) for piece, _ in pieces) == len(samples)
        assert pieces[-1][1] == len(samples)
        assert all(len(piece) <= 25 * rate for piece, _ in pieces)


def encoded(directory: Path, codec: str) -> Path:
    """Half a second of a tone in another format."""
    av: Any = importlib.import_module("av")

    path = directory / "a"
    names = {"flac": "flac", "mp3": "libmp3lame", "ogg": "libopus", "adts": "aac", "ipod": "aac"}
    container_name = "wav" if codec == "f32" else codec
    target = io.BytesIO()
    with av.open(target, "w", format=container_name) as container:
        stream = container.add_stream(names.get(codec, "pcm_f32le"), rate=48_000)
        stream.layout = "mono"
        beat = np.arange(24_000)
        samples = (np.sin(beat * 2 * np.pi * 440 / 48_000) * 0.6).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="flt", layout="mono")
        frame.sample_rate = 48_000
        resampler = av.AudioResampler(stream.format, "mono", 48_000, stream.frame_size or 1024)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    path.write_bytes(target.getvalue())
    return path


@pytest.mark.subprocess
@pytest.mark.skipif(CARRIER is None, reason="the extra `speech` is not installed")
class TestMoonshine:
    async def test_spoken_words_are_understood(self, tmp_path: Path) -> None:
        assert CARRIER is not None
        assert CARRIER.origin is not None
        whole = Path(CARRIER.origin).parent / "test-data" / "beckett.wav"
        path = tmp_path / "a.wav"
        with wave.open(str(whole), "rb") as source, wave.open(str(path), "wb") as target:
            target.setparams(source.getparams())
            target.writeframes(source.readframes(int(source.getframerate() * 1.6)))
        transcript = await speech(provider="local").transcribe(path, "audio/wav")
        assert transcript == Extracted("Ever tried.", "transcribed by Moonshine (English)")

    async def test_another_language_is_not_guessed_at(self, recording: Path) -> None:
        chosen = speech(provider="local", language="de")
        note = (await chosen.transcribe(recording, "audio/wav")).note
        assert note is not None
        assert note.startswith("not transcribed: neither ")

    async def test_what_was_heard_until_time_ran_out_is_kept(self) -> None:
        lines = [
            {"text": "One.", "until": 20.0, "of": 60.0},
            {"text": "Two.", "until": 41, "of": 60},
        ]
        transcript = transcription._transcript(lines, 9)
        assert transcript.text == "One. Two."
        assert transcript.note == "only the first 41 of 60 s (that is all it could do in 9 s)"

    @pytest.mark.parametrize("printed", [b"[]\n", b"x\n", b'{"text": 1}\n', b"a" * (5 << 20)])
    async def test_an_engine_that_prints_nonsense_has_failed(
        self, printed: bytes, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "printed").write_bytes(printed)
        worker = tmp_path / "worker"
        worker.write_text(f"#!/bin/sh\nexec /bin/cat '{tmp_path}/printed'\n")
        worker.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(worker))
        engine = LocalProvider("moonshine", Path("/nowhere"), None, seconds=60)
        with pytest.raises(TranscriptionFailed, match="the engine printed"):
            await engine.transcribe(recording, "audio/wav")

    async def test_a_worker_that_is_too_slow_is_ended(self, recording: Path) -> None:
        slow = LocalProvider("moonshine", Path("/nowhere"), None, seconds=0.01)
        with pytest.raises(TranscriptionFailed, match="took longer than"):
            await slow.transcribe(recording, "audio/wav")
