"""A server made with the official SDK, as a peer: `python -m tests.support.sdk_server stdio`.

Over `http` and `sse` it prints its port first.
"""

import socket
import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server: Any = MCPServer("peer", version="7", instructions="Be kind.")


class Name(BaseModel):
    name: str


@server.tool(structured_output=False)
async def echo(text: str) -> str:
    return text


@server.tool(structured_output=True)
async def add(a: int, b: int) -> int:
    return a + b


@server.tool(structured_output=False)
async def fail() -> str:
    raise ValueError("no such city")


@server.tool(structured_output=False)
async def work(ctx: Context[Any, Any]) -> str:
    for step in range(3):
        await ctx.report_progress(step + 1, 3, f"step {step + 1}")
    return "done"


@server.tool(structured_output=False)
async def roots(ctx: Context[Any, Any]) -> str:
    session: Any = ctx.session
    listed = await session.list_roots()
    return " ".join(str(root.uri) for root in listed.roots)


@server.tool(structured_output=False)
async def ask(ctx: Context[Any, Any]) -> str:
    answer: Any = await ctx.elicit("Your name?", Name)
    return str(answer.data.name)


@server.tool(structured_output=False)
async def sample(ctx: Context[Any, Any]) -> str:
    text = types.TextContent(type="text", text="Say hello.")
    message = types.SamplingMessage(role="user", content=text)
    session: Any = ctx.session
    answer = await session.create_message([message], max_tokens=20)
    return str(answer.content.text)


@server.resource("note://one")
async def note() -> str:
    return "a note"


@server.prompt()
async def greet(who: str) -> str:
    return f"Hello {who}"


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    app = server.streamable_http_app() if sys.argv[1] == "http" else server.sse_app()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        runner = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        runner.run(sockets=[listener])


if __name__ == "__main__":
    main()
