"""A fake MCP server as a process of its own, on stdio, that can go wrong in every way we know.

`python -m tests.support.fake_server '{"tools": […], "faults": {…}}'`; the description (see
`tests.support.fake_server`) is the argument, or a file named by `@PATH`, or the environment
variable `FAKE_SERVER`. Standard library only, so that it starts in a few dozen milliseconds.

Faults of the process, beside those of the protocol: `exitAtStart` (a code), `startDelay` (seconds),
`startsBeforeWorking` (`{"file": PATH, "times": N}`: the first N starts fail), `stdoutNoise` (lines),
`stderrFlood` (lines), `grandchildren` (how many), `ignoreEof`, `ignoreSigterm`, `pidFile` (PATH, one
process id a line for every start), `requestsFile` (PATH, one request a line).
"""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.fake_tools import (
    META,
    MODERN_REVISION,
    STEPS,
    Call,
    Json,
    Peer,
    Refused,
    is_modern,
    member,
    notification,
    spawn_grandchildren,
    text_result,
)

# The server is described by one JSON object:
#
# - `name`, `version`, `instructions`
# - `revisions`: the protocol revisions that it speaks, all of them unless said
# - `discover`: what `server/discover` meets: `refuse` (unless said), `answer` or `ignore`
# - `tools`, `resources`, `resourceTemplates`, `prompts`: as in MCP; a tool also has `does`
# - `completes`: the values that arguments may have, by their names
# - `pageSize`: how many items a listing gives at once
# - `faults`: what goes wrong (see `Faults` in `fake_server` for those of the process):
# `hang` and `malformed` (lists of methods), `slow` (method to seconds), `endlessPages`,
# `crashAfterCalls`, `crashOn` (methods)
#
# For `does` see `tests.support.fake_tools`. Without it a tool answers with its arguments as JSON.

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_UNSUPPORTED_VERSION = -32022
SKILLS = "io.modelcontextprotocol/skills"
_INVALID_PARAMS = -32602
_NO_METHOD = -32601
_LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
_OURS = (
    "does",
    "text",
    "blob",
    "messages",
    "needs",
)  # keys of a declaration that the wire never sees


