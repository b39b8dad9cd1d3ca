"""One MCP client at work, driven over its standard input: `python worker.py ADAPTER`.

It is run by the interpreter of the environment that holds the client, so it needs nothing but that
client. Each line in is a job, `{"job": NAME, ...}`; each line out is its outcome,
`{"seconds": N}` or `{"failed": WHY}`.
"""

import asyncio
import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

Call = Callable[[str, dict[str, Any]], Awaitable[str]]


class Adapter(Protocol):
    """How one client is used, as its own documentation shows."""

    def connect(
        self, servers: dict[str, list[str]]
    ) -> "contextlib.AbstractAsyncContextManager[dict[str, Call]]": ...


class Worker:
    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.stack = contextlib.AsyncExitStack()
        self.calls: dict[str, Call] = {}

    async def open(self, servers: dict[str, list[str]]) -> float:
        started = time.perf_counter()
        self.calls = await self.stack.enter_async_context(self.adapter.connect(servers))
        return time.perf_counter() - started

    async def one_at_a_time(self, calls: int, arguments: dict[str, Any]) -> float:
        """The median of some calls."""
        call = next(iter(self.calls.values()))
        times: list[float] = []
        for _ in range(calls):
            started = time.perf_counter()
            await call("echo", arguments)
            times.append(time.perf_counter() - started)
        return sorted(times)[calls // 2]

    async def in_flight(self, calls: int, width: int) -> float:
        """Seconds a call, with `width` of them on their way at any time."""
        call = next(iter(self.calls.values()))
        numbers = iter(range(calls))

        async def work() -> None:
            for number in numbers:
                await call("echo", {"n": number})

        started = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(width)))
        return (time.perf_counter() - started) / calls

    async def large(self, size: int) -> float:
        """Seconds until a result of `size` bytes is there, as long as it came whole."""
        call = next(iter(self.calls.values()))
        started = time.perf_counter()
        answer = await call("big", {"size": size})
        took = time.perf_counter() - started
        if len(answer) < size:
            raise ValueError(f"{len(answer)} of {size} characters came")
        return took

    async def after_a_kill(self, pid: int, patience: float) -> float:
        """Seconds from the death of the server to the next call that is answered."""
        call = next(iter(self.calls.values()))
        os.kill(pid, signal.SIGKILL)
        started = time.perf_counter()
        last: BaseException | None = None
        while (left := patience - (time.perf_counter() - started)) > 0:
            try:
                answer = await asyncio.wait_for(call("echo", {"n": 4711}), left)
            except Exception as error:  # noqa: BLE001 - whatever a client raises, it did not answer
                last = error
            else:
                if "4711" in answer:
                    return time.perf_counter() - started
                last = ValueError(answer[:80])
            await asyncio.sleep(0.01)
        raise last or TimeoutError("no answer")


async def main() -> None:
    # Whatever a client prints must not end up among the outcomes.
    outcomes = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    adapter = importlib.import_module(f"adapter_{sys.argv[1]}")
    worker = Worker(cast(Adapter, adapter))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        job = getattr(worker, asked.pop("job"))
        try:
            outcome: dict[str, Any] = {"seconds": await job(**asked)}
        except Exception as error:  # noqa: BLE001 - whatever a client raises is its outcome
            outcome = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(outcome), file=outcomes, flush=True)
    # A client whose server was killed may not close well, which is not what is measured.
    with contextlib.suppress(BaseException):
        await asyncio.wait_for(worker.stack.aclose(), 5)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
