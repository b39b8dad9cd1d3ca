import sys
import threading
from pathlib import Path

import anyio
import pytest

from openclaw.mcp_client.imports import import_in_thread, load


async def test_modules_that_import_each_other_are_imported_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    circle = {
        "__init__": "from circling import a, b",
        "a": "import circling.b",
        "b": "import circling.a",
    }
    (tmp_path / "circling").mkdir()
    for name, text in circle.items():
        slowly = f"import time\ntime.sleep(0.05)\n{text}\nwhole = True\n"
        (tmp_path / "circling" / f"{name}.py").write_text(slowly)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    async with anyio.create_task_group() as group:
        for name in ("circling.a", "circling.b", "circling"):
            group.start_soon(load, name)
    assert all(sys.modules[name].whole for name in ("circling", "circling.a", "circling.b"))


async def test_an_import_that_is_given_up_still_keeps_the_next_one_waiting() -> None:
    begun, go = threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        begun.set()
        go.wait()
        order.append("first")

    async with anyio.create_task_group() as group:
        group.start_soon(import_in_thread, first)
        await anyio.to_thread.run_sync(begun.wait)
        group.cancel_scope.cancel()
    async with anyio.create_task_group() as group:
        group.start_soon(import_in_thread, lambda: order.append("second"))
        go.set()
    assert order == ["first", "second"]
