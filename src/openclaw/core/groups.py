"""What a group of errors comes down to for whoever has to act on it."""

from collections.abc import Iterator
from typing import cast

from openclaw.core.errors import OpenClawError


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, at any depth; an error that is no group is its own only leaf."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error


def cause_of(error: BaseException) -> BaseException:
    """The error that a group stands for.

    A task group wraps whatever leaves it, also a single error that was raised on purpose. An error
    that was not, however many of ours stand beside it, is a defect, and the group stays whole.
    """
    found = list(leaves(error))
    stops = [leaf for leaf in found if isinstance(leaf, KeyboardInterrupt | SystemExit)]
    if stops:
        return stops[0]
    foreseen = all(isinstance(leaf, OpenClawError) for leaf in found)
    return found[0] if foreseen or len(found) == 1 else error
