"""The scripted model itself, as a process and in a test."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openclaw.testing.scripted_model import Step, parse_request, parse_script, scripted_model

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


async def post(url: str, body: dict[str, Any]) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return await client.post(url, json=body)


def test_as_a_process_it_prints_its_address_and_serves_its_script(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"default": {"text": "you said {last}"}}))
    command = [sys.executable, "-m", "openclaw.testing.scripted_model", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with httpx2.Client(trust_env=False) as client:
            answer = client.post(f"{url}/v1/chat/completions", json=CHAT).json()
            seen = client.get(f"{url}/requests").json()
        process.terminate()
    assert answer["choices"][0]["message"]["content"] == "you said hi"
    assert [request["path"] for request in seen] == ["/v1/chat/completions"]


def test_a_script_is_read_from_json() -> None:
    script = parse_script(
        {
            "steps": [{"calls": [{"name": "a", "arguments": {"x": 1}}, {"name": "b"}]}],
            "rules": [{"when": "rain", "text": "umbrella"}],
        }
    )
    assert script.steps == [Step(calls=(("a", {"x": 1}), ("b", {})))]
    assert script.rules == (Step(when="rain", text="umbrella"),)
    assert script.default is None


async def test_a_rule_comes_before_the_next_step_and_the_default_last() -> None:
    rules = [Step(when="rain", text="rule"), Step(model="other", text="by model")]
    async with scripted_model([Step(text="step")], rules=rules, default=Step(text="end")) as server:
        url = f"{server.url}/v1/chat/completions"
        said: list[str] = []
        for text, model in [("rain", "m"), ("x", "m"), ("x", "other"), ("x", "m")]:
            body = {"model": model, "messages": [{"role": "user", "content": text}]}
            answer = (await post(url, body)).json()
            said.append(answer["choices"][0]["message"]["content"])
    assert said == ["rule", "step", "by model", "end"]


async def test_a_script_that_is_used_up_says_so() -> None:
    async with scripted_model() as server:
        answer = await post(f"{server.url}/v1/chat/completions", CHAT)
    assert answer.status_code == 400
    assert "no more steps" in answer.text


async def test_a_tool_in_a_namespace_is_called_there() -> None:
    tools = [{"type": "namespace", "name": "ours", "tools": [{"type": "function", "name": "act"}]}]
    body = {"model": "m", "input": "Act.", "tools": tools}
    async with scripted_model([Step(calls=(("ours/act", {}),))]) as server:
        answer = await post(f"{server.url}/v1/responses", body)
        assert server.requests[0].tools == ("ours/act",)
    (call,) = answer.json()["output"]
    assert (call["namespace"], call["name"]) == ("ours", "act")


async def test_an_unknown_address_is_not_found() -> None:
    async with scripted_model() as server, httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{server.url}/nothing")).status_code == 404
        assert (await client.post(f"{server.url}/nothing", json={})).status_code == 404
        assert (await client.get(f"{server.url}/v1/models")).json()["data"] == [{"id": "scripted"}]


async def test_an_error_carries_its_wait() -> None:
    async with scripted_model([Step(status=429, retry_after=2)]) as server:
        answer = await post(f"{server.url}/v1/messages", CHAT)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "2"
    assert answer.json()["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize(
    ("path", "body", "role", "text"),
    [
        ("/v1/responses", {"input": "plain"}, "user", "plain"),
        (
            "/v1/responses",
            {"input": [{"type": "function_call_output", "output": "result"}]},
            "tool",
            "result",
        ),
        (
            "/v1/messages",
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "r"}]}]},
            "tool",
            "r",
        ),
        (
            "/v1beta/models/gem:generateContent",
            {"contents": [{"parts": [{"functionResponse": {"response": {"a": 1}}}]}]},
            "tool",
            '{"a": 1}',
        ),
        ("/v1/chat/completions", {"messages": [{"role": "tool", "content": None}]}, "tool", ""),
    ],
)
def test_the_last_message_is_found_on_every_wire(
    path: str, body: dict[str, Any], role: str, text: str
) -> None:
    request = parse_request(path, {}, body)
    assert request is not None
    assert (request.last_role, request.last_text) == (role, text)


def test_googles_model_and_streaming_are_in_the_address() -> None:
    body = {"contents": [{"parts": [{"text": "hi"}]}]}
    request = parse_request("/v1beta/models/gem:streamGenerateContent?alt=sse", {}, body)
    assert request is not None
    assert (request.model, request.stream, request.last_text) == ("gem", True, "hi")
