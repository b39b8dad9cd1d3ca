"""What counts as a fault of the connection, whatever the driver raises for it."""

import asyncpg
import pytest

from openclaw.sessions.postgres.pool import is_lost, is_of_driver, is_transient, translated
from openclaw.sessions.records import StoreError


def _raised(code: str, module: str) -> BaseException:
    try:
        exec(code, {"__name__": module, "asyncpg": asyncpg})  # as if that module had
    except (AssertionError, asyncpg.InternalClientError, TimeoutError) as error:
        return error
    raise AssertionError("it raised nothing")


@pytest.mark.parametrize(
    "code", ["assert False", "raise asyncpg.InternalClientError('odd')", "raise TimeoutError"]
)
def test_what_the_driver_raises_on_a_cut_connection_is_tried_again(code: str) -> None:
    error = _raised(code, "asyncpg.protocol.protocol")
    assert is_of_driver(error)
    assert is_lost(error)
    assert is_transient(error)
    with pytest.raises(StoreError), translated("here"):
        raise error


def test_an_assertion_of_our_own_is_no_fault_of_the_connection() -> None:
    ours = _raised("assert False", "openclaw.sessions")
    assert not is_of_driver(ours)
    assert not is_of_driver(AssertionError("raised nowhere"))
    with pytest.raises(AssertionError), translated("here"):
        raise ours
