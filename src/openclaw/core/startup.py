"""What every process of ours does before it imports anything that is large."""

import gc
import sys
from types import ModuleType

_NEW_OBJECTS = 50_000
"""How many more objects make a collection. With Python's 700, importing a library that makes half a
million lasting ones spends a seventh of its time looking through them again and again."""


def prepare() -> None:
    """Call it first: it imports nothing."""
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
    if "pydantic" not in sys.modules:
        # It reads the metadata of every installed package to find its plugins. We have none, and
        # none of another package's has any business with our configuration.
        loader = ModuleType("pydantic.plugin._loader")
        setattr(loader, "get_plugins", tuple)  # noqa: B010 - a module's type has no such attribute
        sys.modules[loader.__name__] = loader
