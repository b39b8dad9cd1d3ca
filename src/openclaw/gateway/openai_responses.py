"""`POST /v1/responses`."""

from typing import Any

from starlette.requests import Request

from openclaw.core.errors import InvalidRequest
from openclaw.gateway.state import Gateway


async def responses(gateway: Gateway, request: Request) -> Any:
    """One turn."""
    raise InvalidRequest("not yet")
