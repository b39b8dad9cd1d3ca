"""The least that an MCP server can be, so that what is measured is the client.

`python -S echo_server.py [SECONDS [TOOLS]]`: it starts that slowly, and has so many tools more.
"""

import json
import sys
import time
from typing import Any

TOOLS: list[dict[str, Any]] = [
    {"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "big")
]
INFO = {"name": "echo", "version": "1"}
GREETING: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": INFO,
}

KNOWN: dict[str, dict[str, Any]] = {
    "initialize": GREETING,
    "tools/list": {"tools": TOOLS},
    "ping": {},
}


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}
    return KNOWN.get(method)


def send_big(request: int, size: int) -> None:
    """Without a serialiser, which would take longer than the client that is measured."""
    head = f'{{"jsonrpc":"2.0","id":{request},"result":{{"content":[{{"type":"text","text":"'
    sys.stdout.buffer.write(head.encode() + b"x" * size + b'"}]}}\n')
    sys.stdout.buffer.flush()


def add_tools(count: int) -> None:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    for number in range(count):
        about = f"Looks up record {number} of the archive."
        TOOLS.append({"name": f"tool_{number}", "description": about, "inputSchema": schema})


def main() -> None:
    if len(sys.argv) > 1:
        time.sleep(float(sys.argv[1]))
    if len(sys.argv) > 2:
        add_tools(int(sys.argv[2]))
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] == "tools/call" and "size" in message["params"]["arguments"]:
            send_big(message["id"], message["params"]["arguments"]["size"])
            continue
        found = result(message["method"], message.get("params") or {})
        error = {"code": -32601, "message": "Method not found"}
        outcome = {"error": error} if found is None else {"result": found}
        answer = {"jsonrpc": "2.0", "id": message["id"], **outcome}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
