"""A log of calls that only remembers."""

from dataclasses import dataclass, field

from openclaw.agent.toolpath.audit import CallRecord


@dataclass(slots=True)
class CallRecords:
    begun: list[CallRecord] = field(default_factory=list[CallRecord])
    ended: list[CallRecord] = field(default_factory=list[CallRecord])

    async def begin(self, call: CallRecord) -> None:
        """Remember that it is about to be sent."""
        self.begun.append(call)

    def record(self, call: CallRecord) -> None:
        """Remember how it ended."""
        self.ended.append(call)
