"""The embedded model with its real weights, behind the model library's own agent."""

import json
import logging
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import BinaryImage, ModelRequest, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from openclaw.core.errors import ModelUnavailable
from openclaw.embedded.local_models import LocalModels
from openclaw.embedded.model import LocalModel, argument_prompt, choice_prompt
from openclaw.embedded.model_io import Turn
from openclaw.embedded.runner import Prompt, Runner, RunnerFailed, UnusableSchema
from openclaw.embedded.tool_doc import RoutableTool

CLOCK_SCHEMA = {
    "type": "object",
    "properties": {"timezone": {"type": "string", "description": "IANA timezone name"}},
    "required": ["timezone"],
}
CLOCK = ToolDefinition(
    name="mcp_time_get_current_time",
    description="[MCP server: time] Get current time in a specific timezone",
    parameters_json_schema=CLOCK_SCHEMA,
)


@pytest.fixture(scope="module")
async def models(models_dir: Path) -> AsyncGenerator[LocalModels]:
    models = LocalModels(models_dir, {}, fetch=False)
    yield models
    await models.aclose()


@pytest.fixture
async def model(models: LocalModels) -> LocalModel:
    return await models.build("smollm2-135m")


@pytest.fixture(scope="module")
async def runner(models: LocalModels) -> Runner:
    return models.runner("smollm2-135m")


def say(text: str, tokens: int = 40) -> Prompt:
    return Prompt([{"role": "user", "content": text}], tokens)


async def answer(runner: Runner, prompt: Prompt) -> str:
    return await (await runner.generate(prompt)).text()


def asked(text: Any) -> list[Any]:
    return [ModelRequest(parts=[UserPromptPart(text)])]


async def test_a_question_is_answered_in_words_and_counted(model: LocalModel) -> None:
    answer = await Agent(model).run("What is the capital of France?")
    assert "Paris" in answer.output
    assert answer.usage.input_tokens > 50
    assert answer.usage.output_tokens > 2


async def test_an_answer_is_streamed_in_pieces(model: LocalModel) -> None:
    async with Agent(model).run_stream("Tell me about dogs") as answer:
        pieces = [piece async for piece in answer.stream_text(delta=True, debounce_by=None)]
        assert len(pieces) > 3
        assert "dog" in "".join(pieces).lower()
    assert answer.usage.output_tokens > 3


