"""The models of every agent, built once and shared between turns."""

from collections.abc import Iterable, Mapping
from importlib import import_module

import anyio

from openclaw.config.agent_schema import ModelChoice, ProviderConfig
from openclaw.core.clock import Clock
from openclaw.models.build import Built, LocalBuilder, ModelBuilder, Resolver, SearchMode
from openclaw.models.choose import Candidate, Choice, Probe, choose, ollama_models
from openclaw.models.stack import ModelStack

_Key = tuple[tuple[str, ...], float | None, str | None]


class ModelFactory:
    """Hands out the stack of models for a choice; the same choice gives the same stack."""

    def __init__(
        self,
        *,
        providers: Mapping[str, ProviderConfig],
        resolver: Resolver,
        environ: Mapping[str, str],
        clock: Clock,
        local: LocalBuilder | None = None,
        probe: Probe = ollama_models,
        search: SearchMode = "auto",
    ) -> None:
        self._providers = providers
        self._environ = environ
        self._clock = clock
        self._probe = probe
        self._builder = ModelBuilder(resolver=resolver, environ=environ, local=local, search=search)
        self._stacks: dict[_Key, ModelStack] = {}
        self._lock = anyio.Lock()

    async def choice(self, model: ModelChoice | None) -> Choice:
        """What would be asked, without asking it."""
        return await choose(model, self._providers, self._environ, probe=self._probe)

    async def stack(
        self,
        model: ModelChoice | None,
        *,
        temperature: float | None = None,
        thinking: str | None = None,
    ) -> ModelStack:
        """The models of this choice; `thinking` is the effort, where they have one."""
        key = ((model.primary, *model.fallbacks) if model else (), temperature, thinking)
        async with self._lock:
            if key not in self._stacks:

                async def build(candidate: Candidate) -> Built:
                    return await self._builder.build(
                        candidate, temperature=temperature, thinking=thinking
                    )

                chosen = await self.choice(model)
                self._stacks[key] = ModelStack(chosen, build, clock=self._clock)
            return self._stacks[key]

    async def aclose(self) -> None:
        stacks, self._stacks = self._stacks, {}
        for stack in stacks.values():
            await stack.aclose()


_LIBRARIES = {
    "openai-completions": ("openai", "pydantic_ai.models.openai", "pydantic_ai.providers.openai"),
    "openai-responses": ("openai", "pydantic_ai.models.openai", "pydantic_ai.providers.openai"),
    "anthropic-messages": (
        "anthropic",
        "pydantic_ai.models.anthropic",
        "pydantic_ai.providers.anthropic",
    ),
}


def preload(apis: Iterable[str]) -> None:
    """Import what speaks these interfaces; for a thread of its own, so that nobody waits for it."""
    for name in ("pydantic_ai", *(name for api in apis for name in _LIBRARIES.get(api, ()))):
        import_module(name)
