"""Orders and answers on their way between machines."""

from pathlib import Path
from typing import Any

import pytest

from openclaw.agent.event_codec import listener_to, tell
from openclaw.agent.port import MessageContext, Reply, TurnListener
from openclaw.cluster import order_relay
from openclaw.cluster.order_relay import (
    answer_bytes,
    answer_from,
    has_media,
    order_bytes,
    order_from,
)
from openclaw.core.content import InboundMedia, Media, Text
from openclaw.core.errors import Busy, InvalidRequest
from openclaw.core.events import Usage
from openclaw.core.tools import ToolResult
from openclaw.media.stored_files import order_files


def test_an_order_arrives_with_everything_it_had(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"pixels")
    sent = MessageContext(
        text='look at "media":[]',
        session_key="s",
        agent_id="main",
        media=(
            InboundMedia(Media("image/png", path=picture, name="p.png"), note="a picture"),
            InboundMedia(Media("text/plain", data=b"words"), text="words"),
            InboundMedia(Media("image/png", url="https://example.com/x.png")),
        ),
        origin="api",
        idempotency_key="k",
        prompt_calls=True,
        workspace=tmp_path,
        model="acme/one",
        scope="editor",
    )
    body = order_bytes(sent, streams=True, callbacks=False)
    picture.unlink()
    with order_files(tmp_path / "tmp") as files:
        got, *wanted = order_from(body, files)
        first, second, third = got.media
        assert first.media.path is not None
        assert first.media.path.read_bytes() == b"pixels"
        assert (first.media.name, first.note, second.text) == ("p.png", "a picture", "words")
        assert third.media.url == "https://example.com/x.png"
    assert wanted == [True, False]
    assert (got.text, got.workspace, got.model, got.scope) == (
        sent.text,
        tmp_path,
        "acme/one",
        "editor",
    )
    assert not has_media(order_bytes(MessageContext("hi", "s"), streams=False, callbacks=True))


def test_an_order_without_a_place_for_files_keeps_its_media_in_memory() -> None:
    context = MessageContext("hi", "s", media=(InboundMedia(Media("text/plain", data=b"x")),))
    got, *_ = order_from(order_bytes(context, streams=False, callbacks=False), None)
    assert got.media[0].media.data == b"x"


def test_attachments_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_relay, "MOST_MEDIA_BYTES", 5)
    media = tuple(InboundMedia(Media("text/plain", data=b"123")) for _ in range(2))
    with pytest.raises(InvalidRequest, match="larger than"):
        order_bytes(MessageContext("hi", "s", media=media), streams=False, callbacks=False)


def test_an_answer_brings_its_media_and_names_what_is_gone(tmp_path: Path) -> None:
    chart = tmp_path / "chart.png"
    chart.write_bytes(b"bars")
    gone = Media("image/png", path=tmp_path / "gone.png")
    reply = Reply("here", "id", "k", (Media("image/png", path=chart), gone), Usage(requests=2))
    got = answer_from(answer_bytes(reply))
    assert [one.data for one in got.media] == [b"bars"]
    assert got.text == "here\n\n[gone.png is too large to be sent along, or is gone]"
    assert got.usage.requests == 2


def test_an_error_arrives_as_what_it_was() -> None:
    with pytest.raises(Busy) as raised:
        answer_from(answer_bytes(Busy("later", retry_after=7)))
    assert raised.value.retry_after == 7


def test_a_tools_result_is_sent_with_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out.pdf"
    file.write_bytes(b"pages" * 100)
    whole = ToolResult(blocks=(Text("made"), Media("application/pdf", path=file)))
    put: list[Any] = []
    listener = listener_to(
        lambda name, body: put.append((name, body)),
        events=True,
        callbacks=True,
        carried=order_relay.blocks_held,
    )
    got: list[ToolResult] = []
    there = TurnListener(on_tool_result=lambda _, result: got.append(result))
    assert listener.on_tool_result is not None
    listener.on_tool_result("make", whole)
    for name, body in put:
        tell(there, name, body)
    held = got[0]
    assert isinstance(held.blocks[1], Media)
    assert held.blocks[1].data == b"pages" * 100
    monkeypatch.setattr(order_relay, "MOST_MEDIA_BYTES", 10)
    again = order_relay.blocks_held((*whole.blocks, Media("text/plain", data=b"123456789012")))
    assert [type(one) for one in again] == [Text, Text, Text]
