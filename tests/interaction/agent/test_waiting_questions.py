"""A question that nobody can answer waits, and the session carries on with the answer."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.support.agent_kit import AgentKit, FakeTools, agent_kit, scripted_config

from openclaw.agent.port import MessageContext, Reply, TurnListener
from openclaw.core.errors import InvalidRequest, NotFound, UserFacing
from openclaw.core.questions import ONCE, Answer, Question
from openclaw.policy.decide import Rules
from openclaw.sessions import waiting_questions
from openclaw.sessions.task_records import delete_session
from openclaw.sessions.waiting_questions import WaitingQuestion
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

ASK = [Rules("tools", ask=["send*"])]
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}


def send(*addresses: str) -> Step:
    return Step(calls=tuple(("send_mail", {"to": one}) for one in addresses))


DONE = Step(text="Done: {last}")


@asynccontextmanager
async def kit_with(*steps: Step) -> AsyncGenerator[tuple[AgentKit, ScriptedModel]]:
    tools = FakeTools()
    tools.add("send_mail", "sent", schema=SCHEMA)
    async with (
        scripted_model(list(steps)) as model,
        agent_kit(scripted_config(model.url), tools=tools, policy=ASK) as kit,
    ):
        yield kit, model


async def say(kit: AgentKit, text: str = "go on", **more: str) -> Reply:
    return await kit.reply(MessageContext(text=text, session_key="s", **more))  # pyright: ignore[reportArgumentType]


async def waiting(kit: AgentKit) -> list[WaitingQuestion]:
    return await waiting_questions.open_questions(kit.store, kit.service.clock.now_ms())


async def answer(kit: AgentKit, reply: Reply, *, allow: bool, reason: str = "") -> None:
    now = kit.service.clock.now_ms()
    (id,) = reply.questions
    question = await waiting_questions.find_question(kit.store, id, now)
    await waiting_questions.answer_question(
        kit.store, question, allow=allow, reason=reason, now_ms=now
    )


def called(kit: AgentKit) -> Sequence[str]:
    return [arguments["to"] for _, arguments in kit.tools.calls]


async def test_the_answer_says_what_is_needed_and_how_to_allow_it() -> None:
    async with kit_with(send("ann"), DONE) as (kit, _):
        reply = await say(kit)
        (question,) = await waiting(kit)
        assert called(kit) == []
    assert "was not made yet" in reply.text
    assert "They say" not in reply.text
    assert "Waiting for your answer: Send mail to ann?" in reply.text
    assert f"`openclaw questions answer {question.id}`" in reply.text
    assert reply.questions == (question.id,)
    assert question.question.body == "to: ann"


async def test_an_allowed_call_is_made_once_and_only_with_its_arguments() -> None:
    steps = (send("ann"), DONE, send("bob"), send("ann"), send("ann"), DONE)
    async with kit_with(*steps) as (kit, model):
        await answer(kit, await say(kit), allow=True)
        reply = await say(kit)
        assert called(kit) == ["ann"]
        sent = json.dumps(model.requests[2].body)
        assert sent.count("allows this call, exactly as written and once") == 1
        assert json.dumps("send_mail " + '{"to": "ann"}')[1:-1] in sent
        bob, again = next(one.question.calls for one in await waiting(kit))
        assert [bob.arguments, again.arguments] == [{"to": "bob"}, {"to": "ann"}]
    assert "Allow these 2 steps? (1) Send mail to bob? (2) Send mail to ann?" in reply.text


async def test_a_refusal_reaches_the_model_with_its_reason() -> None:
    async with kit_with(send("ann"), DONE, send("ann"), DONE) as (kit, _):
        await answer(kit, await say(kit), allow=False, reason="ask Ann first")
        reply = await say(kit)
        assert (called(kit), await waiting(kit)) == ([], [])
    assert "The user did not allow this call of send_mail. They say: ask Ann first" in reply.text


async def test_a_whole_plan_is_one_question() -> None:
    async with kit_with(send("ann", "bob"), send("cy"), DONE, send("cy", "bob", "ann"), DONE) as (
        kit,
        _,
    ):
        reply = await say(kit)
        assert reply.text.count("openclaw questions answer") == 1
        await answer(kit, reply, allow=True)
        await say(kit)
        assert sorted(called(kit)) == ["ann", "bob", "cy"]


async def test_asking_again_before_an_answer_repeats_the_same_question() -> None:
    async with kit_with(send("ann"), DONE, send("ann"), DONE) as (kit, _):
        first, second = await say(kit), await say(kit)
        assert first.questions == second.questions
        assert len(await waiting(kit)) == 1


async def test_somebody_who_is_there_answers_at_once_and_closes_the_question() -> None:
    asked: list[str] = []

    async def ask(question: Question) -> Answer:
        asked.append(question.title)
        return Answer(ONCE)

    async with kit_with(send("ann"), DONE, send("ann"), DONE) as (kit, _):
        await say(kit)
        await kit.reply(MessageContext(text="go on", session_key="s"), TurnListener(ask=ask))
        assert (called(kit), asked) == (["ann"], ["Send mail to ann?"])
        assert await waiting(kit) == []


async def test_a_turn_without_a_message_takes_up_an_answer() -> None:
    async with kit_with(send("ann"), DONE, send("ann"), DONE) as (kit, _):
        await answer(kit, await say(kit, origin="cron"), allow=True)
        await say(kit, "", origin="question")
        assert called(kit) == ["ann"]
        with pytest.raises(InvalidRequest, match="no new answer"):
            await say(kit, "", origin="question")


async def test_the_first_answer_counts_and_an_old_question_is_gone() -> None:
    async with kit_with(send("ann"), DONE) as (kit, _):
        reply = await say(kit)
        await answer(kit, reply, allow=False)
        with pytest.raises(UserFacing, match="already been answered"):
            await answer(kit, reply, allow=True)
        later = kit.service.clock.now_ms() + waiting_questions.EXPIRE_MS + 1
        with pytest.raises(NotFound, match="has expired"):
            await waiting_questions.find_question(kit.store, reply.questions[0], later)


async def test_a_deleted_session_has_no_questions() -> None:
    async with kit_with(send("ann"), DONE) as (kit, _):
        await say(kit)
        (session,) = await kit.store.find_sessions("s")
        await delete_session(kit.store, session, kit.service.clock.now_ms())
        assert await waiting(kit) == []


async def test_another_session_has_questions_of_its_own() -> None:
    async with kit_with(send("ann"), DONE, send("ann"), DONE) as (kit, _):
        await answer(kit, await say(kit), allow=True)
        await kit.say("go on", session="other")
        assert called(kit) == []
        assert [one.place.session for one in await waiting(kit)] == ["other"]
