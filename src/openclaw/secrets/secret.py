"""A value that shows itself only when asked by name."""

import hmac
from typing import Any, Final, NoReturn

REDACTED: Final = "[REDACTED]"


class Secret:
    """A value with no `str`: only `.reveal()` gives it, where a reader of the code sees it.

    `repr` says `[REDACTED]`. `str`, `format` and pickling fail, because text that silently held
    the word `[REDACTED]` would be sent somewhere as if it were the value.
    """

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        """The value itself."""
        return self.__value

    def __repr__(self) -> str:
        return f"Secret({REDACTED})"

    def __str__(self) -> NoReturn:
        raise TypeError("a Secret has no str; call .reveal() where the value is really meant")

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("a Secret cannot be formatted; call .reveal() where the value is meant")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Secret cannot be pickled")

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Secret":
        return self

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return hash((Secret, self.__value))
