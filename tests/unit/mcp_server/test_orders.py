"""What a client reads of an order that fails."""

import pytest

from openclaw.core.clock import SystemClock
from openclaw.core.errors import OperatorFacing
from openclaw.mcp_server.orders import _progress


async def _unheard(progress: float, total: float | None = None, message: str | None = None) -> None:
    return


async def test_an_order_with_progress_fails_with_its_real_cause() -> None:
    with pytest.raises(OperatorFacing, match="no model"):
        async with _progress(_unheard, SystemClock()):
            raise OperatorFacing("no model is configured")
