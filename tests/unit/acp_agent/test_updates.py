"""Events as session updates."""

from pathlib import Path
from typing import Any, cast

import pytest
from acp import schema
from acp.interfaces import Client

from openclaw.acp_agent.updates import Translator, Update, kind_of, put_form
from openclaw.agent.port import Reply
from openclaw.core.content import Media, ResourceLink, Text
from openclaw.core.events import (
    STARTS_OVER,
    BlockReply,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)
from openclaw.core.questions import ACCEPT, DECLINED, AskedCall, Form, Question
from openclaw.core.tools import ToolResult, failed
from openclaw.secrets.redactor import Redactor

CWD = Path("/project")


SECRET = "hunter2-and-more"


def translator() -> Translator:
    redactor = Redactor()
    redactor.register(SECRET)
    return Translator(redactor, CWD)


def told(updates: list[Update], kind: str = "agent_message_chunk") -> str:
    return "".join(one.content.text for one in updates if one.session_update == kind)


def reply(text: str, *media: Media) -> Reply:
    return Reply(text=text, session_id="s", turn_id="t", media=media)


def test_words_and_thoughts_are_passed_on_without_secrets() -> None:
    one = translator()
    updates = one.updates(ThinkingDelta(f"so, {SECRET}"))
    updates += one.updates(TextDelta(f"{SECRET}! "))
    assert told(updates, "agent_thought_chunk") == "so, [REDACTED]"
    assert told(updates) == "[REDACTED]!"


@pytest.mark.parametrize("at", range(1, len(SECRET)))
def test_a_secret_in_two_pieces_does_not_pass(at: int) -> None:
    text = f"It is {SECRET}."
    for event, kind in (
        (TextDelta, "agent_message_chunk"),
        (ThinkingDelta, "agent_thought_chunk"),
    ):
        one = translator()
        pieces = (text[: 6 + at], text[6 + at :])
        updates = [update for piece in pieces for update in one.updates(event(piece))]
        updates += one.updates(ToolStarted("c", "read", "Read", {}))
        assert told(updates, kind) == "It is [REDACTED]."
        assert updates[-1].session_update == "tool_call"


def request(name: str, body: str = "") -> Question:
    return Question(name, body, (AskedCall("c", name, "", {"path": "x"}),))


def test_a_plan_is_shown_as_a_plan_and_not_as_a_call() -> None:
    one = translator()
    plan = [{"step": f"Use {SECRET}", "status": "in_progress"}, {"step": "Done", "priority": "low"}]
    (update,) = one.updates(ToolStarted("c", "update_plan", "Plan", {"plan": plan}))
    assert update.session_update == "plan"
    assert [(e.content, e.status, e.priority) for e in update.entries] == [
        ("Use [REDACTED]", "in_progress", "medium"),
        ("Done", "pending", "low"),
    ]
    assert one.updates(ToolFinished("c", "update_plan", ToolResult(()), 1.0)) == []


def test_a_plan_that_the_person_was_asked_about_is_a_call() -> None:
    one = translator()
    one.asking(request("update_plan"))
    (update,) = one.updates(ToolStarted("c", "update_plan", "Plan", {"plan": []}))
    assert update.session_update == "tool_call_update"


def test_what_was_held_back_comes_before_what_happens_next() -> None:
    one = translator()
    updates = one.updates(ThinkingDelta("Hm")) + one.updates(TextDelta("Looking"))
    updates += one.updates(Notice("warning", "retry"))
    kinds = [(update.session_update, update.content.text) for update in updates]
    assert kinds == [
        ("agent_thought_chunk", "Hm"),
        ("agent_message_chunk", "Looking"),
        ("agent_thought_chunk", "retry\n"),
    ]


def test_what_was_streamed_is_not_said_again() -> None:
    one = translator()
    updates = one.updates(TextDelta("Hello ")) + one.updates(TextDelta("you"))
    updates += one.closing(reply("Hello you"))
    assert told(updates) == "Hello you"
    assert one.closing(reply("")) == []


def test_what_the_answer_has_beyond_the_stream_is_added() -> None:
    one = translator()
    updates = one.updates(TextDelta("Hello")) + one.closing(reply("Hello\n\n[cut off]"))
    assert told(updates) == "Hello\n\n[cut off]"


def test_an_answer_that_is_not_what_was_streamed_is_said_whole() -> None:
    one = translator()
    one.updates(TextDelta("Let me"))
    started, whole = one.closing(reply("Stopped: too many steps."))
    assert started.content.text == " me"
    assert whole.content.text == "Stopped: too many steps."


def test_an_answer_that_started_over_is_said_once_more_and_not_again_at_the_end() -> None:
    one = translator()
    one.updates(TextDelta("Hello y"))
    one.updates(STARTS_OVER)
    updates = one.updates(TextDelta("Good day")) + one.closing(reply("Good day"))
    assert told(updates) == "Good day"


def test_a_block_between_tool_calls_is_said_once() -> None:
    one = translator()
    updates = one.updates(TextDelta("First."))
    updates += one.updates(BlockReply((Text("First."),)))
    assert told(updates) == "First."
    (second,) = one.updates(BlockReply((Text("Not streamed."),)))
    assert second.content.text == "Not streamed."
    assert one.closing(reply("")) == []


