"""A model provider on loopback that says what a script tells it to, over real HTTP.

It speaks OpenAI chat completions, OpenAI responses, Anthropic messages and Google generateContent,
streamed or not, and records every request. In a test:

    async with scripted_model([Step(text="Hello.")]) as model:
        ...  # model.url, model.requests

As a process: `python -m openclaw.testing.scripted_model --port 0 --script FILE` prints its address.
The script is JSON: `{"steps": [STEP, …], "rules": [STEP with "when", …], "default": STEP}`. A request
is answered by the first rule that matches it, else by the next step, else by the default. Requests
for what the user wants, whose only tool is `allow_actions`, take no step: `intent` answers them.
"""

import argparse
import json
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from openclaw.policy.dataflow.intent import ALLOW_ACTIONS
from openclaw.testing import scripted_wire as wire
from openclaw.testing.scripted_wire import Step

_MAX_HEAD = 65_536
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


@dataclass(frozen=True, slots=True)
class Request:
    api: wire.Api
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    model: str
    stream: bool
    last_role: str
    last_text: str
    tools: tuple[str, ...]


def _matches(rule: Step, request: Request) -> bool:
    return (
        (rule.when is None or rule.when in request.last_text)
        and (rule.role is None or rule.role == request.last_role)
        and (rule.model is None or rule.model == request.model)
    )


@dataclass(slots=True)
class Script:
    steps: list[Step] = field(default_factory=list[Step])
    rules: tuple[Step, ...] = ()
    default: Step | None = None
    intent: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    requests: list[Request] = field(default_factory=list[Request])
    intent_requests: list[Request] = field(default_factory=list[Request])

    def answer(self, request: Request) -> Step:
        if request.tools == (ALLOW_ACTIONS,):
            self.intent_requests.append(request)
            actions = [{"tool": tool, "values": [*values]} for tool, values in self.intent.items()]
            return Step(calls=((ALLOW_ACTIONS, {"actions": actions}),))
        self.requests.append(request)
        for rule in self.rules:
            if _matches(rule, request):
                return rule
        if self.steps:
            return self.steps.pop(0)
        return self.default or Step(status=400, message="the script has no more steps")


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    url: str
    script: Script

    @property
    def requests(self) -> list[Request]:
        return self.script.requests

    @property
    def intent_requests(self) -> list[Request]:
        return self.script.intent_requests


def parse_step(raw: Mapping[str, Any]) -> Step:
    fields = dict(raw)
    calls = tuple((call["name"], call.get("arguments", {})) for call in fields.pop("calls", ()))
    return Step(calls=calls, **fields)


def parse_script(raw: Mapping[str, Any]) -> Script:
    default = raw.get("default")
    return Script(
        steps=[parse_step(step) for step in raw.get("steps", ())],
        rules=tuple(parse_step(rule) for rule in raw.get("rules", ())),
        default=parse_step(default) if default is not None else None,
        intent=raw.get("intent", {}),
    )


@asynccontextmanager
async def scripted_model(
    steps: Iterable[Step] = (),
    *,
    rules: Sequence[Step] = (),
    default: Step | None = None,
    intent: Mapping[str, Sequence[str]] | None = None,
    script: Script | None = None,
    port: int = 0,
) -> AsyncGenerator[ScriptedModel]:
    """Serve the script until the block ends, then close open connections."""
    script = script or Script(list(steps), tuple(rules), default, intent or {})
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    bound: int = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio's, not Django's

    async def serve(client: SocketStream) -> None:
        async with client:
            await _Connection(client, script).run()

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve, name="scripted model")
        yield ScriptedModel(f"http://127.0.0.1:{bound}", script)
        tasks.cancel_scope.cancel()


