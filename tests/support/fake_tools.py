"""What the tools of a fake MCP server do. Standard library only.

A tool's `does` is an object of steps, taken in order; a step that gives a result ends the call.
"""

import base64
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

Json = dict[str, Any]

MODERN_REVISION = "2026-07-28"
META = "io.modelcontextprotocol/"


def member(holder: Mapping[str, Any], key: str) -> Json:
    value: Json | None = holder.get(key)
    return value or {}


class Peer(Protocol):
    def send(self, message: Json) -> None: ...

    def send_raw(self, line: bytes) -> None: ...

    def request(self, method: str, params: Json) -> Json: ...

    def crash(self, code: int) -> None: ...


class Server(Protocol):
    spec: Json

    def cancelled(self, request_id: Any) -> threading.Event: ...

    def announce(self, peer: Peer, method: str, params: Json) -> None: ...


class Refused(Exception):
    """Raised when the answer is a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


class Call:
    def __init__(self, server: Server, peer: Peer, message: Json) -> None:
        self.server = server
        self.peer = peer
        self.request_id: Any = message["id"]
        self.params = member(message, "params")
        self.arguments = member(self.params, "arguments")
        self.modern = is_modern(self.params)
        self.cancelled = server.cancelled(message["id"])
        self.progress_token: Any = member(self.params, "_meta").get("progressToken")

    def ask(self, method: str, params: Json) -> Json | str:
        """What the client says, as text; in the newest revision, first the question as a result."""
        if not self.modern:
            answer = self.peer.request(method, params)
            return json.dumps(answer.get("result", answer.get("error")))
        responses: Json | None = self.params.get("inputResponses")
        if responses is None:
            wanted = {"question": {"method": method, "params": params}}
            return {"resultType": "input_required", "inputRequests": wanted}
        return json.dumps(responses["question"])


def is_modern(params: Mapping[str, Any]) -> bool:
    return member(params, "_meta").get(f"{META}protocolVersion") == MODERN_REVISION


def text_result(text: str, *, is_error: bool = False) -> Json:
    result: Json = {"content": [{"type": "text", "text": text}]}
    return {**result, "isError": True} if is_error else result


Step = Callable[[Call, Any], Json | None]


def _sleep(call: Call, seconds: Any) -> Json | None:
    call.cancelled.wait(float(seconds))
    return None


def _hang(call: Call, _: Any) -> Json | None:
    call.cancelled.wait()
    return None


def _progress(call: Call, plan: Any) -> Json | None:
    """`{"times": n, "every": seconds}`."""
    for number in range(1, int(plan["times"]) + 1):
        call.cancelled.wait(float(plan.get("every", 0)))
        params = {
            "progressToken": call.progress_token,
            "progress": number,
            "total": plan["times"],
            "message": f"step {number}",
        }
        if call.progress_token is not None:
            call.peer.send(notification("notifications/progress", params))
    return None


def _notifications(call: Call, count: Any) -> Json | None:
    params = {"level": "info", "logger": "flood", "data": "x"}
    line = json.dumps(notification("notifications/message", params)).encode() + b"\n"
    batch = 1000
    for start in range(0, int(count), batch):
        call.peer.send_raw(line * min(batch, int(count) - start))
    return None


def _env(_: Call, name: Any) -> Json | None:
    everything = dict(os.environ)
    return text_result(
        everything.get(name, "(unset)") if name is not True else json.dumps(everything)
    )


def _record(call: Call, path: Any) -> Json | None:
    """Write the arguments down, a line for each call: what the tool did to the world."""
    line = json.dumps(call.arguments).encode() + b"\n"
    with open(path, "ab", buffering=0) as world:  # noqa: PTH123 - pathlib takes longer to import than this runs
        world.write(line)
    return None


def _half_line(call: Call, _: Any) -> Json | None:
    call.peer.send_raw(b'{"jsonrpc":"2.0","id":')
    call.peer.crash(1)
    return None


def _deep(call: Call, depth: Any) -> Json | None:
    """A structured result nested so deep that a recursive reader falls over."""
    nested = "[" * int(depth) + "]" * int(depth)
    result = '{"content":[],"structuredContent":{"deep":' + nested + '},"resultType":"complete"}'
    request_id = json.dumps(call.request_id)
    call.peer.send_raw(f'{{"jsonrpc":"2.0","id":{request_id},"result":{result}}}\n'.encode())
    return {}


def _change_tools(call: Call, tools: Any) -> Json | None:
    call.server.spec["tools"] = tools
    call.server.announce(call.peer, "notifications/tools/list_changed", {})
    return None


def _update_resource(call: Call, resource: Any) -> Json | None:
    listed: list[Json] = call.server.spec.setdefault("resources", [])
    listed[:] = [r for r in listed if r["uri"] != resource["uri"]] + [resource]
    call.server.announce(call.peer, "notifications/resources/updated", {"uri": resource["uri"]})
    return None


def _ask(call: Call, method: str, params: Json) -> Json:
    answer = call.ask(method, params)
    return text_result(answer) if isinstance(answer, str) else answer


def _sampling(call: Call, params: Any) -> Json | None:
    message = {"role": "user", "content": {"type": "text", "text": "Say something."}}
    base: Json = {"messages": [message], "maxTokens": 50}
    return _ask(call, "sampling/createMessage", {**base, **(params or {})})


def _elicit(call: Call, params: Any) -> Json | None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    base: Json = {"message": "Your name?", "requestedSchema": schema}
    return _ask(call, "elicitation/create", {**base, **(params or {})})


def _error(_: Call, error: Any) -> Json | None:
    raise Refused(error.get("code", -32000), error.get("message", "no"), error.get("data"))


def _crash(call: Call, code: Any) -> Json | None:
    call.peer.crash(int(code))
    return None


def _raw(call: Call, line: Any) -> Json | None:
    call.peer.send_raw(str(line).encode() + b"\n")
    return None


STEPS: dict[str, Step] = {
    "sleep": _sleep,
    "hang": _hang,
    "progress": _progress,
    "notifications": _notifications,
    "raw": _raw,
    "changeTools": _change_tools,
    "updateResource": _update_resource,
    "env": _env,
    "record": _record,
    "spawn": lambda _, count: text_result(json.dumps(spawn_grandchildren(int(count)))),
    "crash": _crash,
    "halfLine": _half_line,
    "deep": _deep,
    "giant": lambda _, size: text_result("x" * int(size)),
    "sampling": _sampling,
    "elicit": _elicit,
    "roots": lambda call, _: _ask(call, "roots/list", {}),
    "error": _error,
    "errorText": lambda _, text: text_result(str(text), is_error=True),
    "text": lambda _, text: text_result(str(text)),
    "result": lambda _, result: dict(result),
    "pid": lambda _, __: text_result(str(os.getpid())),
    "meta": lambda call, _: text_result(json.dumps(member(call.params, "_meta"))),
}


def notification(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def spawn_grandchildren(count: int) -> list[int]:
    """Start children that outlive this process unless somebody sweeps its group."""
    import subprocess  # it takes as long to import as everything else here together

    sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    quiet = subprocess.DEVNULL
    children = [
        subprocess.Popen(sleeper, stdin=quiet, stdout=quiet, stderr=quiet) for _ in range(count)
    ]
    return [child.pid for child in children]


def one_pixel_png() -> str:
    return (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
        "awAAAABJRU5ErkJggg=="
    )


def silent_wav() -> str:
    header = b"RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00"
    rest = b"\x80\x3e\x00\x00\x02\x00\x10\x00data\x02\x00\x00\x00\x00\x00"
    return base64.b64encode(header + rest).decode()
