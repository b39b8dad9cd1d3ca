"""Routes that only the page needs: logging in, accepting pins, showing files."""

import ipaddress
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
from pydantic import Field, WithJsonSchema
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from openclaw.agent.port import AgentSettings
from openclaw.agent.tools.workspace import Workspace
from openclaw.core.errors import InvalidRequest, NotFound, ToolFailure
from openclaw.gateway.api.openapi import Json, operation
from openclaw.gateway.api.views import found_session
from openclaw.gateway.auth import RequestRefused, grant_of
from openclaw.gateway.gateway import Gateway
from openclaw.gateway.owners import ALL, NOTHING
from openclaw.mcp_client.catalog.pin_store import PinStore, pin_key
from openclaw.mcp_client.catalog.pins import Pinned, diff, shown_name
from openclaw.media.kinds import MAX_OUTBOUND_BYTES, in_mb
from openclaw.media.stored_files import WITHHELD, cleaned

_BYTES = Annotated[
    str, WithJsonSchema({"type": "string", "contentMediaType": "application/octet-stream"})
]
# Whatever the file contains, it isn't served as a page of this origin and runs no scripts.
_FILE_HEADERS = {
    "content-security-policy": "default-src 'none'; sandbox",
    "content-disposition": "attachment",
    "cache-control": "no-store",
}


@operation("POST /api/login/links", NOTHING, {"url": str})
async def make_login_link(
    gateway: Gateway,
    *,
    local: Annotated[bool, Field(description="only for this account on this machine")] = False,
) -> Json:
    """A one-time link that logs a browser in."""
    return {"url": login_link(gateway, local=local)}


def login_link(gateway: Gateway, *, local: bool = False) -> str:
    """The page's address; browsers don't send or log the part with the one-time code."""
    return f"{gateway.url}/#login={gateway.tokens.new_link_code(local=local)}"


@operation("POST /api/login", NOTHING, {"token": str}, needs=None)
async def log_in(gateway: Gateway, request: Request, *, code: str = "") -> Response:
    """A token for the page, in exchange for a one-time code."""
    token = gateway.tokens.redeem(code, lambda: _is_ours(request))
    if token is None:
        raise RequestRefused(
            401,
            "this link has already been used or has expired; get a new one with 'openclaw page'",
        )
    return JSONResponse({"token": token.reveal()}, headers={"cache-control": "no-store"})


def _is_ours(request: Request) -> bool:
    """Whether a program of this account made the connection; known only on Linux."""
    if sys.platform != "linux":
        return True
    ends = request.scope["client"], request.scope["server"]
    table = Path("/proc/net/tcp6" if ":" in ends[0][0] else "/proc/net/tcp").read_text()
    return account_of(*ends, table) in (os.getuid(), 0)


def account_of(client: tuple[str, int], server: tuple[str, int], table: str) -> int | None:
    """The user id of a connection, from the kernel's table of connections."""
    wanted = [_in_table(*client), _in_table(*server)]
    rows = (line.split() for line in table.splitlines()[1:])
    return next((int(row[7]) for row in rows if row[1:3] == wanted), None)


def _in_table(host: str, port: int) -> str:
    packed = ipaddress.ip_address(host).packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


@operation("GET /api/pins", NOTHING)
async def list_pins(gateway: Gateway) -> Json:
    """Changed declarations of servers that you have not accepted yet."""
    keys = _pin_keys(gateway)
    known = await anyio.to_thread.run_sync(PinStore(gateway.paths.pins).load)
    rows = [
        {"server": keys[key], "changes": _changes(pinned)}
        for key, pinned in known.items()
        if key in keys and (pinned.pending or pinned.removed)
    ]
    return {"pins": rows}


@operation("POST /api/servers/{name}/pins", NOTHING, {"accepted": list[str]})
async def accept_pins(gateway: Gateway, name: str, *, names: list[str] | None = None) -> Json:
    """Accept a server's current declarations, all or the given names."""
    found = [key for key, server in _pin_keys(gateway).items() if server == name]
    if not found:
        raise NotFound(f"there is no server '{name}'")
    store = PinStore(gateway.paths.pins)
    accepted: list[str] = []
    for key in found:
        accepted += await anyio.to_thread.run_sync(store.accept, key, names)
    return {"accepted": accepted}


