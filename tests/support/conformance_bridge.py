"""Stands between the conformance suite and the gateway: gives the token, and turns tools into orders.

The suite calls tools of its own by name. Ours has one tool: a call of another name goes through as the
order "NAME ARGUMENTS", which the scripted model behind the gateway carries out.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from openclaw.testing.scripted_model import Step
from tests.support.conformance_server import (
    AUDIO,
    DEFAULTS,
    ENUMS,
    IMAGE,
    STRING,
    form,
    text,
)
from tests.support.mcp_server_kit import fake_tool

ORDER = "order_openclaw"
PLAYED = (
    "greet",
    "slow_compute",
    "failing_job",
    "confirm_delete",
    "multi_input",
    "test_input_required_result_elicitation",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_simple_text",
    "test_error_handling",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_progress",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_streaming_elicitation",
    "test_logging_tool",
)
_PASSED_ON = ("content-type", "mcp-session-id", "allow", "www-authenticate")


def _ask(number: int) -> tuple[str, dict[str, int]]:
    return ("mcp_fake_act", {"number": number})


def _step(words: str, tool: str) -> Step:
    return Step(when=words, role="user", calls=((f"mcp_fake_{tool}", {}),))


TABLE = {"uri": "file:///table.csv", "mimeType": "text/csv", "blob": "YSxiCjEsMgo="}
RESOURCE = {"type": "resource", "resource": TABLE}
TOOLS = [
    fake_tool("image", result={"content": [IMAGE]}),
    fake_tool("audio", result={"content": [AUDIO]}),
    fake_tool("resource", result={"content": [RESOURCE]}),
    fake_tool("mixed", result={"content": [text("Several"), IMAGE, RESOURCE]}),
    fake_tool("progress", progress={"times": 3, "every": 0.05}, text="done"),
    fake_tool("elicit", elicit=form("Who are you?", username=STRING, email=STRING)),
    fake_tool("defaults", elicit=DEFAULTS),
    fake_tool("enums", elicit=ENUMS),
]
"""What the agent's own MCP server has, so that an order can do what the suite's tools do."""

RULES = [
    _step("test_image_content", "image"),
    _step("test_audio_content", "audio"),
    _step("test_embedded_resource", "resource"),
    _step("test_multiple_content_types", "mixed"),
    _step("test_tool_with_progress", "progress"),
    _step("test_elicitation_sep1034_defaults", "defaults"),
    _step("test_elicitation_sep1330_enums", "enums"),
    _step("test_elicitation", "elicit"),
    Step(when="test_error_handling", role="user", status=400),
    Step(when="test_streaming_elicitation", role="user", calls=(_ask(1),)),
    Step(when='greet {"name": "sep-2243"}', role="user", text="Hello, sep-2243!"),
    Step(when='slow_compute {"seconds": 60', role="user", calls=(("mcp_fake_slow", {}),)),
    Step(when='slow_compute {"seconds": 0', role="user", text="Computed."),
    Step(when="slow_compute", role="user", calls=(("mcp_fake_brief", {}),)),
    Step(when="failing_job", role="user", calls=(("mcp_fake_fail", {}),)),
    Step(when="multi_input", role="user", calls=(_ask(1), _ask(2))),
    Step(when="multiple_inputs", role="user", calls=(_ask(1), _ask(2))),
    Step(when="multi_round", role="user", calls=(("mcp_fake_round", {}),)),
    Step(when="first of two rounds", role="tool", calls=(_ask(2),)),
    Step(when="confirm_delete", role="user", calls=(_ask(1),)),
    Step(when="test_input_required", role="user", calls=(_ask(1),)),
    Step(when="will fail", role="tool", status=400),
    Step(role="tool", text="Done: {last}"),
]


@asynccontextmanager
async def bridged(url: str, headers: dict[str, str]) -> AsyncGenerator[str]:
    """The address at which the suite finds the gateway's `/mcp`."""
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=None) as client:

        async def pass_on(request: Request) -> StreamingResponse:
            body = await request.body()
            sent = {name: value for name, value in request.headers.items() if name != "host"}
            sent = {**sent, **headers, "host": url.partition("//")[2]}
            own = request.headers.get("host", "")
            if "127.0.0.1" not in own and "localhost" not in own:
                sent["host"] = own  # the suite pretends to be somebody else
            if sent.get("origin", "").partition("//")[2] == own:
                sent["origin"] = f"http://{sent['host']}"
            body, sent = _as_order(body, sent)
            sent.pop("content-length", None)
            passed = client.build_request(request.method, "/mcp", content=body, headers=sent)
            answer = await client.send(passed, stream=True)
            kept = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}

            async def chunks() -> AsyncGenerator[bytes]:
                try:
                    async for chunk in answer.aiter_bytes():
                        yield chunk
                except httpx2.HTTPError:
                    return
                finally:
                    with anyio.CancelScope(shield=True):
                        await answer.aclose()

            return StreamingResponse(chunks(), answer.status_code, kept)

        route = Route("/mcp", pass_on, methods=["GET", "POST", "DELETE", "OPTIONS"])
        host = uvicorn.Server(uvicorn.Config(Starlette(routes=[route]), port=0, log_level="error"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.serve)
            with anyio.fail_after(60):
                while not host.started:  # noqa: ASYNC110 (it has no event for this)
                    await anyio.sleep(0.01)
            yield f"http://127.0.0.1:{host.servers[0].sockets[0].getsockname()[1]}/mcp"
            host.should_exit = True


def _as_order(body: bytes, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    try:
        message: Any = json.loads(body)
        name = message["params"]["name"]
        if message["method"] != "tools/call" or name not in PLAYED:
            return body, headers
    except (ValueError, KeyError, TypeError):
        return body, headers
    answers: dict[str, Any] = message["params"].get("inputResponses") or {}
    for answer in answers.values():
        if isinstance(answer, dict) and "content" in answer:
            answer["content"] = {
                "answer": "once"
            }  # the person agrees, in the words of our question
    arguments = json.dumps(message["params"].get("arguments") or {})
    message["params"] |= {"name": ORDER, "arguments": {"message": f"{name} {arguments}"}}
    if headers.get("mcp-name") == name:
        headers = {**headers, "mcp-name": ORDER}
    return json.dumps(message).encode(), headers