class FakeProtocol:
    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec: Json = dict(spec)
        self.faults: Json = dict(spec.get("faults") or {})
        self.calls = 0
        self._offered: Json = {}
        self._listens: list[Json] = []
        self._cancelled: dict[Any, threading.Event] = {}
        self._methods: dict[str, Callable[[Peer, Json], Json | None]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": lambda _, __: {},
            "tools/call": self._call_tool,
            "resources/read": self._read,
            "resources/subscribe": lambda _, __: {},
            "resources/unsubscribe": lambda _, __: {},
            "prompts/get": self._get_prompt,
            "skills/list": lambda _, __: {
                "skills": self._skills(),
                "ttlMs": 0,
                "cacheScope": "private",
            },
            "skills/get": self._get_skill,
            "logging/setLevel": lambda _, __: {},
            "completion/complete": self._complete,
            "subscriptions/listen": self._listen,
            **dict.fromkeys(_LISTS, self._list),
        }

    def may_block(self, message: Json) -> bool:
        """Whether answering takes time, so that it must not hold up the next message."""
        if message.get("method") in member(self.faults, "slow"):
            return True
        if message.get("method") != "tools/call":
            return False
        does = member(self._tool(message) or {}, "does")
        waiting = {"sleep", "hang", "progress", "sampling", "elicit", "roots", "notifications"}
        return bool(waiting & set(does))

    def handle(self, message: Json, peer: Peer) -> None:
        method = message.get("method")
        if "id" not in message:
            if method == "notifications/cancelled":
                self.cancelled(member(message, "params").get("requestId")).set()
            return
        if "requestsFile" in self.faults:
            with Path(self.faults["requestsFile"]).open("a") as file:
                file.write(json.dumps(message) + "\n")
        if method is None or self._fault(str(method), peer):
            return
        try:
            result = self._answer(str(method), peer, message)
        except Refused as refused:
            peer.send({"jsonrpc": "2.0", "id": message["id"], "error": refused.error})
            return
        given_up = self._cancelled.pop(message["id"], None)
        if result is not None and not (given_up and given_up.is_set()):
            peer.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def cancelled(self, request_id: Any) -> threading.Event:
        return self._cancelled.setdefault(request_id, threading.Event())

    def cancel_all(self) -> None:
        """End every call that waits, so that no thread outlives the server."""
        for event in list(self._cancelled.values()):
            event.set()

    def announce(self, peer: Peer, method: str, params: Json) -> None:
        """Send a change notification, on each open subscription where there are any."""
        if not self._listens:
            peer.send(notification(method, params))
        for listen in self._listens:
            meta = {f"{META}subscriptionId": listen["id"]}
            peer.send(notification(method, {**params, "_meta": meta}))

    def _fault(self, method: str, peer: Peer) -> bool:
        if method in self.faults.get("crashOn", ()):
            peer.crash(1)
        if method in self.faults.get("malformed", ()):
            peer.send_raw(b'{"jsonrpc": "2.0", "id": 1, "result": {oops\n')
            return True
        delay = member(self.faults, "slow").get(method)
        if delay:
            threading.Event().wait(float(delay))
        return method in self.faults.get("hang", ())

    def _answer(self, method: str, peer: Peer, message: Json) -> Json | None:
        params = member(message, "params")
        wanted = member(params, "_meta").get(f"{META}protocolVersion")
        if (
            wanted is not None
            and self.spec.get("discover") == "answer"
            and wanted not in self._revisions()
        ):
            supported = {"supported": list(self._revisions()), "requested": wanted}
            raise Refused(_UNSUPPORTED_VERSION, "Unsupported protocol version", supported)
        handler = self._methods.get(method)
        if handler is None:
            raise Refused(_NO_METHOD, f"Method not found: {method}")
        result = handler(peer, message)
        if result is not None and is_modern(params):
            result.setdefault("resultType", "complete")
        return result

    def _revisions(self) -> tuple[str, ...]:
        every = (*HANDSHAKE_REVISIONS, MODERN_REVISION)
        return tuple(self.spec.get("revisions") or every)

    def _info(self) -> Json:
        return {
            "name": self.spec.get("name", "fake"),
            "version": self.spec.get("version", "1.0.0"),
        }

    def _capabilities(self) -> Json:
        given: Json | None = self.spec.get("capabilities")
        if given is not None:
            return given
        found: Json = {"logging": {}}
        if "tools" in self.spec:
            found["tools"] = {"listChanged": True}
        if "resources" in self.spec or "resourceTemplates" in self.spec:
            found["resources"] = {"listChanged": True, "subscribe": True}
        if "skills" in self.spec:
            found["extensions"] = {SKILLS: {}}
        if "prompts" in self.spec:
            found["prompts"] = {"listChanged": True}
        if "completes" in self.spec:
            found["completions"] = {}
        return found

    def _about(self) -> Json:
        words = self.spec.get("instructions")
        instructions = {} if words is None else {"instructions": words}
        return {"capabilities": self._capabilities(), **instructions}

    def _initialize(self, _: Peer, message: Json) -> Json:
        self._offered = member(message["params"], "capabilities")
        wanted = message["params"]["protocolVersion"]
        spoken = [r for r in self._revisions() if r in HANDSHAKE_REVISIONS]
        if not spoken:
            supported = {"supported": list(self._revisions()), "requested": wanted}
            raise Refused(_UNSUPPORTED_VERSION, "Unsupported protocol version", supported)
        revision = wanted if wanted in spoken else spoken[-1]
        return {"protocolVersion": revision, "serverInfo": self._info(), **self._about()}

    def _discover(self, _: Peer, message: Json) -> Json | None:
        manner = self.spec.get("discover", "refuse")
        if manner == "ignore":
            return None
        if manner == "refuse":
            raise Refused(_NO_METHOD, "Method not found: server/discover")
        meta = {f"{META}serverInfo": self._info()}
        versions = list(self._revisions())
        cached = {"ttlMs": 0, "cacheScope": "private"}
        return {"supportedVersions": versions, **cached, **self._about(), "_meta": meta}

    def _list(self, _: Peer, message: Json) -> Json:
        key = _LISTS[message["method"]]
        params = member(message, "params")
        offered = member(member(params, "_meta"), f"{META}clientCapabilities") or self._offered
        items = [
            public(item)
            for item in self.spec.get(key) or ()
            if item.get("needs") is None or item["needs"] in offered
        ]
        start = int(params.get("cursor") or 0)
        size = int(self.spec.get("pageSize") or max(len(items), 1))
        result: Json = {key: items[start : start + size]}
        if self.faults.get("endlessPages"):
            result = {key: items, "nextCursor": str(start + 1)}
        elif start + size < len(items):
            result["nextCursor"] = str(start + size)
        if is_modern(params):
            result.update(ttlMs=0, cacheScope=self.spec.get("cacheScope", "private"))
        return result

    def _complete(self, _: Peer, message: Json) -> Json:
        begun: Json = message["params"]["argument"]
        known: list[str] = self.spec["completes"].get(begun["name"], [])
        found = [one for one in known if one.startswith(begun["value"])]
        return {"completion": {"values": found, "total": len(found), "hasMore": False}}

    def _tool(self, message: Json) -> Json | None:
        name = member(message, "params").get("name")
        return next((t for t in self.spec.get("tools") or () if t.get("name") == name), None)

    def _call_tool(self, peer: Peer, message: Json) -> Json | None:
        self.calls += 1
        limit = self.faults.get("crashAfterCalls")
        if limit is not None and self.calls > int(limit):
            peer.crash(1)
        tool = self._tool(message)
        if tool is None:
            raise Refused(_INVALID_PARAMS, f"Unknown tool: {message['params'].get('name')}")
        call = Call(self, peer, message)
        for step, value in member(tool, "does").items():
            result = STEPS[step](call, value)
            if result is not None:
                return result or None
        return text_result(json.dumps(call.arguments))

    def _read(self, _: Peer, message: Json) -> Json:
        uri = message["params"]["uri"]
        content: Json = {"uri": uri}
        found = next((r for r in self.spec.get("resources") or () if r["uri"] == uri), None)
        if found is None:
            templates = self.spec.get("resourceTemplates") or ()
            if not any(uri.startswith(t["uriTemplate"].partition("{")[0]) for t in templates):
                raise Refused(_INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})
            found = {"text": f"content of {uri}", "mimeType": "text/plain"}
        for key in ("mimeType", "text", "blob"):
            if key in found:
                content[key] = found[key]
        result: Json = {"contents": [content]}
        if is_modern(message["params"]):
            result.update(ttlMs=0, cacheScope="private")
        return result

    def _skills(self) -> list[Json]:
        return self.spec.get("skills") or []

    def _get_skill(self, _: Peer, message: Json) -> Json:
        uri = message["params"]["uri"]
        # What it says on being asked again may differ, as after an update.
        every = [*(self.spec.get("updatedSkills") or ()), *self._skills()]
        found = next((one for one in every if one["uri"] == uri), None)
        if found is None:
            raise Refused(_INVALID_PARAMS, f"Unknown skill: {uri}")
        return {"skill": found, "ttlMs": 0, "cacheScope": "private"}

    def _get_prompt(self, _: Peer, message: Json) -> Json:
        params = message["params"]
        prompts = self.spec.get("prompts") or ()
        found = next((p for p in prompts if p["name"] == params["name"]), None)
        if found is None:
            raise Refused(_INVALID_PARAMS, f"Unknown prompt: {params['name']}")
        words = json.dumps(found.get("messages") or [])
        for key, value in member(params, "arguments").items():
            words = words.replace(f"{{{key}}}", json.dumps(value)[1:-1])
        return {"description": found.get("description", ""), "messages": json.loads(words)}

    def _listen(self, peer: Peer, message: Json) -> Json | None:
        self._listens.append(message)
        meta = {f"{META}subscriptionId": message["id"]}
        params = {"notifications": message["params"]["notifications"], "_meta": meta}
        peer.send(notification("notifications/subscriptions/acknowledged", params))
        return None


