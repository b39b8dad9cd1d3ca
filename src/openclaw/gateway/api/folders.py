"""Where conversations work, and what they changed there."""

from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from openclaw.agent.tools.checkpoints import Checkpoints, FileChange
from openclaw.config.paths import StatePaths
from openclaw.core.errors import InvalidRequest
from openclaw.gateway.api.openapi import Json, operation
from openclaw.gateway.api.views import found_session
from openclaw.gateway.auth import RequestRefused
from openclaw.gateway.gateway import Gateway
from openclaw.gateway.owners import ALL, NOTHING
from openclaw.policy.approval_text import diff_lines
from openclaw.sessions.records import EntryKind, SessionInfo, directory_prefix

_MOST_SESSIONS = 200
_MOST_FOLDERS = 20
_FIRST_ENTRIES = 4  # a conversation's first message is among these
_MOST_LINES = 2000  # of one file's diff


def checked_folder(paths: StatePaths, text: str) -> Path:
    """A directory that conversations may work in; raises if it is none, or has our state in it."""
    problem = InvalidRequest("is not a directory on the gateway's computer", field="workspace")
    try:
        folder = Path(text).expanduser()
        if "\0" in text or not folder.is_absolute() or not folder.is_dir():
            raise problem
    except (OSError, RuntimeError):  # a name that is too long, or the home of nobody
        raise problem from None
    real, state = folder.resolve(), paths.root.resolve()
    if state.is_relative_to(real) or real.is_relative_to(state):
        raise RequestRefused(403, "this directory has OpenClaw's own files in it")
    return real


@operation("GET /api/folders", NOTHING, {"folders": list[Json]}, needs="admin")
async def list_folders(gateway: Gateway, agent: str | None = None) -> Json:
    """The directories that conversations of an agent have worked in, the last used first."""
    id, store = (await gateway.backend.agent.settings(agent)).id, gateway.backend.store
    page = await store.list_sessions(id, limit=_MOST_SESSIONS, search="chat-")
    newest: dict[str, SessionInfo] = {}
    for info in page.sessions:
        newest.setdefault(info.key.rpartition("-")[0], info)
    folders: list[Json] = []
    for info in list(newest.values())[:_MOST_FOLDERS]:
        entries = await store.entries(info.ref, limit=_FIRST_ENTRIES)
        said = (one.data for one in entries if one.kind is EntryKind.USER_MESSAGE)
        path = next((one["cwd"] for one in said if "cwd" in one), None)
        if path is not None and await anyio.to_thread.run_sync(Path(path).is_dir):
            folders.append(_folder(Path(path)))
    return {"folders": folders}


@operation("POST /api/folders", NOTHING)
async def check_folder(gateway: Gateway, *, path: str) -> Json:
    """Whether conversations may work in this directory, and how their keys begin."""
    return _folder(await anyio.to_thread.run_sync(checked_folder, gateway.paths, path))


def _folder(path: Path) -> Json:
    return {"path": str(path), "keyPrefix": directory_prefix("chat", path)}


@operation("GET /api/sessions/{key:path}/changes", ALL, {"changes": list[Json]})
async def show_changes(gateway: Gateway, key: str, agent: str | None = None) -> Json:
    """What a session changed in files, as far as it can be undone."""
    info = await found_session(gateway, key, agent)
    find = partial(Checkpoints(gateway.paths.undo).diff, info.agent, info.key)
    changes = await anyio.to_thread.run_sync(find)
    row = partial(_change, gateway)
    return {"changes": await anyio.to_thread.run_sync(lambda: [row(one) for one in changes])}


def _change(gateway: Gateway, change: FileChange) -> dict[str, Any]:
    lines: list[str] | None = None
    if change.before is not None and change.after is not None:
        redact = gateway.redact
        lines = list(diff_lines(redact(change.before), redact(change.after)))[:_MOST_LINES]
    return {"path": change.path, "what": change.what, "diff": lines}
