"""Time limits in tests without waiting for them, and without a race against a busy machine."""

import asyncio


def pass_time(seconds: float) -> None:
    """Let the running loop believe that so much time has passed: timers that are due by then fire next.

    A test gives the program a limit of minutes, waits for the event after which the limit should
    strike, and then lets the minutes pass. Clocks other than the loop's stay as they are.
    """
    loop = asyncio.get_running_loop()
    before = loop.time
    setattr(loop, "time", lambda: before() + seconds)  # noqa: B010 - pyright allows no assignment to a method
