"""The OpenAPI document."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openclaw.gateway.state import Gateway


async def openapi(gateway: Gateway, request: Request) -> Response:
    """This document."""
    return JSONResponse({"openapi": "3.1.0"})
