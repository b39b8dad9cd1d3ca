"""How a turn ended."""

from enum import StrEnum


class Outcome(StrEnum):
    """How a turn ended. As text it is the same in the store, in events, in replies and in metrics."""

    OK = "ok"
    LIMIT = "limit"  # a limit ended it; the answer says which
    CANCELLED = "cancelled"
    ERROR = "error"
    DUPLICATE = "duplicate"  # the order had been carried out before; nothing ran
