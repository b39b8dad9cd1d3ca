"""Tells the user about something that happened without them: by a command, and by a webhook."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import httpx2

from openclaw.agent.toolpath.hooks import run_hook_command
from openclaw.core.errors import OpenClawError
from openclaw.net.http_request import open_client

if TYPE_CHECKING:
    from openclaw.secrets.refs import Secret

logger = logging.getLogger(__name__)

Resolve = Callable[[str], "Awaitable[Secret]"]

_MOST_SHOWN = 1_000


class NotifySettings(Protocol):
    @property
    def notify(self) -> Sequence[str]: ...
    @property
    def webhook(self) -> str | None: ...
    @property
    def webhook_token(self) -> str | None: ...


async def notify(
    section: str,
    settings: NotifySettings,
    news: Mapping[str, str],
    environ: Mapping[str, str],
    resolve: Resolve,
    *,
    seconds: float = 60.0,
) -> None:
    """Run the command and post to the address that this `section` of the configuration names."""
    if settings.notify:
        program, *rest = settings.notify
        words = [program, *(_filled(word, news) for word in rest)]
        given = json.dumps(news).encode()
        reason = await run_hook_command(words, given, environ, seconds=seconds)
        if reason is not None:
            logger.warning("the command in %s.notify failed: %s", section, reason)
    if settings.webhook is not None:
        await _post(section, settings, news, environ, resolve, seconds)


async def _post(
    section: str,
    settings: NotifySettings,
    news: Mapping[str, str],
    environ: Mapping[str, str],
    resolve: Resolve,
    seconds: float,
) -> None:
    address = settings.webhook or ""
    try:
        headers = {"Content-Type": "application/json"}
        if settings.webhook_token is not None:
            headers["Authorization"] = f"Bearer {(await resolve(settings.webhook_token)).reveal()}"
        async with open_client(address, environ, silence=seconds) as client:
            answer = await client.post(address, content=json.dumps(news), headers=headers)
            answer.raise_for_status()
    except (httpx2.HTTPError, httpx2.InvalidURL, OpenClawError) as error:
        logger.warning("%s.webhook could not be reached: %s", section, error)


def _filled(word: str, news: Mapping[str, str]) -> str:
    """An argument with its placeholders filled in; no value becomes an option."""
    for name, value in news.items():
        word = word.replace(f"{{{name}}}", value[:_MOST_SHOWN].lstrip("-").replace("\0", ""))
    return word