def public(item: Mapping[str, Any]) -> Json:
    return {key: value for key, value in item.items() if key not in _OURS}


_ENVIRONMENT_KEY = "FAKE_SERVER"


def command(spec: Mapping[str, Any]) -> tuple[str, list[str]]:
    return sys.executable, ["-m", "tests.support.fake_server", json.dumps(spec)]


def server_entry(spec: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """The entry of `mcp.servers` that starts such a server; `settings` are other keys of it."""
    program, arguments = command(spec)
    return {"command": program, "args": arguments, **settings}


class StdioPeer:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[str, tuple[threading.Event, Json]] = {}
        self._questions = 0

    def send(self, message: Json) -> None:
        self.send_raw(json.dumps(message).encode() + b"\n")

    def send_raw(self, line: bytes) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def request(self, method: str, params: Json) -> Json:
        with self._lock:
            self._questions += 1
            key = f"server-{self._questions}"
        answered, box = threading.Event(), Json()
        self._asked[key] = answered, box
        self.send({"jsonrpc": "2.0", "id": key, "method": method, "params": params})
        answered.wait()
        return box

    def answered(self, message: Json) -> bool:
        """Whether this message answers a question of ours; the asker goes on then."""
        waiting = self._asked.pop(str(message.get("id")), None) if "method" not in message else None
        if waiting is None:
            return False
        waiting[1].update(message)
        waiting[0].set()
        return True

    def crash(self, code: int) -> None:
        """End at once, as a crash would; a negative code is a signal."""
        with self._lock:
            sys.stdout.buffer.flush()
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)


