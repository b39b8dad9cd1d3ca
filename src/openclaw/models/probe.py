"""Whether a local Ollama answers, asked briefly."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

DEFAULT_OLLAMA = "http://127.0.0.1:11434"
PROBE_SECONDS = 0.5
"""Long enough for a process on this machine, short enough not to be felt where there is none."""


def ollama_url(environ: Mapping[str, str]) -> str:
    """Where Ollama would be, as `OLLAMA_HOST` says: an address with or without scheme and port."""
    host = environ.get("OLLAMA_HOST", "").strip().rstrip("/")
    if not host:
        return DEFAULT_OLLAMA
    if "://" not in host:
        host = f"http://{host}"
    scheme, _, rest = host.partition("://")
    # A server that listens on every interface is reached on loopback.
    name, colon, port = rest.partition(":")
    name = "127.0.0.1" if name in ("", "0.0.0.0") else name  # noqa: S104 - read, not bound
    return f"{scheme}://{name}{colon}{port}" if colon else f"{scheme}://{name}:11434"


async def ollama_models(url: str) -> Sequence[str]:
    """The models that the Ollama at `url` has; none where nothing answers in time."""
    import httpx2

    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=PROBE_SECONDS) as client:
            answer = await client.get(f"{url}/api/tags")
            body: Any = json.loads(answer.content)
            return [str(model["name"]) for model in body["models"]]
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, KeyError, TypeError):
        return []
