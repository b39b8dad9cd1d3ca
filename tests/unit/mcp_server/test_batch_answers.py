"""What reader and writer share: the revision, and the answers to a batch as one."""

from typing import Any

import mcp_types as types
import pytest
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from openclaw.mcp_server.line_parsing import Judged, judge
from openclaw.mcp_server.sdk_handoff import Conversation


class Told:
    """What went onto the wire beside the SDK's own messages."""

    def __init__(self) -> None:
        self.lines: list[tuple[list[Any], bool]] = []

    def __call__(self, messages: list[SessionMessage], batch: bool) -> None:
        ids = [message.message.model_dump().get("id") for message in messages]
        self.lines.append((ids, batch))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def conversation(told: Told) -> Conversation:
    made = Conversation(lambda item: False)
    made.tell = told
    return made


def request(number: Any, method: str = "ping", **params: Any) -> SessionMessage:
    return SessionMessage(
        types.JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
    )


def answer(number: Any) -> SessionMessage:
    return SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=number, result={}))


@pytest.mark.parametrize(
    ("version", "takes"),
    [
        ("2025-03-26", True),
        ("2024-11-05", False),
        ("2025-06-18", False),
        ("2099-01-01", False),
        (None, False),
        ([], False),
    ],
)
def test_batches_belong_to_one_revision(
    conversation: Conversation, version: Any, takes: bool
) -> None:
    assert not conversation.takes_batches
    conversation.noticed(request(1, "initialize", protocolVersion=version))
    assert conversation.takes_batches is takes


def test_what_is_wrong_with_a_line_is_told_at_once(conversation: Conversation, told: Told) -> None:
    assert conversation.taken(judge(b"rubbish")) == []
    assert told.lines == [([None], False)]


def batch(*ids: Any, faults: bool = False) -> Judged:
    judged = Judged(batch=True)
    judged.messages = [request(one).message for one in ids]
    if faults:
        judged.blame(types.INVALID_REQUEST, "no")
    return judged


def test_answers_to_a_batch_wait_for_each_other_and_for_nobody_else(
    conversation: Conversation, told: Told
) -> None:
    conversation.taken(batch(1, 2, faults=True))
    conversation.taken(batch(3, 3))
    assert not conversation.keep_back(answer(9))
    assert not conversation.keep_back(request(1))
    assert conversation.keep_back(answer(2))
    assert conversation.keep_back(answer(3))
    assert told.lines == []
    assert conversation.keep_back(answer(1))
    assert told.lines == [([None, 2, 1], True)]
    assert conversation.keep_back(answer(3))
    assert told.lines[1:] == [([3, 3], True)]
    assert not conversation.keep_back(answer(1))


def test_a_batch_without_requests_is_answered_by_its_faults_alone(
    conversation: Conversation, told: Told
) -> None:
    assert conversation.taken(batch()) == []
    assert told.lines == []
    conversation.taken(batch(faults=True))
    assert told.lines == [([None], True)]


async def test_a_request_that_is_never_answered_does_not_hold_its_batch(
    conversation: Conversation, told: Told
) -> None:
    first, second = conversation.taken(batch(1, 2))
    for item in (first, second):
        assert isinstance(item.metadata, ServerMessageMetadata)
        assert item.metadata.on_request_unanswered is not None
        await item.metadata.on_request_unanswered()
    assert told.lines == []  # nobody waits for anything
    assert not conversation.keep_back(answer(1))


def test_what_is_kept_back_for_another_reason_is_no_answer_to_a_batch(told: Told) -> None:
    conversation = Conversation(lambda item: True)
    conversation.tell = told
    conversation.taken(batch(1))
    assert conversation.keep_back(answer(1))
    assert told.lines == []
