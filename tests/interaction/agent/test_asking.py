"""Calls that the policy leaves to a person."""

from tests.support.agent_kit import FakeTools, agent_kit, scripted_config

from openclaw.agent.port import MessageContext, TurnListener
from openclaw.core.events import Event, ToolFinished, ToolStarted
from openclaw.core.questions import NO, ONCE, SESSION, Answer, Question
from openclaw.core.tools import CallContext, JsonObject, ToolResult, failed
from openclaw.policy.decide import Rules
from openclaw.testing.scripted_model import Step, scripted_model

ASK = [Rules("tools", ask=["send*"])]


def sending(to: str) -> Step:
    return Step(calls=(("send_mail", {"to": to}),))


SEND = sending("ann")


async def run(
    answer: str | None, to: str = "ann", reason: str = ""
) -> tuple[FakeTools, list[Question], list[Event], str]:
    """One turn whose model sends mail twice, with a person who answers so, or with nobody to ask."""
    tools = FakeTools()
    approved: list[bool] = []

    async def send(arguments: JsonObject, context: CallContext) -> ToolResult:
        approved.append(context.approved)
        return failed("no such mailbox")

    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    tools.add("send_mail", send, schema=schema)
    asked: list[Question] = []
    events: list[Event] = []

    async def ask(request: Question) -> Answer:
        asked.append(request)
        return Answer(answer or NO, reason)

    async with (
        scripted_model([SEND if to == "ann" else sending(to), SEND, Step(text="{last}")]) as model,
        agent_kit(scripted_config(model.url), tools=tools, policy=ASK) as kit,
    ):
        reply = await kit.reply(
            MessageContext(text="send it", session_key="s"),
            TurnListener(on_event=events.append, ask=None if answer is None else ask),
        )
        shown = model.requests[0].tools
    assert "send_mail" in shown
    assert all(approved)
    return tools, asked, events, reply.text


async def test_a_call_that_the_person_agrees_to_is_made_and_known_as_approved() -> None:
    tools, asked, events, text = await run(answer=ONCE)
    assert tools.calls == [("send_mail", {"to": "ann"})] * 2
    assert [(one.call.name, one.call.arguments) for one in asked] == [
        ("send_mail", {"to": "ann"})
    ] * 2
    assert any(isinstance(event, ToolStarted) for event in events)
    assert "no such mailbox" in text


async def test_a_call_that_the_person_refuses_is_not_made_and_the_model_is_told() -> None:
    tools, asked, events, text = await run(answer=NO)
    assert (tools.calls, len(asked)) == ([], 2)
    assert not any(isinstance(event, ToolStarted) for event in events)
    finished = [event for event in events if isinstance(event, ToolFinished)]
    assert [one.result.is_error for one in finished] == [True, True]
    assert "The user did not allow this call of send_mail. Continue without this tool." in text


async def test_the_model_reads_the_reason_of_a_refusal() -> None:
    _, _, _, text = await run(answer=NO, reason="ask Ann first")
    assert "did not allow this call of send_mail. They say: ask Ann first" in text


async def test_an_answer_for_the_session_holds_for_the_next_call() -> None:
    tools, asked, _, _ = await run(answer=SESSION)
    assert (len(tools.calls), len(asked)) == (2, 1)
    assert [one.id for one in asked[0].choices] == [
        ONCE,
        SESSION,
        NO,
    ]  # nothing can be written here


async def test_an_answer_that_was_not_offered_is_a_no() -> None:
    tools, asked, _, _ = await run(answer="always")
    assert (tools.calls, len(asked)) == ([], 2)


async def test_the_person_sees_the_call_that_runs_and_no_terminal_obeys_it() -> None:
    disguised = "AWS_SECRET_ACCESS_KEY=`touch$IFS/pwned` ls"
    tools, [asked, _], _, _ = await run(answer=ONCE, to=f"{disguised}\x1b[2J\nann")
    assert tools.calls[0] == ("send_mail", {"to": f"{disguised}\x1b[2J\nann"})
    assert asked.body == f"to:\n  {disguised}<U+001B>[2J\n  ann"
    assert asked.call.arguments == {"to": f"{disguised}<U+001B>[2J\nann"}
    assert asked.title.startswith("Send mail to AWS_SECRET")
