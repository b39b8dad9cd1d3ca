"""The gateway's routes, and uvicorn with our signal handling, logs and connections."""

import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from openclaw.config.schema import GatewayLimits
from openclaw.gateway import auth
from openclaw.gateway.api import control, folders, questions, routes, views
from openclaw.gateway.api.openapi import OPERATIONS, document
from openclaw.gateway.connections import (
    Connections,
    Protocol,
    most_connections,
    open_files_limit,
)
from openclaw.gateway.gateway import Gateway
from openclaw.gateway.listening import BACKLOG
from openclaw.gateway.openai import endpoints
from openclaw.gateway.openai.requests import error_response
from openclaw.gateway.owners import ALL, NOTHING, OWN, RESPONSE, Reach
from openclaw.gateway.page import knowledge, providers
from openclaw.gateway.page import routes as page

if TYPE_CHECKING:
    from openclaw.mcp_server.asgi import HttpApp

Handler = Callable[..., Awaitable[Any]]
# The modules with our API's routes; `OPERATIONS` only has routes of imported modules.
API = (control, folders, knowledge, page, providers, questions, routes, views)
_ANY = ""  # all methods; the handler itself refuses those it doesn't support


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route: the scope that a token needs, and what it then reaches."""

    path: str
    handler: Handler
    methods: str
    needs: str | None
    reach: Reach


def endpoints_of_gateway() -> tuple[Endpoint, ...]:
    chat, responses = endpoints.chat_completions, endpoints.responses
    return (
        # first, because clients poll their tasks there
        Endpoint(auth.MCP_PATH, mcp, _ANY, "orders", OWN),
        Endpoint(auth.HUB_PATH, hub, _ANY, "tools", OWN),
        Endpoint("/health", health, "GET", None, NOTHING),
        Endpoint("/ready", ready, "GET", None, NOTHING),
        Endpoint("/metrics", metrics, "GET", "read", ALL),
        Endpoint("/v1/models", endpoints.list_models, "GET", "orders", NOTHING),
        Endpoint("/v1/models/{model:path}", endpoints.show_model, "GET", "orders", NOTHING),
        Endpoint("/v1/chat/completions", chat, "POST", "orders", OWN),
        Endpoint("/v1/responses", responses, "POST", "orders", OWN),
        Endpoint("/v1/responses/{response}", endpoints.show_response, "GET", "orders", RESPONSE),
        Endpoint("/api/openapi.json", openapi, "GET", "read", NOTHING),
        *(  # longer paths first, since a session's key may contain slashes
            Endpoint(one.path, one.answered, one.method, one.needs, one.reach)
            for one in sorted(OPERATIONS, key=lambda one: one.path, reverse=True)
        ),
        Endpoint(auth.RESOURCE_PATH, protected_resource, "GET", None, NOTHING),
        Endpoint(f"{auth.RESOURCE_PATH}{auth.MCP_PATH}", protected_resource, "GET", None, NOTHING),
        Endpoint(f"{auth.RESOURCE_PATH}{auth.HUB_PATH}", protected_hub, "GET", None, NOTHING),
    )


def build_app(gateway: Gateway) -> Starlette:
    def on(one: Endpoint) -> Route:
        async def endpoint(request: Request) -> Any:
            try:
                if one.needs is not None:
                    auth.require(request.scope, one.needs)
                if one.reach.find is not None:
                    request.state.target = await one.reach.find(gateway, request)
                return await one.handler(gateway, request)
            except auth.RequestRefused as refused:
                return auth.refusal(refused, request.url.path)
            except ClientDisconnect:
                raise  # the guard handles it: the client is gone
            except Exception as error:  # noqa: BLE001 - every failure is an answer
                return _failed(request, error)

        return Route(one.path, endpoint, methods=one.methods.split())

    table: list[BaseRoute] = [on(one) for one in endpoints_of_gateway()]
    if gateway.settings.dashboard:
        table.append(page.page_route())
    handlers: dict[Any, Any] = {HTTPException: _http_failed}
    return Starlette(routes=table, exception_handlers=handlers)


async def mcp(gateway: Gateway, request: Request) -> "HttpApp":
    return await gateway.mcp()


async def hub(gateway: Gateway, request: Request) -> "HttpApp":
    return await gateway.hub()


async def protected_resource(gateway: Gateway, request: Request) -> Response:
    return _resource_metadata(request, auth.MCP_PATH, "OpenClaw", "orders")


async def protected_hub(gateway: Gateway, request: Request) -> Response:
    return _resource_metadata(request, auth.HUB_PATH, "OpenClaw's MCP servers", "tools")


def _resource_metadata(request: Request, path: str, name: str, scope: str) -> Response:
    facts = {
        "resource": auth.origin_of(request.scope, dict(request.headers.raw)) + path,
        "resource_name": name,
        "bearer_methods_supported": ["header"],
        "scopes_supported": [scope],
    }
    return JSONResponse(facts)


def _failed(request: Request, error: Exception) -> Response:
    openai = request.url.path.startswith("/v1/")
    return error_response(error) if openai else routes.failed(error)


async def _http_failed(request: Request, error: HTTPException) -> Response:
    body = {"message": error.detail, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": body}, error.status_code, error.headers)


async def openapi(gateway: Gateway, request: Request) -> Response:
    return JSONResponse(document(gateway.url))


async def health(gateway: Gateway, request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def ready(gateway: Gateway, request: Request) -> Response:
    if gateway.opened is None or gateway.stopping:
        state = "stopping" if gateway.stopping else "starting"
        return JSONResponse({"status": state}, 503)
    cluster = gateway.opened.cluster
    if cluster is not None and not cluster.reachable:
        return JSONResponse({"status": "database unreachable"}, 503)
    return JSONResponse({"status": "ready"})


async def metrics(gateway: Gateway, request: Request) -> Response:
    cluster = gateway.opened.cluster if gateway.opened is not None else None
    figures = cluster.figures() if cluster is not None else ()
    text = gateway.metrics.render([*figures, *views.gauges(gateway)])
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


logger = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 75
# New connections taken per turn of the event loop, so that a thousand at once don't hold it up.
_TAKEN_AT_ONCE = 16
_FEW_CONNECTIONS = 64


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield  # the daemon handles signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)  # uvicorn made the system's queue as short as `_TAKEN_AT_ONCE`


def make_server(gateway: Gateway) -> uvicorn.Server:
    settings, tokens = gateway.settings, gateway.tokens
    names = auth.AllowedHosts(
        hosts=frozenset(host.lower() for host in settings.allowed_hosts),
        origins=frozenset(settings.allowed_origins),
        any_address=settings.bind not in ("loopback", "127.0.0.1", "::1"),
    )
    app = auth.Guard(
        build_app(gateway), tokens, names, settings.limits, gateway.clock, gateway.metrics
    )
    connections = _connections(settings.limits)
    gateway.metrics.connections = connections
    protocol = type("Protocol", (Protocol,), {"connections_of_gateway": connections})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=2,
        backlog=_TAKEN_AT_ONCE,
        h11_max_incomplete_event_size=64 * 1024,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return _Server(config)


def _connections(limits: GatewayLimits) -> Connections:
    files = open_files_limit()
    most = most_connections(limits.max_connections, files)
    if most < min(limits.max_connections, _FEW_CONNECTIONS):
        logger.warning(
            "this process may have only %d files open, so the gateway serves at most %d connections "
            "at a time; raise the limit with 'ulimit -n' or LimitNOFILE",
            files,
            most,
        )
    return Connections(most, limits.client_timeout_ms / 1000)
