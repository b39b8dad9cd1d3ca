"""Calls that the policy leaves to a person."""

from openclaw.agent.port import MessageContext, PermissionRequest, TurnListener
from openclaw.core.events import Event, ToolFinished, ToolStarted
from openclaw.core.tools import CallContext, JsonObject, ToolResult, failed
from openclaw.policy import Rules
from openclaw.testing.agent_kit import FakeTools, agent_kit, scripted_config
from openclaw.testing.scripted_model import Step, scripted_model

ASK = [Rules.of("tools", ask=["send*"])]


async def run(
    answer: bool | None, to: str = "ann"
) -> tuple[FakeTools, list[PermissionRequest], list[Event], str]:
    """One turn whose model sends mail, with a person who answers so, or with nobody to ask."""
    tools = FakeTools()
    approved: list[bool] = []

    async def send(arguments: JsonObject, context: CallContext) -> ToolResult:
        approved.append(context.approved)
        return failed("no such mailbox")

    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    tools.add("send_mail", send, schema=schema)
    asked: list[PermissionRequest] = []
    events: list[Event] = []

    async def ask(request: PermissionRequest) -> bool:
        asked.append(request)
        return bool(answer)

    async with (
        scripted_model([Step(calls=(("send_mail", {"to": to}),)), Step(text="{last}")]) as model,
        agent_kit(scripted_config(model.url), tools=tools, policy=ASK) as kit,
    ):
        reply = await kit.reply(
            MessageContext(text="send it", session_key="s"),
            TurnListener(on_event=events.append, ask=None if answer is None else ask),
        )
        shown = model.requests[0].tools
    assert ("send_mail" in shown) is (answer is not None)
    assert approved == ([True] if answer else [])
    return tools, asked, events, reply.text


async def test_a_call_that_the_person_agrees_to_is_made_and_known_as_approved() -> None:
    tools, asked, events, text = await run(answer=True)
    assert tools.calls == [("send_mail", {"to": "ann"})]
    assert [(one.name, one.arguments) for one in asked] == [("send_mail", {"to": "ann"})]
    assert any(isinstance(event, ToolStarted) for event in events)
    assert "no such mailbox" in text


async def test_a_call_that_the_person_refuses_is_not_made_and_the_model_is_told() -> None:
    tools, asked, events, text = await run(answer=False)
    assert (tools.calls, len(asked)) == ([], 1)
    assert not any(isinstance(event, ToolStarted) for event in events)
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.result.is_error
    assert "The person did not allow this call of send_mail. Do without it." in text


async def test_where_nobody_can_be_asked_the_call_is_denied_with_the_reason() -> None:
    tools, asked, _, text = await run(answer=None)
    assert (tools.calls, asked) == ([], [])
    assert "tools.ask has 'send*', and nobody can be asked here" in text


async def test_the_person_sees_the_call_that_runs_and_no_terminal_obeys_it() -> None:
    disguised = "AWS_SECRET_ACCESS_KEY=`touch$IFS/pwned` ls"
    tools, [asked], _, _ = await run(answer=True, to=f"{disguised}\x1b[2J\nann")
    assert tools.calls == [("send_mail", {"to": f"{disguised}\x1b[2J\nann"})]
    assert asked.body == f"to:\n  {disguised}<U+001B>[2J\n  ann"
    assert asked.arguments == {"to": f"{disguised}<U+001B>[2J\nann"}
    assert asked.title == "send_mail"
