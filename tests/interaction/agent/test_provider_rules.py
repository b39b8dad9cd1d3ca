"""Random turns, none of which a provider would refuse."""

import random
from dataclasses import dataclass, field

import anyio
import pytest
from tests.interaction.agent.test_media import picture
from tests.support.agent_kit import APIS, FakeTools, agent_kit, scripted_config
from tests.support.provider_rules import violations

from openclaw.agent.port import MessageContext
from openclaw.core.content import InboundMedia, Media, Text
from openclaw.core.errors import OpenClawError
from openclaw.core.tools import CallContext, JsonObject, ToolResult
from openclaw.testing.scripted_model import Request, Script, Step, scripted_model


@dataclass
class RandomScript(Script):
    """A model that does anything."""

    dice: random.Random = field(default_factory=random.Random)

    def answer(self, request: Request) -> Step:
        self.requests.append(request)
        dice = self.dice
        if dice.random() < 0.04:
            return dice.choice(
                [
                    Step(status=500),
                    Step(status=429, retry_after=0),
                    Step(status=400, message="could not process image"),
                    Step(status=413, message="request too large"),
                    Step(overflow=True),
                    Step(text="word " * 30, cut_after=4),
                ]
            )
        if dice.random() < 0.45 and request.tools:
            return Step(text=dice.choice(["", "\n", "I will look."]), calls=self._calls(request))
        return Step(text=dice.choice(["Fine. " + "y" * dice.randrange(900), "", " \n"]))

    def _calls(self, request: Request) -> tuple[tuple[str, JsonObject | str], ...]:
        dice = self.dice
        broken = [] if request.api == "google" else ['{"a": "', "[1]", ""]
        arguments = [{}, {"path": "a.txt"}, {"text": "x" * dice.randrange(2_000)}, *broken]
        names = ["look", "look", "shoot", "fail", "nothing_like_it", "update_plan"]
        return tuple(
            (dice.choice(names), dice.choice(arguments)) for _ in range(dice.randrange(1, 4))
        )


def some_tools(dice: random.Random) -> FakeTools:
    async def look(arguments: JsonObject, context: CallContext) -> ToolResult:
        return ToolResult(blocks=(Text("z" * dice.randrange(3_000)),))

    async def shoot(arguments: JsonObject, context: CallContext) -> ToolResult:
        return ToolResult(blocks=(Media("image/png", data=picture(dice.randrange(50))),))

    async def fail(arguments: JsonObject, context: CallContext) -> ToolResult:
        raise RuntimeError("no")

    tools = FakeTools()
    for name, does in (("look", look), ("shoot", shoot), ("fail", fail)):
        tools.add(name, does)
    tools.add("update_plan", "noted")
    return tools


@pytest.mark.parametrize("api", APIS)
async def test_no_request_of_random_turns_breaks_a_providers_rules(api: str, soaking: bool) -> None:
    turns = 250 if soaking else 30
    dice = random.Random(api)
    script = RandomScript(dice=dice)
    model = {"contextWindow": 6_000, "maxTokens": 500}
    async with (
        scripted_model(script=script) as server,
        agent_kit(
            scripted_config(server.url, api=api, model=model, limits={"maxSteps": 8}),
            tools=some_tools(dice),
        ) as kit,
    ):
        for number in range(turns):
            media = tuple(
                InboundMedia(Media("image/png", data=picture(dice.randrange(99))))
                for _ in range(dice.choice([0, 0, 0, 1, 3]))
            )
            context = MessageContext(
                dice.choice(["hello", "go on " * dice.randrange(1, 200), "/compact"]),
                f"s{number % 12}",
                media=media,
                prompt_calls=True,
            )
            with anyio.move_on_after(dice.choice([0.02, 60, 60, 60, 60])):
                try:
                    await kit.reply(context)
                except OpenClawError:
                    continue
    assert len(script.requests) > turns
    broken = [(at, bad) for at, one in enumerate(script.requests) if (bad := violations(one))]
    assert broken == []