def _pin_keys(gateway: Gateway) -> dict[str, str]:
    agents = gateway.backend.agents().values()
    servers = [one for agent in agents for one in agent.servers.items()]
    # The first agent's name for a server wins.
    return {pin_key(config): name for name, config in reversed(servers)}


def _changes(pinned: Pinned) -> list[Json]:
    def row(name: str, what: str, change: Any = None) -> Json:
        return {"key": name, "name": shown_name(name), "what": what, "diff": change}

    return [
        row(name, "changed" if name in pinned.accepted else "new", diff(pinned, name))
        for name in pinned.pending
    ] + [row(name, "gone") for name in pinned.removed]


@operation("GET /api/files", ALL, _BYTES)
async def show_file(
    gateway: Gateway, request: Request, path: str = "", agent: str | None = None, session: str = ""
) -> Response:
    """A file that the agent handed over, unchanged."""
    settings = await gateway.backend.agent.settings(agent)
    if not path or "\0" in path:
        raise InvalidRequest("is not a path" if path else "is missing", field="path")
    grant, store = grant_of(request.scope), gateway.backend.store
    told = [
        entry.data
        for info in await store.find_sessions(session, settings.id)
        for entry in await store.history(info.ref, since_compaction=False)
    ]
    if grant is None or not grant.allows("admin"):
        handed = [row.get("path") for one in told for row in one.get("handed", ())]
        if path not in handed:
            raise NotFound("the agent did not hand over this file in this session")
    private = (gateway.paths.root, gateway.config_path)
    folders = {Path(one["cwd"]) for one in told if one.get("cwd")}
    roots = [Workspace(one, private) for one in (*settings.directories, *folders)]
    roots.insert(0, Workspace(gateway.paths.results.path))
    data = await anyio.to_thread.run_sync(_read, Path(path), roots)
    return await _download(data, settings)


@operation("GET /api/sessions/{key:path}/media/{digest}", ALL, _BYTES)
async def show_media(gateway: Gateway, key: str, digest: str, agent: str | None = None) -> Response:
    """An attachment of a session, unchanged."""
    info = await found_session(gateway, key, agent)
    settings = await gateway.backend.agent.settings(info.agent)
    data = await gateway.backend.store.media(info.ref, digest)
    if data is None:
        raise NotFound("this attachment is no longer stored")
    return await _download(data, settings)


async def _download(data: bytes, settings: AgentSettings) -> Response:
    clean = await anyio.to_thread.run_sync(cleaned, data, settings.redactor)
    if clean is None:
        raise InvalidRequest(f"is withheld: {WITHHELD}", field="path")
    return Response(clean, headers=_FILE_HEADERS, media_type="application/octet-stream")


def _read(path: Path, roots: Sequence[Workspace]) -> bytes:
    real = path.resolve()
    place = next((one for one in roots if real.is_relative_to(one.root.resolve())), None)
    if place is None or not path.is_absolute():
        raise InvalidRequest("is not in the agent's workspace", field="path")
    try:
        with place.open_file(str(real)) as (file, _, _):
            data = file.read(MAX_OUTBOUND_BYTES + 1)
    except (OSError, ToolFailure) as error:
        raise NotFound(f"the file cannot be read: {error}") from error
    if len(data) > MAX_OUTBOUND_BYTES:
        raise InvalidRequest(f"is larger than {in_mb(MAX_OUTBOUND_BYTES)}", field="path")
    return data


STATIC = Path(__file__).parent / "static"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; manifest-src 'self'; worker-src 'self'; "
    "require-trusted-types-for 'script'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-cache",
}


class _Page(StaticFiles):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(404, "There is nothing at this address.")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(raw=message["headers"]).update(_HEADERS)
            await send(message)

        await super().__call__(scope, receive, guarded)


def page_route() -> BaseRoute:
    return Mount("/", _Page(directory=STATIC, html=True), name="page")
