"""Turns a recording into words. Runs in a process of its own, because decoders and engines may break.

usage: python -m openclaw.media.speech_worker ENGINE WEIGHTS PATH LANGUAGE

It prints a JSON object a line as it goes, {"text", "until", "of"} with seconds of the recording, or
{"error"}. LANGUAGE may be empty.
"""

import importlib
import json
import os
import sys
import wave
from collections.abc import Iterator
from typing import Any

SAMPLE_RATE = 16_000
_PIECE_SECONDS = 25  # the small recogniser was made for short utterances
_SEARCH_SECONDS = 5  # how far back from a piece's end a pause is looked for
_WINDOW = SAMPLE_RATE // 10


class Unreadable(Exception):
    """Raised when a recording cannot be decoded here."""


def decode(path: str) -> Any:
    with open(path, "rb") as file:  # noqa: PTH123 (nothing is imported here that need not be)
        is_wave = file.read(4) == b"RIFF"
    if is_wave:
        try:
            return _decode_wave(path)
        except (wave.Error, EOFError):
            pass  # not plain PCM: the general decoder may know it
    return _decode_any(path)


def _decode_wave(path: str) -> Any:
    np: Any = importlib.import_module("numpy")

    with wave.open(path, "rb") as file:
        width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
        raw = np.frombuffer(file.readframes(file.getnframes()), np.uint8)
    raw = raw[: len(raw) // (width * channels) * width * channels].reshape(-1, width)
    if width == 1:
        samples = (raw[:, 0].astype(np.float32) - 128) / 128
    else:
        wide = np.zeros((len(raw), 4), np.uint8)
        wide[:, 4 - width :] = raw  # little-endian: the high bytes are the last
        samples = wide.view("<i4")[:, 0].astype(np.float32) / 2**31
    return _resample(samples.reshape(-1, channels).mean(axis=1), rate)


def _resample(samples: Any, rate: int) -> Any:
    np: Any = importlib.import_module("numpy")

    if rate == SAMPLE_RATE or not len(samples):
        return samples.astype(np.float32)
    step = max(1, round(rate / SAMPLE_RATE))
    if step > 1:  # a plain low-pass, so that high tones do not fold into the speech
        samples = np.convolve(samples, np.ones(step) / step, mode="same")
    wanted = np.arange(0, len(samples), rate / SAMPLE_RATE)
    return np.interp(wanted, np.arange(len(samples)), samples).astype(np.float32)


def _decode_any(path: str) -> Any:
    np: Any = importlib.import_module("numpy")

    try:
        av: Any = importlib.import_module("av")
    except ImportError:
        raise Unreadable(
            "only plain WAV can be decoded here; install the extra `speech` or `whisper` for "
            "other formats"
        ) from None
    try:
        with av.open(path, mode="r", metadata_errors="ignore") as container:
            resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
            frames = (
                frame for got in container.decode(audio=0) for frame in resampler.resample(got)
            )
            pieces = [frame.to_ndarray().reshape(-1) for frame in frames]
    except (av.FFmpegError, IndexError) as error:
        raise Unreadable(f"it cannot be decoded ({error})") from None
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def pieces_of(samples: Any) -> Iterator[tuple[Any, int]]:
    np: Any = importlib.import_module("numpy")

    start, size = 0, _PIECE_SECONDS * SAMPLE_RATE
    while start < len(samples):
        end = min(start + size, len(samples))
        if end < len(samples):
            search = samples[end - _SEARCH_SECONDS * SAMPLE_RATE : end]
            loudness = np.abs(search).reshape(-1, _WINDOW).mean(axis=1)
            end += (int(loudness.argmin()) + 1) * _WINDOW - len(search)
        yield samples[start:end], end
        start = end


def moonshine(weights: str, samples: Any, language: str) -> Iterator[tuple[str, float]]:
    api: Any = importlib.import_module("moonshine_voice.moonshine_api")
    engine: Any = importlib.import_module("moonshine_voice.transcriber")
    with engine.Transcriber(model_path=weights, model_arch=api.ModelArch.BASE) as transcriber:
        for piece, end in pieces_of(samples):
            found = transcriber.transcribe_without_streaming(piece.tolist(), SAMPLE_RATE)
            yield " ".join(line.text for line in found.lines), end / SAMPLE_RATE


def whisper(weights: str, samples: Any, language: str) -> Iterator[tuple[str, float]]:
    library: Any = importlib.import_module("faster_whisper")
    model = library.WhisperModel(weights, device="cpu", compute_type="int8", local_files_only=True)
    segments, _ = model.transcribe(samples, language=language or None)
    for segment in segments:
        yield segment.text, segment.end


_ENGINES = {"moonshine": moonshine, "whisper": whisper}


def run(engine: str, weights: str, path: str, language: str) -> Iterator[dict[str, Any]]:
    try:
        samples = decode(path)
        seconds = len(samples) / SAMPLE_RATE
        if not seconds:
            yield {"error": "it has no sound in it"}
            return
        for text, until in _ENGINES[engine](weights, samples, language):
            yield {"text": text.strip(), "until": until, "of": seconds}
        yield {"text": "", "until": seconds, "of": seconds}
    except Exception as error:  # noqa: BLE001 (any failure of a decoder or an engine is an answer)
        plain = str(error).strip() if isinstance(error, Unreadable) else repr(error)
        yield {"error": plain[:300]}


def main(argv: list[str]) -> int:
    """Do what the arguments say, with a wire that no library's prints can reach."""
    wire = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in run(*argv):
        wire.write(json.dumps(line) + "\n")
        wire.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
