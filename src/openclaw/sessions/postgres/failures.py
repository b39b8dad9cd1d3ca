"""What PostgreSQL's failures mean to whoever runs the program."""

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openclaw.core.errors import MissingExtra
from openclaw.sessions.errors import StoreError, StoreFull, StoreReadOnly, StoreUnavailable

if TYPE_CHECKING:
    import asyncpg

_LOST = ("08", "57P01", "57P02", "57P03", "57P05", "25P03")
"""Codes of a connection that is gone, of a server that stops or starts, and of one that hung up."""

_TRY_AGAIN = ("40P01", "40001", "53300")
"""Two transactions in each other's way; too many connections at this moment."""


def require_driver() -> None:
    """Raise `MissingExtra` where the database driver is not installed."""
    try:
        import asyncpg as _  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise MissingExtra("a session store on PostgreSQL", "postgres") from error


def is_of_driver(error: BaseException) -> bool:
    """True where the driver, the server or the network raised it.

    On a connection that is cut in the wrong moment, the driver also fails in its own assertions.
    """
    import asyncpg

    kinds = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
    return isinstance(error, kinds) or (isinstance(error, AssertionError) and _in_driver(error))


def _in_driver(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return str(module).partition(".")[0] == "asyncpg"


def is_lost(error: BaseException) -> bool:
    """True where the connection failed and not what was asked: another one may work."""
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        return _code(error).startswith(_LOST)
    if isinstance(error, ssl.SSLCertVerificationError | asyncpg.ClientConfigurationError):
        return False
    return is_of_driver(error)


def is_passing(error: BaseException) -> bool:
    """True where the same may well succeed when it is tried again."""
    import asyncpg

    if isinstance(error, asyncpg.PostgresError) and _code(error) in _TRY_AGAIN:
        return True
    return is_lost(error)


def explain(error: BaseException, place: str) -> StoreError:
    """The error of ours that says what happened to the store at `place` and what mends it."""
    import asyncpg

    where = f"the session store on PostgreSQL ({place})"
    if isinstance(error, asyncpg.PostgresError):
        return _explain_code(_code(error), where, error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreUnavailable(
            f"the certificate of {where} is not trusted: {error.verify_message}",
            hint="add ?sslrootcert=FILE with your own authority, or choose another sslmode",
        )
    if isinstance(error, TimeoutError):
        return StoreUnavailable(f"{where} did not answer in time")
    if isinstance(error, OSError):
        return StoreUnavailable(f"{where} cannot be reached: {error.strerror or 'no connection'}")
    if isinstance(error, asyncpg.ClientConfigurationError):
        return StoreUnavailable(f"the address of {where} is not understood")
    # A message of the driver itself may repeat parts of the address.
    return StoreUnavailable(f"{where} does not work: {type(error).__name__}")


def _explain_code(code: str, where: str, error: "asyncpg.PostgresError") -> StoreError:
    said = str(error.args[0]) if error.args else type(error).__name__
    if code.startswith("28"):
        return StoreUnavailable(
            f"{where} refuses this user or password", hint="check the address in sessions.store"
        )
    if code == "3D000":
        return StoreUnavailable(f"{where} has no such database", hint="create it with createdb")
    if code in ("25006", "42501"):
        return StoreReadOnly(
            f"{where} cannot be written: {said}",
            hint="connect to the primary, as a user who owns the schema 'openclaw'",
        )
    if code in ("53100", "53200"):
        return StoreFull(f"no space is left for {where}", hint="free some space and try again")
    if code == "53300":
        return StoreUnavailable(
            f"{where} has no connection free", hint="raise max_connections, or run fewer gateways"
        )
    if code in ("57014", "55P03"):
        return StoreUnavailable(f"{where} did not answer in time")
    return StoreUnavailable(f"{where} does not work: {said} ({code})")


def _code(error: "asyncpg.PostgresError") -> str:
    return getattr(error, "sqlstate", None) or ""


@contextmanager
def translated(place: str) -> Generator[None]:
    """Whatever the driver or the network raises inside comes out as an error of ours."""
    try:
        yield
    except Exception as error:
        if not is_of_driver(error):
            raise
        raise explain(error, place) from None
