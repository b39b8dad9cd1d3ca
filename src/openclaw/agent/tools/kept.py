"""Results of MCP servers that were cut: the file tools open the whole, of the same session only.

They are read and searched like files of the workspace, never written, and what comes out of them is
framed as the server's, as the result itself was.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from openclaw.agent.tools.workspace import Workspace
from openclaw.content import detect, frame
from openclaw.core.content import Text
from openclaw.core.tools import CallContext, ToolResult, failed
from openclaw.mcp_client.kept import Kept, directory_for, from_name

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One of them: the directory that it is in, its name there, and how it is to be shown."""

    place: Workspace
    name: str
    kept: Kept

    def shown(self, text: str) -> ToolResult:
        """Words of it as a result."""
        detection = detect(text)
        if detection.suspicious:
            logger.warning(
                "a kept result of MCP server '%s' looks like an attempt to give the agent orders",
                self.kept.server,
                extra={"server": self.kept.server, "signals": detection.signals},
            )
            if self.kept.guarded:
                return failed("This was withheld: it looks like an attempt to give you orders.")
        framed = frame(text, sender=self.kept.server, mode=self.kept.mode)
        details = {"untrusted": True, "source": "mcp_server", "server": self.kept.server}
        return ToolResult(
            blocks=(Text(framed),), outputs=(Text(text),), details={**details, "wrapped": True}
        )


class KeptResults:
    """The kept results that a call may see."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    def find(self, path: str, context: CallContext) -> KeptFile | None:
        """The kept result that this path names; None where it names none of this session."""
        if self._root is None or not path.startswith("/"):
            return None
        directory = directory_for(self._root, context.agent, context.session)
        asked = Path(path)
        kept = from_name(asked.name)
        if kept is None or asked.parent not in (directory, directory.resolve()):
            return None
        return KeptFile(Workspace(directory), asked.name, kept)
