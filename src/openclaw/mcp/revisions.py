"""The five revisions of MCP, as a table of what each has. Nothing else compares their dates."""

from enum import StrEnum
from typing import NamedTuple


class TaskSupport(StrEnum):
    NONE = "none"
    CORE = "core"  # part of the protocol, at the client's request
    EXTENSION = "extension"  # at the server's discretion, for clients that declare it


class Revision(NamedTuple):
    name: str
    stateless: bool = False
    """No handshake and no session: each request says in `_meta` who asks, and how."""
    batches: bool = False
    streamable_http: bool = True
    """One endpoint; before, HTTP+SSE with two."""
    version_header: bool = False
    """`MCP-Protocol-Version` on every request after the handshake."""
    routing_headers: bool = False
    """`Mcp-Method`, `Mcp-Name` and `Mcp-Param-*`."""
    priming_events: bool = False
    """Streams begin with an event that has only an id, and may be closed for the client to poll."""
    server_requests: bool = True
    """The server sends requests; otherwise it asks in its results (`input_required`)."""
    form_elicitation: bool = False
    url_elicitation: bool = False
    sampling_tools: bool = False
    audio: bool = True
    progress_messages: bool = True
    completions_capability: bool = True
    resource_links: bool = False
    structured_output: bool = False
    titles: bool = False
    icons: bool = False
    cache_hints: bool = False
    """`ttlMs` and `cacheScope` in what may be cached."""
    result_types: bool = False
    """Every result says in `resultType` what it is."""
    log_level_per_request: bool = False
    """In `_meta`, rather than by `logging/setLevel`."""
    listen: bool = False
    """`subscriptions/listen`, rather than `resources/subscribe` and unasked list changes."""
    tasks: TaskSupport = TaskSupport.NONE

    @property
    def has_sessions(self) -> bool:
        """Whether Streamable HTTP has sessions, streams to resume, and a stream by GET."""
        return self.streamable_http and not self.stateless


V2024_11_05 = Revision(
    "2024-11-05",
    streamable_http=False,
    audio=False,
    progress_messages=False,
    completions_capability=False,
)
V2025_03_26 = Revision("2025-03-26", batches=True)
V2025_06_18 = V2025_03_26._replace(
    name="2025-06-18",
    batches=False,
    version_header=True,
    form_elicitation=True,
    resource_links=True,
    structured_output=True,
    titles=True,
)
V2025_11_25 = V2025_06_18._replace(
    name="2025-11-25",
    priming_events=True,
    url_elicitation=True,
    sampling_tools=True,
    icons=True,
    tasks=TaskSupport.CORE,
)
V2026_07_28 = V2025_11_25._replace(
    name="2026-07-28",
    stateless=True,
    routing_headers=True,
    priming_events=False,
    server_requests=False,
    cache_hints=True,
    result_types=True,
    log_level_per_request=True,
    listen=True,
    tasks=TaskSupport.EXTENSION,
)

REVISIONS = {
    revision.name: revision
    for revision in (V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28)
}
HANDSHAKE_REVISIONS = tuple(name for name, revision in REVISIONS.items() if not revision.stateless)
LATEST_WITH_HANDSHAKE = V2025_11_25
LATEST = V2026_07_28
