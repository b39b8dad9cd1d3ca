"""Images belong to their session: shown in later turns, made to fit, and never the end of it."""

import io
import json
from pathlib import Path

import pytest
from PIL import Image
from tests.support.agent_kit import APIS, FakeTools, agent_kit, scripted_config

from openclaw.core.clock import SystemClock
from openclaw.core.content import InboundMedia, Media, Text
from openclaw.core.events import Notice
from openclaw.core.tools import CallContext, JsonObject, ToolResult
from openclaw.media.images import STRICT_BYTES
from openclaw.media.kinds import MAX_IMAGES
from openclaw.sessions.sqlite.store import open_sqlite_store
from openclaw.testing.scripted_model import Request, Step, scripted_model


def picture(shade: int, side: int = 8, height: int | None = None) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (side, height or side), (shade % 256, 80, 90)).save(buffer, "PNG")
    return buffer.getvalue()


def attached(*data: bytes) -> tuple[InboundMedia, ...]:
    return tuple(
        InboundMedia(Media("image/png", data=one, name=f"{at}.png")) for at, one in enumerate(data)
    )


def images_in(request: Request) -> int:
    text = json.dumps(request.body)
    return text.count("data:image/") + text.count('"type": "base64"') + text.count('"inlineData"')


async def test_an_image_is_still_there_after_its_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "order" / "red.png"
    path.parent.mkdir()
    path.write_bytes(picture(200))
    database = tmp_path / "state" / "sessions.db"
    async with (
        scripted_model(default=Step(text="ok")) as model,
        open_sqlite_store(database, SystemClock()) as store,
        agent_kit(scripted_config(model.url), store=store) as kit,
    ):
        image = InboundMedia(Media("image/png", path=path, name="red.png"))
        await kit.say("look", media=(image,))
        path.unlink()
        await kit.say("what colour was it?")
        kept = list((database.parent / "media").glob("*/*"))
        assert [one.stat().st_mode & 0o777 for one in kept] == [0o600]
        session = await store.open_session("main", "s")
        assert "path" not in repr((await store.history(session))[1].data)
        await store.delete(session)
    assert [images_in(request) for request in model.requests] == [1, 1]
    assert not kept[0].parent.exists()


@pytest.mark.parametrize("api", APIS)
async def test_twelve_images_over_six_turns_are_all_shown(api: str) -> None:
    async with (
        scripted_model(default=Step(text="ok")) as model,
        agent_kit(scripted_config(model.url, api=api)) as kit,
    ):
        for turn in range(6):
            await kit.say("look", media=attached(picture(2 * turn), picture(2 * turn + 1)))
    assert [images_in(request) for request in model.requests] == [2, 4, 6, 8, 10, 12]


async def test_ten_images_of_one_message_are_shown_and_the_oldest_go_first() -> None:
    async with (
        scripted_model(default=Step(text="ok")) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        for turn in range(3):
            await kit.say("look", media=attached(*(picture(10 * turn + at) for at in range(10))))
        notices = [event.message for event in kit.events if isinstance(event, Notice)]
    assert [images_in(request) for request in model.requests] == [10, 20, 20]
    assert notices == ["the 10 oldest images are no longer shown to the model"]
    first = json.dumps(model.requests[-1].body["messages"][1])
    assert "newer images fill the room" in first
    assert "data:image" not in first


async def test_a_truncated_image_is_named_and_harms_nothing() -> None:
    whole = picture(1, 200)
    async with (
        scripted_model(default=Step(text="ok")) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        await kit.say("look", media=attached(whole[: len(whole) // 2]))
        await kit.say("go on")
    assert [images_in(request) for request in model.requests] == [0, 0]
    assert "not shown: it is damaged" in json.dumps(model.requests[0].body)


def noise(side: int) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((side, side), 100).convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("too_many", ["bytes", "pixels"])
async def test_an_image_beyond_the_providers_limits_is_sent_smaller(too_many: str) -> None:
    data = noise(1_500) if too_many == "bytes" else picture(3, 9_000, 100)
    async with (
        scripted_model(default=Step(text="ok")) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        await kit.say("look", media=attached(data))
    assert images_in(model.requests[0]) == 1
    assert len(json.dumps(model.requests[0].body)) < STRICT_BYTES // MAX_IMAGES * 4 // 3 + 50_000


@pytest.mark.parametrize(
    ("status", "message"), [(400, "Could not process image"), (413, "Request too large")]
)
async def test_a_refused_image_is_left_out_and_the_person_told(status: int, message: str) -> None:
    async def shoot(arguments: JsonObject, context: CallContext) -> ToolResult:
        return ToolResult(blocks=(Text("Here."), Media("image/png", data=picture(7))))

    tools = FakeTools()
    tools.add("shoot", shoot)
    steps = [
        Step(text="A dot."),
        Step(status=status, message=message),
        Step(text="I cannot see it."),
        Step(text="Still fine."),
    ]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
    ):
        await kit.say("look", media=attached(picture(1)))
        reply = await kit.say("and this?", media=attached(picture(2)))
        assert (await kit.say("go on")).text == "Still fine."
    assert reply.text.startswith("I cannot see it.")
    assert "an image was not shown to the model" in reply.text
    assert message in reply.text
    # The image that was accepted before stays; the one that was refused is never sent again.
    assert [images_in(request) for request in model.requests] == [1, 2, 1, 1]


async def test_a_refusal_does_not_demote_the_model_for_other_sessions() -> None:
    async with (
        scripted_model([Step(status=400, message="bad"), Step(text="me first")]) as model,
        scripted_model(default=Step(text="fallback")) as other,
        agent_kit(scripted_config(model.url, fallback_url=other.url)) as kit,
    ):
        assert (await kit.say("odd", session="a")).text == "fallback"
        assert (await kit.say("plain", session="b")).text == "me first"
