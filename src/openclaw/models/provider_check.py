"""What a provider says about itself: whether it accepts a key, and which models it has."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from openclaw.config.agent_schema import ProviderConfig
from openclaw.config.consistency import suggest
from openclaw.config.json5 import KeyPath
from openclaw.core.errors import ModelUnavailable, OpenClawError, describe
from openclaw.embedded.weights import CATALOGUE, WeightStore
from openclaw.models.choose import LOCAL_PROVIDER, Candidate, resolve
from openclaw.net.http_request import get

if TYPE_CHECKING:
    from openclaw.secrets.resolver import SecretResolver

_PATHS = {"anthropic-messages": "/v1/models", "google-generative-ai": "/v1beta/models"}
_ALL = {"anthropic-messages": "?limit=1000", "google-generative-ai": "?pageSize=1000"}
_OTHERS = "/models"
_GOOGLE = "google-generative-ai"
_ANTHROPIC_VERSION = "2026-10-21"
_SECONDS = 20.0
_LISTING_SECONDS = 5.0  # a person waits, and the answer only spares them a later error
_REFUSED = (400, 401, 403)
_MESSAGE_CHARS = 200


class KeyRefused(Exception):
    """Raised when the provider says that it does not know the key."""


class KeyNotChecked(Exception):
    """Raised when a key could not be checked, such as without a network; `status` is the answer's."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a model is served. Its methods raise `KeyRefused` or `KeyNotChecked`."""

    candidate: Candidate
    key: str | None
    environ: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    async def check_key(self) -> None:
        path = _PATHS.get(self.candidate.api, _OTHERS)
        if self.candidate.provider == "openrouter":
            path = "/key"  # its list of models is public
        await self._ask(path, _SECONDS)

    async def models(self, seconds: float = _SECONDS) -> tuple[str, ...]:
        api = self.candidate.api
        content = await self._ask(f"{_PATHS.get(api, _OTHERS)}{_ALL.get(api, '')}", seconds)
        try:
            body: Any = json.loads(content)
            if api == _GOOGLE:
                return tuple(str(one["name"]).removeprefix("models/") for one in body["models"])
            return tuple(str(one["id"]) for one in body["data"])
        except (ValueError, KeyError, TypeError):
            raise KeyNotChecked("its answer is not a list of models") from None

    async def _ask(self, path: str, seconds: float) -> bytes:
        api, headers, key = self.candidate.api, dict(self.headers), self.key
        if key is not None:
            headers |= (
                {"x-goog-api-key": key} if api == _GOOGLE else {"Authorization": f"Bearer {key}"}
            )
        if api == "anthropic-messages":
            headers["anthropic-version"] = _ANTHROPIC_VERSION
        try:
            status, content = await get(
                self.candidate.server_url + path, headers, self.environ, seconds
            )
        except (OSError, ValueError) as error:
            raise KeyNotChecked(str(error) or type(error).__name__) from error
        answer = f"HTTP {status}{_said(content)}"
        if status in _REFUSED:
            raise KeyRefused(answer)
        if not 200 <= status < 300:
            raise KeyNotChecked(answer, status)
        return content


def _said(content: bytes) -> str:
    try:
        body: Any = json.loads(content)
        error = body["error"]
        return f": {error if isinstance(error, str) else error['message']}"[:_MESSAGE_CHARS]
    except (ValueError, KeyError, TypeError):
        return ""


def models_named(path: KeyPath, value: Any) -> list[str]:
    """The models that a configuration change names: this value at this path."""
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value).items()
        return [ref for key, one in inner for ref in models_named((*path, key), one)]
    if isinstance(value, list) and path[-1:] == ("fallbacks",):
        return [str(one) for one in cast("list[Any]", value)]
    named = path[:1] == ("agents",) and (
        path[-1] == "model" or path[-2:] in (("model", "primary"), ("model", "fallbacks"))
    )
    return [value] if named and isinstance(value, str) and value else []


async def model_problem(
    ref: str,
    providers: Mapping[str, ProviderConfig],
    resolver: "SecretResolver",
    environ: Mapping[str, str],
    weights: Path,
) -> str | None:
    """Why there is no such model, as a sentence; None if there is, or if it cannot be checked."""
    try:
        candidate = resolve(ref, providers, environ)
        config = providers.get(candidate.provider)
        configured = [one.id for one in config.models] if config else []
        if candidate.model in configured or ("/" in candidate.model and candidate.api == "local"):
            return None
        names = await _names(candidate, resolver, environ, weights)
    except ModelUnavailable as error:
        return describe(error)
    except (KeyRefused, KeyNotChecked, OpenClawError):
        return None
    if not names or _is_among(candidate.model, names):
        return None
    if near := suggest(candidate.model, [*names, *configured]):
        advice = f"did you mean {candidate.provider}/{near}?"
    else:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        advice = f"it has {', '.join(names[:5])}{more}"
    return f"there is no model {candidate.model!r} at {candidate.provider}; {advice}"


async def _names(
    candidate: Candidate, resolver: "SecretResolver", environ: Mapping[str, str], weights: Path
) -> tuple[str, ...]:
    if candidate.provider == LOCAL_PROVIDER:
        return tuple(one.name for one in (*CATALOGUE, *WeightStore(weights).own()))
    key, headers = await candidate.credentials(resolver)
    return await Provider(candidate, key, environ, headers).models(_LISTING_SECONDS)


def _is_among(model: str, names: Iterable[str]) -> bool:
    """Whether one of them is meant, ignoring its date, its tag or a router's suffix after a colon."""
    plain = model.partition(":")[0].removesuffix("-latest")
    return any(
        name in (model, plain) or name.startswith((f"{plain}-2", f"{plain}:latest"))
        for name in names
    )
