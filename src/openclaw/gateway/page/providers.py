"""Model providers and their keys, for setting them up on the page."""

from typing import Annotated

import anyio.to_thread
from pydantic import Field

from openclaw.config.load import load_config
from openclaw.config.secret_store import SecretStore
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.gateway.api.openapi import Json, operation
from openclaw.gateway.gateway import Gateway
from openclaw.gateway.owners import NOTHING
from openclaw.mcp_client.bounds import printable
from openclaw.models.choose import KnownProvider, known_providers, resolve
from openclaw.models.provider_check import KeyNotChecked, KeyRefused, Provider


@operation("GET /api/providers", NOTHING, {"providers": list[Json]})
async def list_providers(gateway: Gateway) -> Json:
    """Providers that need a key: their names, suggested models, and where to create a key."""
    known = [one for one in known_providers().values() if one.key_page]
    return {"providers": [_row(one) for one in known]}


def _row(one: KnownProvider) -> Json:
    model = f"{one.name}/{one.default_model}"
    return {
        "name": one.name,
        "model": model,
        "keyPage": one.key_page,
        "secret": one.key_variables[0],
    }


@operation("POST /api/providers/{name}/key", NOTHING)
async def store_provider_key(
    gateway: Gateway, name: str, *, key: Annotated[str, Field(min_length=1, max_length=4096)]
) -> Json:
    """Check a provider's key, and store it as a secret; says whether it could be checked."""
    known = known_providers().get(name)
    if known is None or not known.key_page:
        raise NotFound(f"there is no provider '{name}' that needs a key")
    gateway.backend.redactor.register(key)
    loaded = await anyio.to_thread.run_sync(load_config, gateway.config_path, gateway.environ)
    ref = f"{name}/{known.default_model}"
    candidate = resolve(ref, loaded.config.models.providers, gateway.environ)
    unchecked = None
    try:
        await Provider(candidate, key, gateway.environ).check_key()
    except KeyRefused as error:
        refusal = gateway.redact(printable(str(error)))
        raise InvalidRequest(f"was refused by the provider: {refusal}", field="key") from None
    except KeyNotChecked as error:
        unchecked = gateway.redact(printable(str(error)))
    secret = known.key_variables[0]
    await anyio.to_thread.run_sync(SecretStore(gateway.environ).set, secret, key)
    return {"reference": f"secret://store/{secret}", "unchecked": unchecked, **_row(known)}
