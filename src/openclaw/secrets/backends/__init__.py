"""Where values come from: one module for each scheme. Only the composition root opens them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from openclaw.secrets.backends.env import EnvBackend
from openclaw.secrets.backends.file import FileBackend
from openclaw.secrets.resolver import Backend

Options = Mapping[str, Any]
Environ = Mapping[str, str]

_OPENERS: Final[Mapping[str, Callable[[Options, Environ], Backend]]] = {
    "env": EnvBackend.open,
    "file": FileBackend.open,
}


def open_backends(options: Mapping[str, Options], environ: Environ) -> dict[str, Backend]:
    """A backend for each scheme, from `secrets.SCHEME` of the configuration and the environment.

    Opening one connects to nothing and imports no library: that happens when it is first read.
    """
    return {
        scheme: opener(options.get(scheme) or {}, environ) for scheme, opener in _OPENERS.items()
    }
