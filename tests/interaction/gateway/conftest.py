"""A gateway in the test's own process, a scripted model behind it, and a client before it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.gateway_kit import Installation


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return Installation(state)


Open = Callable[..., AbstractAsyncContextManager[httpx2.AsyncClient]]


@pytest.fixture
def opened(installation: Installation) -> Open:
    """A running gateway and a client of it that has its token."""

    @asynccontextmanager
    async def running(**environ: str) -> AsyncGenerator[httpx2.AsyncClient]:
        async with installation.here(**environ) as info:
            headers = {"authorization": f"Bearer {installation.token}"}
            async with httpx2.AsyncClient(
                base_url=info.url, headers=headers, trust_env=False, timeout=90
            ) as client:
                yield client

    return running


def chat(text: str, **more: Any) -> dict[str, Any]:
    """The body of a chat completion."""
    return {"model": "openclaw", "messages": [{"role": "user", "content": text}], **more}
