"""A call that its server made a task of."""

import pytest

from openclaw.core.tools import JsonObject
from openclaw.mcp.jsonrpc import JsonObject as RawResult
from openclaw.mcp_client.errors import Interrupted
from openclaw.mcp_client.session.listing import ignore_progress
from openclaw.mcp_client.session.server_tasks import RemoteTask


@pytest.mark.parametrize(("extension", "ttl_key"), [(True, "ttlMs"), (False, "ttl")])
async def test_a_task_that_has_expired_is_not_asked_for_again(
    extension: bool, ttl_key: str
) -> None:
    asked: list[str] = []

    async def ask(method: str, params: JsonObject) -> RawResult:
        asked.append(method)
        return {"taskId": "t", "status": "working", ttl_key: 1}

    async def answers(status: RawResult) -> JsonObject:
        raise AssertionError

    handle = {"id": "t", "extension": extension, "pollMs": 50}
    task = RemoteTask(handle, ask, answers, ignore_progress, patience=60)
    with pytest.raises(Interrupted, match="expired"):
        await task.result()
    assert asked == ["tasks/get"]
