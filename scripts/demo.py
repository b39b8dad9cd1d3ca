"""The main job, each step shown as it happens. Run by scripts/demo."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from rich.console import Console

BIN = Path(sys.executable).parent
STATE = Path(".cache/demo").absolute()
CONFIG = {
    "agents": {
        "defaults": {
            "model": "local/smollm2-135m",
            "workspace": str(STATE / "workspace"),
            "mcp": {"servers": {"time": {"command": str(BIN / "mcp-server-time")}}},
        }
    }
}
ORDERS = ("What time is it in Tokyo?", "When it is 9:30 in Berlin, what time is it in New York?")

console = Console(highlight=False)


def step(words: str) -> None:
    console.print(f"[bold cyan]»[/] {words}")


def prepare() -> dict[str, str]:
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    Path(CONFIG["agents"]["defaults"]["workspace"]).mkdir(exist_ok=True)
    (STATE / "openclaw.json").write_text(json.dumps(CONFIG, indent=2))
    kept = {name: os.environ[name] for name in os.environ if name not in ("OPENCLAW_CONFIG_PATH",)}
    environ = {**kept, "OPENCLAW_STATE_DIR": str(STATE)}
    step("the embedded model's weights (98 MB, fetched once)")
    subprocess.run([BIN / "openclaw", "models", "pull"], env=environ, check=True)
    step("a real MCP server, tried once so that the agent knows it")
    probe = [BIN / "openclaw", "mcp", "probe", "time"]
    subprocess.run(probe, env=environ, check=True, stdout=subprocess.DEVNULL)
    return environ


calls: list[str] = []


async def on_progress(progress: float, total: float | None, message: str | None) -> None:
    console.print(f"    [dim]{message}[/]")
    if message is not None and message.endswith(" finished"):
        calls.append(message)


async def main(orders: tuple[str, ...]) -> int:
    environ = prepare()
    command = [str(BIN / "openclaw"), "mcp-server"]
    step("an MCP client starts [bold]openclaw mcp-server[/]")
    started = time.perf_counter()
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environ)
    async with Client(stdio_client(parameters)) as client:
        took = 1000 * (time.perf_counter() - started)
        tools = [tool.name for tool in (await client.list_tools()).tools]
        step(f"connected after {took:.0f} ms; it offers: [bold]{', '.join(tools)}[/]")
        failed = False
        for order in orders:
            step(f"order: [bold]{order}[/]")
            calls.clear()
            result = await client.call_tool(
                "order_openclaw", {"message": order}, progress_callback=on_progress
            )
            for block in result.content:
                console.print(getattr(block, "text", block), style="green", markup=False)
            failed = failed or result.is_error is True or (orders == ORDERS and not calls)
    step("the client closed the connection; the server and its children are gone")
    if failed:
        console.print("[red]an order was not answered by the time server's tools[/]")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, (" ".join(sys.argv[1:]),) if sys.argv[1:] else ORDERS))
