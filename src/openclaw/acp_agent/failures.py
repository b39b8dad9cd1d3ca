"""What goes wrong, as the protocol's errors."""

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from acp import RequestError

from openclaw.core.errors import OpenClawError
from openclaw.core.wire import JSONRPC_INTERNAL, describe, jsonrpc_code

logger = logging.getLogger(__name__)

_NOT_FOUND = -32002  # the protocol's own code for a resource that does not exist

P = ParamSpec("P")
R = TypeVar("R")


def no_such_session(session_id: str) -> RequestError:
    """The answer to a session that is not there."""
    return RequestError(_NOT_FOUND, f"there is no session '{session_id}'")


def as_protocol_errors(method: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """A method whose failures reach the client in words, without a traceback."""

    @functools.wraps(method)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await method(*args, **kwargs)
        except RequestError:
            raise
        except OpenClawError as error:
            raise RequestError(jsonrpc_code(error), describe(error)) from error
        except Exception as error:
            logger.exception("a request failed")
            told = f"unexpected {type(error).__name__}; see the agent's log"
            raise RequestError(JSONRPC_INTERNAL, told) from error

    return guarded
