"""Errors in the shape that OpenAI's clients read."""

import logging
from typing import Any

from starlette.responses import JSONResponse

from openclaw.core.errors import Busy, InvalidRequest, NotFound, OpenClawError, UserFacing
from openclaw.core.wire import describe, http_status

logger = logging.getLogger(__name__)


def error_body(error: BaseException) -> dict[str, Any]:
    """`{"error": {…}}`; what we did not foresee is logged and says no more."""
    if not isinstance(error, OpenClawError):
        logger.error("a request failed", exc_info=error)
    message = (
        describe(error)
        if isinstance(error, OpenClawError)
        else f"unexpected {type(error).__name__}; see the gateway's log"
    )
    return {
        "error": {
            "message": message,
            "type": _kind(error),
            "param": error.field if isinstance(error, InvalidRequest) else None,
            "code": "not_found" if isinstance(error, NotFound) else None,
        }
    }


def _kind(error: BaseException) -> str:
    if isinstance(error, Busy):
        return "rate_limit_error"
    return "invalid_request_error" if isinstance(error, UserFacing) else "server_error"


def error_response(error: BaseException) -> JSONResponse:
    """The whole answer."""
    headers = {"retry-after": str(int(error.retry_after) + 1)} if isinstance(error, Busy) else None
    return JSONResponse(error_body(error), http_status(error), headers)
