"""Finding out what a server speaks, as a script of outcomes."""

from typing import Any, cast

import pytest

from openclaw.mcp.jsonrpc import METHOD_NOT_FOUND, UNSUPPORTED_VERSION, ErrorData
from openclaw.mcp.negotiation import (
    DISCOVER_SECONDS,
    Negotiation,
    NotAnswered,
    NotUnderstood,
    Phase,
    discovered,
    initialized,
)

LEGACY: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {"listChanged": True}, "logging": None, "made-up": {}},
    "serverInfo": {"name": "docs", "version": "2"},
    "instructions": "Search first.",
}
MODERN: dict[str, Any] = {
    "supportedVersions": ["2027-01-01", "2026-07-28"],
    "capabilities": {"resources": {}},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "docs", "version": "3"}},
}
UNKNOWN = ErrorData(METHOD_NOT_FOUND, "unknown")
UNSUPPORTED = ErrorData(UNSUPPORTED_VERSION, "no", {"supported": ["2026-07-28"]})

# Each step is an outcome: of `server/discover` or of `initialize`, or the time; then what is asked.
DISC, INIT = "server/discover", "initialize"


SCRIPTS: list[tuple[bool, list[tuple[str | None, Any, list[str]]], str | None]] = [
    (False, [(DISC, MODERN, [])], "2026-07-28"),
    (False, [(DISC, UNKNOWN, [INIT]), (INIT, LEGACY, [])], "2025-06-18"),
    (False, [(DISC, NotAnswered(), [INIT]), (INIT, LEGACY, [])], "2025-06-18"),
    (False, [(DISC, {"odd": 1}, [INIT]), (INIT, LEGACY, [])], "2025-06-18"),
    (False, [(DISC, UNSUPPORTED, [DISC]), (DISC, MODERN, [])], "2026-07-28"),
    (
        False,
        [(DISC, UNSUPPORTED, [DISC]), (DISC, UNSUPPORTED, [INIT]), (INIT, LEGACY, [])],
        "2025-06-18",
    ),
    # It does not answer in time.
    (False, [(None, 2.0, [INIT]), (INIT, LEGACY, [])], "2025-06-18"),
    (False, [(None, 2.0, [INIT]), (DISC, UNKNOWN, []), (INIT, LEGACY, [])], "2025-06-18"),
    # It was still starting.
    (False, [(None, 2.0, [INIT]), (DISC, MODERN, []), (INIT, UNKNOWN, [])], "2026-07-28"),
    (False, [(None, 2.0, [INIT]), (DISC, MODERN, []), (INIT, LEGACY, [])], "2025-06-18"),
    (False, [(None, 2.0, [INIT]), (DISC, MODERN, []), (None, 3.0, [])], "2026-07-28"),
    (False, [(None, 2.0, [INIT]), (INIT, UNSUPPORTED, []), (DISC, MODERN, [])], "2026-07-28"),
    # It was of the earlier era when last seen.
    (True, [(INIT, LEGACY, [])], "2025-06-18"),
    (True, [(INIT, UNKNOWN, [DISC]), (DISC, MODERN, [])], "2026-07-28"),
    (True, [(INIT, UNSUPPORTED, [DISC]), (DISC, MODERN, [])], "2026-07-28"),
    # It cannot be talked to.
    (True, [(INIT, ErrorData(-1, "no"), [])], None),
    (True, [(INIT, UNKNOWN, [DISC]), (DISC, UNKNOWN, [])], None),
    (False, [(DISC, UNKNOWN, [INIT]), (INIT, NotAnswered("gone"), [])], None),
    (False, [(None, 2.0, [INIT]), (INIT, ErrorData(-1, "no"), [])], None),
    (False, [(DISC, UNKNOWN, [INIT]), (INIT, {**LEGACY, "protocolVersion": "1999"}, [])], None),
]


@pytest.mark.parametrize(("legacy", "script", "revision"), SCRIPTS)
def test_a_revision_is_agreed_on(
    legacy: bool, script: list[tuple[str | None, Any, list[str]]], revision: str | None
) -> None:
    steps = Negotiation({"name": "us"}, {"roots": {}, "extensions": {"x": {}}}, stall=2.0)
    asked = [ask.method for ask in steps.start(0.0, legacy=legacy)]
    assert asked == ([INIT] if legacy else [DISC])
    for method, outcome, following in script:
        if method is None:
            assert steps.expire(outcome - 0.1) == []
            asks = steps.expire(outcome)
        elif isinstance(outcome, dict):
            asks = steps.answered(method, cast("dict[str, Any]", outcome), 2.0)
        else:
            asks = steps.refused(method, outcome, 2.0)
        assert [ask.method for ask in asks] == following
    assert steps.phase is (Phase.FAILED if revision is None else Phase.DONE)
    assert (steps.result and steps.result.revision.name) == revision
    assert (steps.failure is not None) is (revision is None)


def test_what_is_asked_says_who_we_are() -> None:
    steps = Negotiation({"name": "us"}, {"roots": {}, "extensions": {"x": {}}})
    [discover] = steps.start(0.0)
    assert discover.timeout == DISCOVER_SECONDS
    meta = discover.params["_meta"]
    assert meta["io.modelcontextprotocol/clientInfo"] == {"name": "us"}
    assert "extensions" in meta["io.modelcontextprotocol/clientCapabilities"]
    [initialize] = steps.refused("server/discover", UNKNOWN, 0.0)
    assert initialize.params["protocolVersion"] == "2025-11-25"
    assert initialize.params["capabilities"] == {"roots": {}}  # they had no extensions


def test_a_handshake_has_the_capabilities_that_we_know() -> None:
    legacy = initialized(LEGACY)
    assert legacy.capabilities == {"tools": {"listChanged": True}}
    assert (legacy.revision.name, legacy.name, legacy.version) == ("2025-06-18", "docs", "2")
    assert legacy.instructions == "Search first."
    modern = discovered(MODERN)
    assert (modern.revision.name, modern.name, modern.version) == ("2026-07-28", "docs", "3")
    assert discovered({**MODERN, "_meta": {}}).name is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocolVersion": "1999-01-01"},
        {"protocolVersion": 7},
        {"protocolVersion": []},
        {"capabilities": []},
        {"capabilities": {"tools": True}},
        {"serverInfo": {"name": "docs"}},
        {"instructions": 7},
    ],
)
def test_an_answer_that_is_not_what_mcp_says_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(NotUnderstood):
        initialized({**LEGACY, **wrong})


def test_a_server_that_shares_no_revision_with_us_is_refused() -> None:
    with pytest.raises(NotUnderstood, match="no MCP revision"):
        discovered({**MODERN, "supportedVersions": ["2027-01-01"]})
