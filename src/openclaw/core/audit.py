"""What the audit log says of one call of an MCP tool."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """Who called what, for how long, how it ended and how much was said; bodies only if wanted.

    `outcome` is ok, error, denied, timeout or cancelled. Sizes are in bytes.
    """

    time_ms: int
    agent: str
    session: str
    server: str
    tool: str
    duration_ms: float
    outcome: str
    argument_bytes: int
    result_bytes: int
    arguments: str | None = None
    result: str | None = None

    def fields(self) -> dict[str, Any]:
        """The record as it is written, without the bodies that were not wanted."""
        written: dict[str, Any] = {
            "timeMs": self.time_ms,
            "agent": self.agent,
            "session": self.session,
            "server": self.server,
            "tool": self.tool,
            "durationMs": round(self.duration_ms, 3),
            "outcome": self.outcome,
            "argumentBytes": self.argument_bytes,
            "resultBytes": self.result_bytes,
        }
        bodies = {"arguments": self.arguments, "result": self.result}
        return written | {name: body for name, body in bodies.items() if body is not None}