async def test_the_first_answer_says_in_the_log_what_the_model_is_good_for(
    model: LocalModel, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await model.request(asked("hi"), None, ModelRequestParameters())
        await model.request(asked("hi"), None, ModelRequestParameters())
    assert caplog.text.count("small talk and simple tool requests") == 1


async def test_a_tool_is_called_and_its_result_rendered_by_the_librarys_own_loop(
    model: LocalModel,
) -> None:
    agent = Agent(model)

    @agent.tool_plain(name="get_current_time")
    def clock(timezone: str) -> str:
        """Get current time in a specific timezone."""
        return json.dumps({"timezone": timezone, "datetime": "2026-11-16T05:47:00+09:00"})

    answer = await agent.run("What time is it in Tokyo?")
    assert "05:47 on Monday, 16 November 2026" in answer.output
    assert "Source: get_current_time" in answer.output
    assert answer.usage.output_tokens == 0


async def test_a_tool_call_and_a_rendered_result_can_be_streamed(model: LocalModel) -> None:
    parameters = ModelRequestParameters(function_tools=[CLOCK])
    question = asked("What time is it in Tokyo?")
    async with model.request_stream(question, None, parameters) as stream:
        events = [event async for event in stream]
        response = stream.get()
    assert events
    assert isinstance(response.parts[0], ToolCallPart)
    assert response.parts[0].args_as_dict() == {"timezone": "Asia/Tokyo"}
    assert (response.model_name, response.provider_name) == ("smollm2-135m-instruct", "local")
    assert stream.timestamp <= response.timestamp


async def test_an_image_is_answered_honestly(model: LocalModel) -> None:
    picture = BinaryImage(b"\x89PNG", media_type="image/png")
    for shown in (picture, "[image cat.png: not shown]"):
        messages = asked(["What is this?", shown])
        async with model.request_stream(messages, None, ModelRequestParameters()) as stream:
            async for _ in stream:
                pass
            said = stream.get().parts[0]
        assert isinstance(said, TextPart)
        assert "cannot see" in said.content


async def test_cancelling_stops_the_writing_before_the_next_token(
    model: LocalModel, runner: Runner
) -> None:
    async with model.request_stream(
        asked("Write a long story about the sea"), None, ModelRequestParameters()
    ) as stream:
        async for _ in stream:
            story = runner._current
            assert story is not None
            await stream.cancel()
            assert await answer(runner, say("hi", 3))  # waits for what is written before it
            assert story.output_tokens == 0, "they are counted when all are written"
            break


async def test_a_cancelled_task_leaves_the_model_usable(runner: Runner) -> None:
    story = await runner.generate(say("Write a very long story", 400))
    with anyio.CancelScope() as scope:
        async for _ in story.pieces():
            scope.cancel()
    assert scope.cancelled_caught
    assert await answer(runner, say("hi", 3))
    assert story.output_tokens == 0, "it was written to its end"


async def test_prompts_are_answered_one_after_the_other(runner: Runner) -> None:
    answers: list[str] = []

    async def ask(text: str) -> None:
        answers.append(await answer(runner, say(text, 8)))

    async with anyio.create_task_group() as group:
        for text in ("Say one", "Say two", "Say three"):
            group.start_soon(ask, text)
    assert len(answers) == 3
    assert all(answers)
    owners = [t for t in threading.enumerate() if t.name == "openclaw-local-model"]
    assert len(owners) == 1


async def test_a_prompt_that_does_not_fit_is_refused(runner: Runner) -> None:
    with pytest.raises(RunnerFailed):
        await answer(runner, say("word " * 4000))


async def test_a_message_that_is_too_long_is_cut_and_the_answer_says_so(models_dir: Path) -> None:
    models = LocalModels(models_dir, {}, fetch=False)
    model = await models.build("smollm2-135m", context_window=1024)
    long = asked("漢字" * 4000)
    async with model.request_stream(long, {"max_tokens": 5}, ModelRequestParameters()) as stream:
        async for _ in stream:
            pass
    await models.aclose()
    answer = stream.get()
    assert answer.usage.input_tokens > 500
    said = answer.parts[0]
    assert isinstance(said, TextPart)
    assert said.content.startswith("[The message is too long for the embedded model: of its")
    assert "8,000 characters, only the first" in said.content


async def test_a_schema_holds_the_answer_to_its_shape(runner: Runner) -> None:
    schema = {
        "type": "object",
        "properties": {"capital": {"enum": ["yes", "no"]}, "count": {"type": "integer"}},
        "required": ["capital"],
        "additionalProperties": False,
    }
    prompt = Prompt([{"role": "user", "content": "Is Rome a capital?"}], 60, schema=schema)
    assert json.loads(await answer(runner, prompt))["capital"] in ("yes", "no")
    wrong = Prompt(
        prompt.messages, 60, schema={"type": "object", "properties": {"a": {"type": "?"}}}
    )
    with pytest.raises(UnusableSchema):
        await answer(runner, wrong)


async def test_what_the_adapter_asks_is_answered_in_the_shape_it_needs(runner: Runner) -> None:
    """The mechanics only: a model of this size chooses badly, but never out of form."""

    tool = RoutableTool(CLOCK.name, CLOCK.description or "", CLOCK_SCHEMA, "", True)
    turn = Turn("What time is it in Tokyo?")
    choice = json.loads(await answer(runner, choice_prompt(turn, [tool])))
    assert choice["action"] in ("reply", tool.name)
    arguments = json.loads(await answer(runner, argument_prompt(turn, tool, CLOCK_SCHEMA)))
    assert isinstance(arguments["timezone"], str)


async def test_a_gguf_of_the_users_own_is_used_where_it_lies(models_dir: Path) -> None:
    path = models_dir / "smollm2-135m-instruct.gguf"
    models = LocalModels(models_dir, {})
    try:
        model = await models.build(str(path))
        assert model.model_name == "smollm2-135m-instruct"
        answer = await model.request(asked("hi"), {"max_tokens": 5}, ModelRequestParameters())
        assert answer.parts
    finally:
        await models.aclose()


async def test_weights_that_are_not_there_are_named_with_the_command_that_fetches_them(
    tmp_path: Path,
) -> None:
    absent = LocalModel(LocalModels(tmp_path, {}).runner("qwen3-4b"))
    with pytest.raises(ModelUnavailable) as raised:
        await absent.request(asked("hi"), None, ModelRequestParameters())
    assert raised.value.hint is not None
    assert "openclaw models pull qwen3-4b" in raised.value.hint
    with pytest.raises(ModelUnavailable, match="no weights called"):
        LocalModels(tmp_path, {}).runner("unheard-of")


async def test_tools_work_without_any_weights(tmp_path: Path) -> None:
    model = LocalModel(LocalModels(tmp_path, {}).runner("smollm2"))
    parameters = ModelRequestParameters(function_tools=[CLOCK])
    answer = await model.request(asked("What time is it in Oslo?"), None, parameters)
    assert isinstance(answer.parts[0], ToolCallPart)
