"""A model provider on loopback that says what a script tells it to, over real HTTP.

It speaks OpenAI chat completions, OpenAI responses, Anthropic messages and Google generateContent,
streamed and not, and keeps every request it saw. In a test:

    async with scripted_model([Step(text="Hello.")]) as model:
        ...  # model.url, model.requests

As a process: `python -m openclaw.testing.scripted_model --port 0 --script FILE` prints its address.
The script is JSON: `{"steps": [STEP, …], "rules": [STEP with "when", …], "default": STEP}`. A request
is answered by the first rule that matches it, else by the next step, else by the default.
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
    requests: list[Request] = field(default_factory=list[Request])

    def answer(self, request: Request) -> Step:
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
    )


@asynccontextmanager
async def scripted_model(
    steps: Iterable[Step] = (),
    *,
    rules: Sequence[Step] = (),
    default: Step | None = None,
    script: Script | None = None,
    port: int = 0,
) -> AsyncGenerator[ScriptedModel]:
    """Serve the script until the block ends; connections that are still open are closed then."""
    script = script or Script(list(steps), tuple(rules), default)
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
        if method == "HEAD":  # Claude Code looks whether anybody is there
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
        if path == "/api/tags":  # what Ollama says that it has
            return await self._send(200, {"models": [{"name": "scripted:latest"}]})
        if path in ("/v1/models", "/models"):
            return await self._send(200, {"object": "list", "data": [{"id": "scripted"}]})
        return await self._send(404, {"error": {"message": f"no such endpoint: {path}"}})

    async def _answer(self, request: Request, step: Step) -> bool:
        if step.hang:
            await self._client.receive()  # nothing more comes but the client's going away
            return False
        if step.overflow:
            message, code = wire.overflow(request.api)
            return await self._send(400, wire.error(request.api, 400, message, code))
        if step.status != 200:
            extra = {} if step.retry_after is None else {"retry-after": f"{step.retry_after:g}"}
            body = wire.error(request.api, step.status, step.message, step.code)
            return await self._send(step.status, body, extra)
        answer = _as_answer(request, step, len(self._script.requests))
        if request.stream:
            return await self._stream(wire.STREAM[request.api](answer), step)
        await anyio.sleep(step.delay)
        body = wire.WHOLE[request.api](answer)
        return await self._send(200, body, cut=step.cut_after is not None)

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


def _told(arguments: Mapping[str, Any] | str, request: Request) -> Mapping[str, Any] | str:
    if isinstance(arguments, str):
        return arguments.replace("{last}", request.last_text)
    return arguments


def _as_answer(request: Request, step: Step, number: int) -> wire.Answer:
    calls = tuple(
        wire.Call(name, _told(arguments, request), f"call_{number}_{index}")
        for index, (name, arguments) in enumerate(step.calls)
    )
    text = step.text.replace("{last}", request.last_text)
    return wire.Answer(f"answer_{number}", request.model, text, calls, step)


# ---- reading requests


def parse_request(path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> Request | None:
    """What the request asks, or None for an address that no provider has."""
    route = path.partition("?")[0]
    model, stream, tools = (
        str(body.get("model", "")),
        bool(body.get("stream")),
        body.get("tools", ()),
    )
    api: wire.Api = "chat"
    if route.endswith("/chat/completions"):
        last = _last_chat(body["messages"])
        names = (tool["function"]["name"] for tool in tools)
    elif route.endswith("/responses"):
        api, last = "responses", _last_response_input(body["input"])
        names = (tool.get("name", "") for tool in tools)
    elif route.endswith("/messages"):
        api, last = "anthropic", _last_anthropic(body["messages"])
        names = (tool["name"] for tool in tools)
    elif ":" in route and "/models/" in route:
        model, _, method = route.rpartition("/models/")[2].partition(":")
        api, stream, last = "google", method.startswith("stream"), _last_google(body["contents"])
        names = (one["name"] for tool in tools for one in tool.get("functionDeclarations", ()))
    else:
        return None
    return Request(api, path, headers, body, model, stream, *last, tuple(names))


def _texts(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_texts, cast("list[Any]", content))))
    if isinstance(content, dict):
        inner = cast("dict[str, Any]", content)
        return _texts(inner.get("text") or inner.get("content") or "")
    return ""


def _last_chat(messages: list[Any]) -> tuple[str, str]:
    last = messages[-1]
    return ("tool" if last["role"] == "tool" else "user"), _texts(last.get("content"))


def _last_response_input(items: Any) -> tuple[str, str]:
    if isinstance(items, str):
        return "user", items
    last = items[-1]
    if last.get("type") == "function_call_output":
        return "tool", _texts(last["output"])
    return "user", _texts(last.get("content"))


def _last_anthropic(messages: list[Any]) -> tuple[str, str]:
    content = messages[-1]["content"]
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if results:
        return "tool", _texts(results[-1].get("content"))
    return "user", _texts(content)


def _last_google(contents: list[Any]) -> tuple[str, str]:
    parts = contents[-1]["parts"]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    if results:
        return "tool", json.dumps(results[-1].get("response"))
    return "user", _texts(parts)


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
