"""An MCP server on stdio whose calls are tasks, kept in a directory, so that they outlive it.

`python -m tests.support.task_server DIRECTORY FORM`, where FORM is 2025-11-25 or 2026-07-28. `calls`
in the directory has a line for each call that was made, `cancelled` one for each task that was
cancelled. The tool `work` is done once there is a file `done`; `ask` asks first; `fail` fails.
"""

import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

MODERN = "2026-07-28"
QUESTION: Json = {
    "mode": "form",
    "message": "Which colour?",
    "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}},
}
TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}}
    for name, support in (("work", "required"), ("ask", "optional"), ("fail", "required"))
]


class TaskServer:
    def __init__(self, directory: Path, form: str) -> None:
        self._directory = directory
        self._modern = form == MODERN
        self._waiting: tuple[Any, str] | None = None

    def _note(self, file: str, line: str) -> None:
        with (self._directory / file).open("a") as out:
            out.write(f"{line}\n")

    def _read(self, id: str) -> Json:
        return json.loads((self._directory / f"task-{id}").read_text())

    def _write(self, id: str, task: Json) -> None:
        (self._directory / f"task-{id}").write_text(json.dumps(task))

    def send(self, message: Json) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def take(self, message: Json) -> None:
        params: Json = message.get("params") or {}
        id = message.get("id")
        if "method" not in message:  # the answer to our question
            assert self._waiting is not None
            (request, task), self._waiting = self._waiting, None
            self._answered(task, message["result"])
            self.send({"id": request, "result": self._result(task)})
            return
        if id is None:
            return
        try:
            result = self._answer(message["method"], params, id)
        except (KeyError, OSError):
            self.send({"id": id, "error": {"code": -32602, "message": "no such thing"}})
            return
        if result is not None:
            self.send({"id": id, "result": result})

    def _answer(self, method: str, params: Json, id: Any) -> Json | None:
        about: Json = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}
        info = {"name": "tasks", "version": "1"}
        match method:
            case "server/discover" if self._modern:
                meta = {"io.modelcontextprotocol/serverInfo": info}
                extension: Json = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
                said: Json = {"capabilities": {"tools": {}, **extension}, "ttlMs": 0}
                kept = {"cacheScope": "private", "_meta": meta, "resultType": "complete"}
                return {"supportedVersions": [MODERN], **said, **kept}
            case "initialize" if not self._modern:
                version = {"protocolVersion": "2025-11-25"}
                return {**version, "capabilities": about, "serverInfo": info}
            case "tools/list":
                cached = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
                return {"tools": TOOLS, **(cached if self._modern else {})}
            case "tools/call":
                return self._call(params)
            case "tasks/get":
                return self._view(params["taskId"])
            case "tasks/result" if not self._modern:
                task = self._read(params["taskId"])
                if task["tool"] == "ask" and "said" not in task:
                    self._waiting = id, params["taskId"]
                    asked = {"method": "elicitation/create", "params": QUESTION}
                    self.send({"id": "question", **asked})
                    return None
                return self._result(params["taskId"])
            case "tasks/update" if self._modern:
                self._answered(params["taskId"], params["inputResponses"]["colour"])
                return {"resultType": "complete"}
            case "tasks/cancel":
                self._note("cancelled", params["taskId"])
                return {"resultType": "complete"}
            case _:
                raise KeyError(method)

    def _call(self, params: Json) -> Json:
        if self._modern:
            declared = params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            assert "io.modelcontextprotocol/tasks" in declared["extensions"]
        else:
            assert params["task"]["ttl"] > 0
        self._note("calls", json.dumps(params["name"]))
        id = f"t{len((self._directory / 'calls').read_text().splitlines())}"
        self._write(id, {"tool": params["name"]})
        task = {"taskId": id, "status": "working", "createdAt": "2026-01-01T00:00:00Z"}
        if self._modern:
            return {"resultType": "task", **task, "ttlMs": 60_000, "pollIntervalMs": 50}
        return {"task": {**task, "ttl": 60_000, "pollInterval": 50}}

    def _status(self, task: Json) -> str:
        match task["tool"]:
            case "ask":
                return "completed" if "said" in task else "input_required"
            case "fail":
                return "failed"
            case _:
                return "completed" if (self._directory / "done").exists() else "working"

    def _view(self, id: str) -> Json:
        task = self._read(id)
        status = self._status(task)
        shown: Json = {"taskId": id, "status": status, "statusMessage": f"digging for {id}"}
        if self._modern and status == "completed":
            shown["result"] = self._result(id)
        elif self._modern and status == "failed":
            shown["error"] = {"code": -32603, "message": "the shovel broke"}
        elif self._modern and status == "input_required":
            asked = {"method": "elicitation/create", "params": QUESTION}
            shown["inputRequests"] = {"colour": asked}
        return {**shown, **({"resultType": "complete"} if self._modern else {})}

    def _result(self, id: str) -> Json:
        task = self._read(id)
        if task["tool"] == "fail":
            return {"content": [{"type": "text", "text": "the shovel broke"}], "isError": True}
        words = f"{id} found {task.get('said', 'gold')}"
        return {"content": [{"type": "text", "text": words}]}

    def _answered(self, id: str, answer: Json) -> None:
        self._write(id, {**self._read(id), "said": answer["content"]["colour"]})


def task_server_entry(directory: Path, form: str) -> Json:
    """The entry of `mcp.servers` that starts such a server."""
    arguments = ["-m", "tests.support.task_server", str(directory), form]
    here = str(Path(__file__).parents[2])
    return {"command": sys.executable, "args": arguments, "env": {"PYTHONPATH": here}}


if __name__ == "__main__":
    server = TaskServer(Path(sys.argv[1]), sys.argv[2])
    for line in sys.stdin:
        server.take(json.loads(line))
