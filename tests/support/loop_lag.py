"""How long an event loop was held up, and by whom."""

import sys
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Lag:
    """What was seen. `held` is in seconds of the loop's own CPU time, so that a busy machine, where
    the loop merely waits for its turn, is not mistaken for a loop that is held up."""

    held: float = 0.0
    where: str = ""


@contextmanager
def watch_loop(report_from: float = 0.2) -> Generator[Lag]:
    """Measure the longest stretch of CPU time between two turns of the running event loop."""
    import asyncio

    loop = asyncio.get_running_loop()
    lag = Lag()
    beat = time.thread_time()
    stopped = threading.Event()
    loop_thread = threading.get_ident()
    clock = time.pthread_getcpuclockid(loop_thread)

    def tick() -> None:
        nonlocal beat, handle
        now = time.thread_time()
        if now - beat > lag.held:
            lag.held = now - beat
        beat = now
        handle = loop.call_later(0.005, tick)

    def look() -> None:
        """From another thread: where the loop is while it is held up."""
        while not stopped.wait(0.02):
            held = time.clock_gettime(clock) - beat
            if held > report_from and held > lag.held:
                frames = sys._current_frames()  # the only way to see
                frame = frames.get(loop_thread)
                lag.where = "".join(traceback.format_stack(frame)[-6:])

    handle = loop.call_soon(tick)
    watcher = threading.Thread(target=look, name="loop watcher", daemon=True)
    watcher.start()
    try:
        yield lag
    finally:
        handle.cancel()
        stopped.set()
        watcher.join()
