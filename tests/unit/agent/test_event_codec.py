"""What goes to a front end in another process comes out as it went in."""

from pathlib import Path

import orjson
import pytest

from openclaw.agent import event_codec
from openclaw.agent.port import MessageContext, Reply
from openclaw.core import errors
from openclaw.core.content import InboundMedia, Media, ResourceLink, Text
from openclaw.core.events import (
    BlockReply,
    Event,
    Notice,
    ServerChanged,
    SuspiciousContent,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Usage,
)
from openclaw.core.outcome import Outcome
from openclaw.core.tools import ToolResult

BLOCKS = (
    Text("hello", addressed=True),
    Media("image/png", data=b"\x89\0\xff", name="a.png"),
    Media("text/plain", path=Path("/tmp/x")),
    Media("audio/wav", url="https://example.com/a"),
    ResourceLink("file:///x", "x", "text/plain", "a file"),
)
RESULT = ToolResult(blocks=BLOCKS, outputs=BLOCKS[:1], is_error=True, details={"untrusted": True})
EVENTS: list[Event] = [
    TurnStarted("s", "main", "t"),
    TextDelta("é\n\n"),
    ThinkingDelta("hm"),
    BlockReply(BLOCKS),
    ToolStarted("c", "echo", "Echo", {"a": [1, {"b": None}]}),
    ToolProgress("c", "echo", "half"),
    ToolFinished("c", "echo", RESULT, 1.5),
    TurnFinished("s", "t", Outcome.OK),
    Notice("info", "x"),
    ServerChanged("time", "ready"),
    SuspiciousContent("time", None, 0.5, ("a", "b")),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back(event: Event) -> None:
    wire = orjson.loads(orjson.dumps(event_codec.record_json(event)))
    assert event_codec.event_from(event_codec.event_name(event), wire) == event


def test_an_event_of_a_later_version_is_passed_over() -> None:
    assert event_codec.event_from("something_new", {}) is None


def test_a_reply_comes_back() -> None:
    media = tuple(block for block in BLOCKS if isinstance(block, Media))
    reply = Reply("text", "sid", "tid", media, Usage(1, 2, 3, 4), Outcome.LIMIT)
    assert (
        event_codec.reply_from(orjson.loads(orjson.dumps(event_codec.reply_json(reply)))) == reply
    )


def test_gateways_of_the_last_version_and_this_one_read_each_others_replies() -> None:
    used = {"inputTokens": 9, "outputTokens": 2, "requests": 1, "toolCalls": 0, "cachedTokens": 5}
    used |= {"reasoningTokens": 1, "cost": 0.5, "unpriced": 0}
    body: dict[str, object] = {
        "text": "t",
        "outcome": "ok",
        "finishReason": "stop",
        "calls": [],
        "media": [],
    }
    body |= {"sessionId": "s", "turnId": "i", "usage": used}
    reply = event_codec.reply_from(body)
    assert reply.usage.cache_read_tokens == 5
    written = event_codec.reply_json(reply)
    assert written == {**body, "questions": [], "usage": {**used, "cacheWriteTokens": 0}}


def test_a_message_carries_what_was_read_of_its_attachments() -> None:
    one = InboundMedia(Media("text/plain", path=Path("/x"), name="x"), "words", "cut")
    context = MessageContext("hi", "k", "main", (one,), "cli", "id")
    wire = orjson.loads(orjson.dumps(event_codec.message_json(context)))
    assert wire["idempotencyKey"] == "id"
    assert event_codec.inbound_from(wire["media"][0]) == one


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidRequest("is empty", field="text", hint="say something"),
        errors.NotFound("no agent", hint="there are: main"),
        errors.Busy("later", retry_after=3),
        errors.Cancelled("stopped"),
        errors.ModelUnavailable("none answers"),
        errors.InvalidConfig([errors.Problem("a.b", "wrong", 1, 2)], source="file"),
        errors.OperatorFacing("mend it"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_as_what_it_was(error: errors.OpenClawError) -> None:
    back = event_codec.error_from(orjson.loads(orjson.dumps(event_codec.error_json(error))))
    assert type(back) is type(error)
    assert (back.message, back.hint) == (error.message, error.hint)
    if isinstance(error, errors.InvalidConfig):
        assert isinstance(back, errors.InvalidConfig)
        assert back.problems == error.problems


def test_what_nobody_foresaw_says_nothing_of_itself() -> None:
    told = event_codec.error_json(KeyError("secret"))
    assert "secret" not in told["message"]
    assert type(event_codec.error_from(told)) is errors.OperatorFacing