def _count_start(plan: Mapping[str, Any]) -> None:
    path = Path(plan["file"])
    starts = int(path.read_text()) if path.exists() else 0
    path.write_text(str(starts + 1))
    if starts < int(plan["times"]):
        os._exit(1)


def _misbehave_at_start(faults: Mapping[str, Any], peer: StdioPeer) -> None:
    if "pidFile" in faults:
        with Path(faults["pidFile"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
    for number in range(int(faults.get("stderrFlood", 0))):
        sys.stderr.write(f"stderr line {number}\n")
    sys.stderr.flush()
    if "startDelay" in faults:
        threading.Event().wait(float(faults["startDelay"]))
    if "startsBeforeWorking" in faults:
        _count_start(faults["startsBeforeWorking"])
    if "exitAtStart" in faults:
        os._exit(int(faults["exitAtStart"]))
    for number in range(int(faults.get("stdoutNoise", 0))):
        peer.send_raw(f"noise {number} on stdout\n".encode())
    if faults.get("ignoreSigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spawn_grandchildren(int(faults.get("grandchildren", 0)))


def _serve(protocol: FakeProtocol, peer: StdioPeer) -> None:
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        message: Json = json.loads(line)
        if peer.answered(message):
            continue
        if protocol.may_block(message):
            threading.Thread(target=protocol.handle, args=(message, peer), daemon=True).start()
        else:
            protocol.handle(message, peer)


def _description(arguments: list[str], environ: Mapping[str, str]) -> Json:
    words = arguments[0] if arguments else environ.get(_ENVIRONMENT_KEY, "{}")
    if words.startswith("@"):
        words = Path(words[1:]).read_text()
    described: Json = json.loads(words)
    return described


def main() -> None:
    environ = os.environ
    protocol = FakeProtocol(_description(sys.argv[1:], environ))
    peer = StdioPeer()
    _misbehave_at_start(protocol.faults, peer)
    _serve(protocol, peer)
    if protocol.faults.get("ignoreEof"):
        threading.Event().wait()
    os._exit(0)  # calls that still hang must not hold the process


if __name__ == "__main__":
    main()