class _Connection:
    def __init__(self, client: SocketStream, script: Script) -> None:
        self._client = client
        self._reader = BufferedByteReceiveStream(client)
        self._script = script

    async def run(self) -> None:
        try:
            while await self._exchange():
                pass
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            return

    async def _exchange(self) -> bool:
        head = (await self._reader.receive_until(b"\r\n\r\n", _MAX_HEAD)).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", "0"))
        body = await self._reader.receive_exactly(length) if length else b""
        if method == "HEAD":  # Claude Code checks that the server is up
            await self._client.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            return True
        if method == "GET":
            return await self._facts(path)
        request = parse_request(path, headers, json.loads(body))
        if request is None:
            return await self._send(404, {"error": {"message": f"no such endpoint: {path}"}})
        return await self._answer(request, self._script.answer(request))

    async def _facts(self, path: str) -> bool:
        if path == "/requests":
            seen = [{"path": r.path, "body": r.body} for r in self._script.requests]
            return await self._send(200, seen)
        if path == "/api/tags":  # Ollama's list of models
            return await self._send(200, {"models": [{"name": "scripted:latest"}]})
        if path in ("/v1/models", "/models"):
            return await self._send(200, {"object": "list", "data": [{"id": "scripted"}]})
        return await self._send(404, {"error": {"message": f"no such endpoint: {path}"}})

    async def _answer(self, request: Request, step: Step) -> bool:
        if step.hang:
            await self._client.receive()  # returns when the client disconnects
            return False
        if (refused := wire.refusal(request.api, step)) is not None:
            extra = {} if step.retry_after is None else {"retry-after": f"{step.retry_after:g}"}
            return await self._send(*refused, extra)
        number = len(self._script.requests)
        answer = wire.Answer(number, request.model, step, request.last_text)
        whole, streamed = wire.WIRES[request.api]
        if request.stream:
            return await self._stream(streamed(answer), step)
        await anyio.sleep(step.delay)
        return await self._send(200, whole(answer), cut=step.cut_after is not None)

    async def _send(
        self, status: int, body: Any, extra: Mapping[str, str] | None = None, *, cut: bool = False
    ) -> bool:
        payload = json.dumps(body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(payload))}
        sent = payload[: len(payload) // 2] if cut else payload
        await self._client.send(_head(status, {**headers, **(extra or {})}) + sent)
        return not cut

    async def _stream(self, events: Iterable[str], step: Step) -> bool:
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        await self._client.send(_head(200, headers))
        for count, event in enumerate(events):
            if count == step.cut_after:
                return False
            if count == step.end_after:
                break
            if step.delay:
                await anyio.sleep(step.delay)
            data = event.encode()
            await self._client.send(b"%x\r\n%b\r\n" % (len(data), data))
        await self._client.send(b"0\r\n\r\n")
        return True


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}"]
    lines.extend(f"{name}: {value}" for name, value in headers.items())
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


# ---- reading requests


def parse_request(path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> Request | None:
    """The parsed request, or None for a path that no provider has."""
    route = path.partition("?")[0]
    model, stream = str(body.get("model", "")), bool(body.get("stream"))
    api: wire.Api | None = next((_ENDINGS[one] for one in _ENDINGS if route.endswith(one)), None)
    if api is None:
        if ":" not in route or "/models/" not in route:
            return None
        api = "google"
        model, _, method = route.rpartition("/models/")[2].partition(":")
        stream = method.startswith("stream")
    said = body.get("messages") or body.get("input") or body.get("contents")
    return Request(api, path, headers, body, model, stream, *_last(said), _tool_names(body))


_ENDINGS: Mapping[str, wire.Api] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "anthropic",
}


def _tool_names(body: Mapping[str, Any]) -> tuple[str, ...]:
    listed: list[Any] = list(body.get("tools", ()))
    tools = [tool for group in listed for tool in group.get("functionDeclarations", [group])]
    return tuple(name for tool in tools for name in _names_of(tool))


def _names_of(tool: dict[str, Any]) -> list[str]:
    if tool.get("type") == "namespace":
        return [f"{tool['name']}/{inner['name']}" for inner in tool["tools"]]
    return [tool.get("function", tool).get("name", "")]


def _texts(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_texts, cast("list[Any]", content))))
    if isinstance(content, dict):
        inner = cast("dict[str, Any]", content)
        return _texts(inner.get("text") or inner.get("content") or "")
    return ""


def _last(said: Any) -> tuple[str, str]:
    """The role and text of the last message, for every API."""
    if isinstance(said, str):
        return "user", said
    last = said[-1]
    content = last.get("content") or last.get("parts") or ""
    if last.get("role") == "tool":
        return "tool", _texts(content)
    if last.get("type") == "function_call_output":
        return "tool", _texts(last["output"])
    for part in reversed(cast("list[Any]", content) if isinstance(content, list) else []):
        if part.get("type") == "tool_result":
            return "tool", _texts(part.get("content"))
        if "functionResponse" in part:
            return "tool", json.dumps(part["functionResponse"].get("response"))
    return "user", _texts(content)


async def _main(port: int, path: Path) -> None:
    script = parse_script(json.loads(path.read_text()))  # noqa: ASYNC240 - nothing runs yet
    async with scripted_model(script=script, port=port) as model:
        sys.stdout.write(f"{model.url}\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        anyio.run(_main, arguments.port, arguments.script)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
