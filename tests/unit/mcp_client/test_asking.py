"""A server's question goes to the person on whose behalf it works, and to nobody else."""

import contextvars

import anyio

from openclaw.core.tools import Elicit, JsonObject
from openclaw.mcp_client.asking import Asking, decline

QUESTION: JsonObject = {"message": "?"}


def person(name: str) -> Elicit:
    async def answer(server: str, params: JsonObject) -> JsonObject:
        return {"action": "accept", "content": {"who": name, "server": server}}

    return answer


async def asked_elsewhere(asking: Asking) -> object:
    """The answer to a question that comes by itself, in a task of the connection's."""
    answers: list[JsonObject] = []

    async def ask() -> None:
        answers.append(await asking("s", QUESTION))

    async with anyio.create_task_group() as tasks:
        contextvars.Context().run(tasks.start_soon, ask)
    (answer,) = answers
    return answer["content"]["who"] if "content" in answer else answer["action"]


async def test_the_one_who_calls_is_asked() -> None:
    asking = Asking(decline)
    with asking.on_behalf(person("Ada")):
        assert await asked_elsewhere(asking) == "Ada"
    assert await asked_elsewhere(asking) == "decline"


async def test_several_calls_of_one_turn_are_one_person() -> None:
    asking, ada = Asking(decline), person("Ada")
    with asking.on_behalf(ada), asking.on_behalf(ada):
        assert await asked_elsewhere(asking) == "Ada"


async def test_nobody_is_asked_where_it_could_be_for_two() -> None:
    asking = Asking(person("the host"))
    with asking.on_behalf(person("Ada")), asking.on_behalf(person("Bob")):
        assert await asked_elsewhere(asking) == "decline"
    with asking.on_behalf(person("Ada")), asking.on_behalf(None):
        assert await asked_elsewhere(asking) == "decline"


async def test_a_question_inside_of_a_call_is_that_calls() -> None:
    asking = Asking(decline)
    with asking.on_behalf(person("Ada")), asking.on_behalf(person("Bob")):
        assert (await asking("s", QUESTION))["content"] == {"who": "Bob", "server": "s"}


async def test_a_question_that_belongs_to_no_call_is_the_hosts() -> None:
    assert await asked_elsewhere(Asking(person("the host"))) == "the host"
