"""Facts about models for `openclaw models list` and `status`: read from configuration, asking nobody."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openclaw.config.agent_schema import ModelChoice, ProviderConfig
from openclaw.core.errors import ModelUnavailable
from openclaw.models.candidates import KNOWN_PROVIDERS, LOCAL_PROVIDER, Candidate
from openclaw.models.choose import Probe, choose, resolve
from openclaw.models.probe import ollama_models


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model as a listing shows it. `ready` says whether what it needs is there; never a key."""

    ref: str
    api: str
    address: str | None
    context_window: int | None
    accepts: tuple[str, ...]
    ready: bool
    needs: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceFacts:
    """Which models an agent would ask, in order, and why."""

    reason: str
    models: tuple[ModelFacts, ...]
    problem: str | None = None


async def describe_choice(
    choice: ModelChoice | None,
    providers: Mapping[str, ProviderConfig],
    environ: Mapping[str, str],
    *,
    probe: Probe = ollama_models,
) -> ChoiceFacts:
    """What `choose` would choose, in facts; a choice that cannot be made is told as a problem."""
    try:
        chosen = await choose(choice, providers, environ, probe=probe)
    except ModelUnavailable as error:
        hint = f" ({error.hint})" if error.hint else ""
        return ChoiceFacts("configured", (), f"{error.message}{hint}")
    return ChoiceFacts(chosen.reason, tuple(map(facts_of, chosen.candidates)))


def facts_of(candidate: Candidate) -> ModelFacts:
    """A candidate in facts."""
    lacks_key = bool(candidate.key_hint) and not candidate.api_key
    return ModelFacts(
        ref=candidate.ref,
        api=candidate.api,
        address=candidate.base_url,
        context_window=candidate.context_window,
        accepts=tuple(sorted(candidate.accepts, reverse=True)),
        ready=not lacks_key,
        needs=f"set {candidate.key_hint}" if lacks_key else "",
    )


def list_models(
    providers: Mapping[str, ProviderConfig], environ: Mapping[str, str]
) -> Sequence[ModelFacts]:
    """Every model that is configured, and the default model of each built-in provider."""
    refs = [f"{name}/{entry.id}" for name, one in providers.items() for entry in one.models]
    refs.extend(
        f"{known.name}/{known.default_model}"
        for known in KNOWN_PROVIDERS.values()
        if known.default_model
    )
    wanted = (ref for ref in dict.fromkeys(refs) if not ref.startswith(f"{LOCAL_PROVIDER}/"))
    return [facts_of(resolve(ref, providers, environ)) for ref in wanted]
