"""A secret that the person or the model writes, wherever the turn carries it."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.agent_kit import AgentKit, FakeTools, agent_kit, scripted_config

from openclaw.agent.port import Reply
from openclaw.core.content import InboundMedia, Media, ResourceLink, Text
from openclaw.core.events import BlockReply, ToolFinished, ToolStarted
from openclaw.core.tools import CallContext, JsonObject, ToolResult
from openclaw.sessions.records import Entry
from openclaw.testing.scripted_model import Step, scripted_model

SECRET = "sesame-7f3a9c21d4e8"  # not a real one
ENCODED = "c2VzYW1lLTdmM2E5YzIxZDRlOA=="
LOOKS_LIKE_ONE = "ghp_" + "a1B2c3D4e5" * 4
KEY = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}


async def stored(kit: AgentKit) -> str:
    """Everything that the store has of the session."""
    session = await kit.store.open_session("main", "s")
    entries: Sequence[Entry] = await kit.store.history(session, since_compaction=False)
    rows = [[entry.text, dict(entry.data), entry.details] for entry in entries]
    return json.dumps([rows, (await kit.store.show(session)).title], default=str)


@pytest.mark.parametrize("form", [SECRET, ENCODED])
async def test_what_a_person_writes_is_kept_and_sent_without_known_secrets(
    form: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "openclaw")
    async with (
        scripted_model([Step(text="fine"), Step(text="still fine")]) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        kit.redactor.register(SECRET)
        await kit.say(f"my key is {form}, why is it refused?")
        await kit.say("and now?")
        told = await stored(kit) + repr(kit.events) + caplog.text
        asked = json.dumps([request.body for request in model.requests])
    assert form not in told
    assert form not in asked
    assert model.requests[0].last_text == "my key is [REDACTED], why is it refused?"
    assert told.count("my key is [REDACTED]") == 3  # its data, its text and the title


async def test_a_message_that_waits_while_a_secret_becomes_known_is_kept_without_it() -> None:
    started, go = anyio.Event(), anyio.Event()

    async def wait(arguments: JsonObject, context: CallContext) -> ToolResult:
        started.set()
        await go.wait()
        return ToolResult((Text("done"),))

    tools = FakeTools()
    tools.add("wait", wait)
    steps = [Step(calls=(("wait", {}),)), Step(text="one"), Step(text="two")]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.say, "go")
            await started.wait()
            tasks.start_soon(kit.say, f"the key is {SECRET}")
            await anyio.wait_all_tasks_blocked()
            kit.redactor.register(SECRET)
            go.set()
        told = await stored(kit) + json.dumps([request.body for request in model.requests])
    assert "the key is [REDACTED]" in told
    assert SECRET not in told


async def test_what_only_looks_like_a_secret_may_be_told_to_the_model() -> None:
    async with (
        scripted_model([Step(text="fine")]) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        await kit.say(f"log in with {LOOKS_LIKE_ONE}")
    assert model.requests[0].last_text == f"log in with {LOOKS_LIKE_ONE}"


@pytest.mark.parametrize("key", ["ollama", "dummy", "not-needed", "EMPTY"])
async def test_a_stand_in_for_a_key_is_an_ordinary_word(key: str) -> None:
    async with (
        scripted_model([Step(text="fine")]) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        kit.redactor.register(key)
        await kit.say(f"what is {key.lower()}, with api_key={key}?")
    assert model.requests[0].last_text == f"what is {key.lower()}, with api_key=[REDACTED]?"


async def test_an_attachment_is_kept_without_known_secrets() -> None:
    text = InboundMedia(Media("text/plain", data=b"note", name="a.txt"), f"key {SECRET}")
    sound = InboundMedia(Media("image/png", data=b"\x89\xff" + SECRET.encode(), name="b.png"))
    async with (
        scripted_model([Step(text="fine")]) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        kit.redactor.register(SECRET)
        await kit.say("look", media=(text, sound))
        told = await stored(kit)
        asked = json.dumps(model.requests[0].body)
    for words in (told, asked):
        assert SECRET not in words
        assert ENCODED[:24] not in words
        assert "key [REDACTED]" in words
        assert "withheld because it contains a secret" in words


async def test_what_a_model_writes_is_kept_and_told_without_secrets() -> None:
    tools = FakeTools()
    tools.add("login", "done", schema=KEY)
    steps = [
        Step(text=f"I use {SECRET}.", calls=(("login", {"key": f"{SECRET} {LOOKS_LIKE_ONE}"}),)),
        Step(text=f"It was {SECRET}."),
    ]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
    ):
        kit.redactor.register(SECRET)
        reply = await kit.say("go")
        told = await stored(kit)
    # The call itself is made as it was asked for.
    assert kit.tools.calls == [("login", {"key": f"{SECRET} {LOOKS_LIKE_ONE}"})]
    (started,) = [event for event in kit.events if isinstance(event, ToolStarted)]
    assert started.arguments == {"key": "[REDACTED] [REDACTED]"}
    (block,) = [event for event in kit.events if isinstance(event, BlockReply)]
    assert block.blocks == (Text("I use [REDACTED].", addressed=True),)
    assert reply.text == "It was [REDACTED]."
    assert SECRET not in told
    assert LOOKS_LIKE_ONE not in told


async def test_a_call_that_is_refused_does_not_repeat_a_secret() -> None:
    tools = FakeTools()
    tools.add("login", "done", schema=KEY)
    steps: list[Step] = [Step(calls=(("login", {SECRET: 1}),)), Step(text="ok")]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
    ):
        kit.redactor.register(SECRET)
        await kit.say("go")
        told = await stored(kit)
    assert not kit.tools.calls
    assert SECRET not in told
    assert SECRET not in model.requests[1].last_text


async def test_every_part_of_a_tools_result_is_without_secrets() -> None:
    async def give(arguments: JsonObject, context: CallContext) -> ToolResult:
        blocks = (
            Text(f"text {SECRET}"),
            Media("audio/wav", data=b"RIFF\xff" + SECRET.encode("utf-16-be")),
            ResourceLink(f"a://{SECRET}", f"name {SECRET}", description=f"about {SECRET}"),
        )
        details: dict[str, Any] = {"diff": [{"new": SECRET}]}
        return ToolResult(blocks=blocks, outputs=blocks, details=details)

    tools = FakeTools()
    tools.add("give", give)
    async with (
        scripted_model([Step(calls=(("give", {}),)), Step(text="ok")]) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
    ):
        kit.redactor.register(SECRET)
        await kit.say("go")
        told = await stored(kit) + json.dumps(model.requests[1].body)
    (finished,) = [event for event in kit.events if isinstance(event, ToolFinished)]
    assert SECRET not in told + repr(finished)
    assert "audio (audio/wav) that is withheld because it contains a secret" in told
    assert finished.result.details == {"diff": [{"new": "[REDACTED]"}]}


def handing(*media: Media) -> FakeTools:
    async def give(arguments: JsonObject, context: CallContext) -> ToolResult:
        return ToolResult(blocks=(Text("It goes to the user."),), outputs=media)

    tools = FakeTools()
    tools.add("give", give)
    return tools


async def handed(tools: FakeTools) -> tuple[Reply, ToolResult, str]:
    """What the person gets, what front ends are told, and what the model and the store get."""
    async with (
        scripted_model([Step(calls=(("give", {}),)), Step(text="ok")]) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
    ):
        kit.redactor.register(SECRET)
        reply = await kit.say("go")
        told = await stored(kit) + json.dumps(model.requests[1].body)
    (finished,) = [event for event in kit.events if isinstance(event, ToolFinished)]
    return reply, finished.result, told


@pytest.mark.parametrize("form", [SECRET, ENCODED])
async def test_a_text_that_is_handed_over_goes_as_a_copy_without_secrets(
    tmp_path: Path, form: str
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"key: {form}\nmode: fast\n")
    reply, result, told = await handed(handing(Media("text/plain", path=file)))
    copy = Media("text/plain", data=b"key: [REDACTED]\nmode: fast\n", name="settings.yaml")
    note = (
        "['settings.yaml' is sent as a copy: secrets in it were replaced by [REDACTED]; "
        "the file itself is unchanged]"
    )
    assert reply.media == (copy,)
    assert result.outputs == (copy, Text(note, addressed=True))
    assert note in told
    assert form not in told + repr(result)
    assert file.read_text() == f"key: {form}\nmode: fast\n"


async def test_any_other_file_with_a_secret_is_not_handed_over(tmp_path: Path) -> None:
    file = tmp_path / "report.pdf"
    file.write_bytes(b"%PDF-1.7\n" + SECRET.encode())
    other = tmp_path / "dot.png"
    other.write_bytes(b"\x89PNG\r\n\x1a\n\0")
    sent = Media("image/png", path=other)
    reply, result, told = await handed(handing(Media("application/pdf", path=file)))
    assert (reply.media, result.is_error) == ((), True)
    assert "'report.pdf' is withheld: it contains a secret" in told
    assert "create the file again without the secret" in told
    assert "It goes to the user." not in told
    assert SECRET not in told + repr(result)
    reply, result, _ = await handed(handing(Media("application/pdf", path=file), sent))
    assert (reply.media, result.is_error) == ((sent,), False)
    assert [one.text for one in result.outputs if isinstance(one, Text) and one.addressed]


async def test_a_file_without_secrets_is_handed_over_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text(f"# how to use {LOOKS_LIKE_ONE}")
    media = (
        Media("text/markdown", path=file),
        Media("text/markdown", path=tmp_path / "gone.md"),
        Media("text/plain", data=b"words", name="b.txt"),
    )
    reply, result, _ = await handed(handing(*media))
    assert reply.media == result.outputs == media


async def test_the_name_of_what_is_handed_over_is_without_secrets() -> None:
    given = Media("image/png", data=b"\x89PNG", name=f"{SECRET}.png")
    reply, _, _ = await handed(handing(given))
    assert [media.name for media in reply.media] == ["[REDACTED].png"]