def test_a_call_is_announced_with_its_kind_and_file_and_then_updated() -> None:
    one = translator()
    (start,) = one.updates(ToolStarted("c", "edit", "Edit", {"path": "a/b.py"}))
    assert (start.title, start.kind, start.status) == ("Edit", "edit", "in_progress")
    assert [where.path for where in start.locations] == ["/project/a/b.py"]
    (progress,) = one.updates(ToolProgress("c", "edit", "half way"))
    assert (progress.status, progress.content[0].content.text) == ("in_progress", "half way")
    blocks = (Text("framed"),)
    (done,) = one.updates(ToolFinished("c", "edit", ToolResult(blocks, (Text("plain"),)), 1.0))
    assert (done.status, done.content[0].content.text) == ("completed", "plain")


def test_a_call_that_was_asked_about_is_announced_once_and_fails_where_it_is_refused() -> None:
    one = translator()
    (asked,) = one.asking(request("mcp_mail_send", "path: `not` a ```file``` of ours"))
    assert (asked.title, asked.kind, asked.status) == ("mcp_mail_send", "other", "pending")
    assert asked.locations is None
    assert asked.content[0].content.text == "````\npath: `not` a ```file``` of ours\n````"
    (goes,) = one.updates(ToolStarted("c", "mcp_mail_send", "Send", {}))
    assert (goes.session_update, goes.status) == ("tool_call_update", "in_progress")
    (refused,) = one.updates(ToolFinished("c", "mcp_mail_send", failed("No."), 0.0))
    assert (refused.status, refused.content[0].content.text) == ("failed", "No.")


def test_warnings_are_thoughts_and_the_rest_is_silent() -> None:
    one = translator()
    (warning,) = one.updates(Notice("warning", "trying another model"))
    assert (warning.session_update, warning.content.text) == (
        "agent_thought_chunk",
        "trying another model\n",
    )
    assert one.updates(Notice("info", "summarised")) == []
    assert one.updates(TurnStarted("s", "main", "t")) == []


def test_media_are_sent_along_or_pointed_to(tmp_path: Path) -> None:
    image, gone, paper = tmp_path / "a.png", tmp_path / "gone.png", tmp_path / "b.pdf"
    image.write_bytes(b"png")
    paper.write_bytes(b"%PDF")
    sent = translator().closing(
        reply(
            "",
            Media("image/png", path=image),
            Media("image/png", path=gone),
            Media("application/pdf", path=paper, name="Paper"),
            Media("audio/wav", data=b"wav"),
            Media("image/png", url="https://example.test/c.png"),
            Media("application/zip", data=b"1234", name="z.zip"),
            Media("text/plain", data=b"a copy", name="my notes.txt"),
        )
    )
    blocks = [one.content for one in sent]
    assert [block.type for block in blocks] == [
        "image",
        "resource_link",
        "resource_link",
        "audio",
        "resource_link",
        "text",
        "resource",
    ]
    assert (blocks[0].data, blocks[0].mime_type) == ("cG5n", "image/png")
    assert (blocks[2].name, blocks[2].uri) == ("Paper", paper.as_uri())
    assert blocks[5].text == "[application/zip z.zip, 4 bytes]"
    copy = blocks[6].resource
    assert (copy.uri, copy.text) == ("attachment://my%20notes.txt", "a copy")


def test_a_link_of_a_tool_stays_a_link() -> None:
    result = ToolResult((ResourceLink("db://1", "row", "text/plain"),))
    (done,) = translator().updates(ToolFinished("c", "mcp_db_get", result, 1.0))
    link = done.content[0].content
    assert (link.type, link.name, link.uri) == ("resource_link", "row", "db://1")


def test_tools_of_others_are_of_no_known_kind() -> None:
    assert (kind_of("exec"), kind_of("mcp_x_exec")) == ("execute", "other")


class _Editor:
    """A client that accepts every question."""

    def __init__(self) -> None:
        self.modes: list[Any] = []

    async def create_elicitation(self, message: str, mode: Any) -> Any:
        self.modes.append(mode)
        return schema.AcceptElicitationResponse.model_validate({"action": "accept"})


async def test_a_servers_question_is_put_as_a_form_or_as_a_page_to_visit() -> None:
    client = _Editor()
    both = schema.ElicitationCapabilities.model_validate({"form": {}, "url": {}})
    wanted = {"type": "object", "properties": {"city": {"type": "string"}}}
    questions = (Form("maps", "Where?", wanted), Form("maps", "Log in", url="https://x.example/"))
    for form in questions:
        assert (await put_form(cast("Client", client), both, "s", form)).choice == ACCEPT
    first, second = client.modes
    assert first.requested_schema.properties.keys() == {"city"}
    assert str(second.url) == "https://x.example/"


async def test_a_question_that_the_client_cannot_show_is_declined() -> None:
    client = _Editor()
    forms_only = schema.ElicitationCapabilities.model_validate({"form": {}})
    form = Form("maps", "Log in", url="https://x.example/")
    assert await put_form(cast("Client", client), forms_only, "s", form) == DECLINED
    assert client.modes == []
