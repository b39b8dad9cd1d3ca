"""Prints an answer as text, or with all its details as JSON (--json)."""

from typing import TYPE_CHECKING, Any

from openclaw.cli.environment import Environment
from openclaw.core.errors import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from openclaw.agent.port import Reply
    from openclaw.core.content import Media


def report(
    env: Environment,
    reply: "Reply",
    session: str,
    refused: list[str],
    lacking: str | None,
    json: bool,
) -> int:
    """Print it and return the exit code; `lacking` says in words what was `refused`."""
    if json:
        env.say_json({**as_json(reply, session), "refused": refused})
    else:
        from openclaw.cli.render.turn import print_markdown

        text = env.redactor.redact(reply.text) or "(No response)"
        print_markdown(env.stdout, text, env.environ)
        for media in reply.media:
            env.say(f"[{media.mime_type}] {place_of(media)}")
        if lacking is not None:
            env.warn(lacking)
    return EXIT_OK if reply.outcome in ("ok", "duplicate") else EXIT_FAILED


def place_of(media: "Media") -> str:
    if media.path is not None:
        return str(media.path)
    if media.url is not None:
        return media.url
    return f"{media.name or 'unnamed'}, {len(media.data or b'')} bytes"


def as_json(reply: "Reply", session_key: str) -> dict[str, Any]:
    return {
        "text": reply.text,
        "outcome": reply.outcome,
        "sessionKey": session_key,
        "sessionId": reply.session_id,
        "turnId": reply.turn_id,
        "usage": {
            "inputTokens": reply.usage.input_tokens,
            "outputTokens": reply.usage.output_tokens,
            "requests": reply.usage.requests,
            "toolCalls": reply.usage.tool_calls,
            "cost": None if reply.usage.unpriced and not reply.usage.cost else reply.usage.cost,
        },
        "media": [{"mimeType": one.mime_type, "where": place_of(one)} for one in reply.media],
    }
