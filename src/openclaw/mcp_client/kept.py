"""Where the whole of a result is kept that was too long for the model, so that it can be read on.

Each session has a directory of its own. A file's name says whose words are in it and how they are
to be shown, since whoever reads them later must not take them for ours.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from openclaw.core.ids import random_id

_NAME = re.compile(
    r"mcp-(?P<server>.{1,160})-\w+\.(?P<mode>frame|datamark)(?P<guarded>\.guarded)?\.txt"
)
_SERVER_CHARS = 40

Mode = Literal["frame", "datamark"]


@dataclass(frozen=True, slots=True)
class Kept:
    """How a kept result is to be shown: whose it is, how it is framed, whether it may be withheld."""

    server: str
    mode: Mode = "frame"
    guarded: bool = False


def directory_for(root: Path, agent: str, session: str) -> Path:
    """Where the results of this session are kept."""
    return root / sha256(f"{agent}\0{session}".encode()).hexdigest()[:32]


def new_name(kept: Kept) -> str:
    """A name for a file that nobody can guess."""
    server = quote(kept.server[:_SERVER_CHARS], safe="").replace(".", "%2E") or "%00"
    guarded = ".guarded" if kept.guarded else ""
    return f"mcp-{server}-{random_id()}.{kept.mode}{guarded}.txt"


def from_name(name: str) -> Kept | None:
    """What a file's name says of it; None where it is no kept result."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    mode: Mode = "datamark" if found["mode"] == "datamark" else "frame"
    return Kept(unquote(found["server"]), mode, found["guarded"] is not None)
