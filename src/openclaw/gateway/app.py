"""All routes, behind the guard."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from openclaw.gateway import native, openai_chat, openai_responses, page_api, scopes, views
from openclaw.gateway.detached import turn_events
from openclaw.gateway.guard import Refused, refusal_body
from openclaw.gateway.openai_errors import error_response
from openclaw.gateway.openapi import openapi
from openclaw.gateway.page_files import page_routes
from openclaw.gateway.state import Gateway

Handler = Callable[[Gateway, Request], Awaitable[Any]]


def build_app(gateway: Gateway) -> Starlette:
    """The application, without the guard."""

    def on(path: str, handler: Handler, *methods: str) -> Route:
        async def endpoint(request: Request) -> Any:
            try:
                return await handler(gateway, request)
            except Refused as refused:
                return _refused(request, refused)
            except Exception as error:  # noqa: BLE001 - every failure is an answer
                return _failed(request, error)

        return Route(path, endpoint, methods=list(methods) or ["GET"], name=handler.__name__)

    routes: list[BaseRoute] = [
        on("/health", health),
        on("/ready", ready),
        on("/metrics", metrics),
        on("/v1/models", openai_chat.list_models),
        on("/v1/chat/completions", openai_chat.chat_completions, "POST"),
        on("/v1/responses", openai_responses.responses, "POST"),
        on("/api/openapi.json", openapi),
        on("/api/status", views.status),
        on("/api/agents", views.agents),
        on("/api/sessions", views.sessions),
        on("/api/sessions/{key:path}/cancel", native.cancel_session, "POST"),
        on("/api/sessions/{key:path}", views.session),
        on("/api/sessions/{key:path}", views.delete_session, "DELETE"),
        on("/api/servers", views.servers),
        on("/api/servers/{name}/restart", views.restart_server, "POST"),
        on("/api/tools", views.tools),
        on("/api/prompts", views.prompts),
        on("/api/models", scopes.models),
        on("/api/scopes", scopes.open_scope, "POST"),
        on("/api/messages", native.post_message, "POST"),
        on("/api/turns", native.list_turns),
        on("/api/turns/{turn}/cancel", native.cancel_turn, "POST"),
        on("/api/turns/{turn}/events", turn_events),
        on("/api/questions/{id}", native.answer_question, "POST"),
        on("/api/events", native.events),
        on("/api/logs", native.logs),
        on("/api/reload", native.reload, "POST"),
        on("/api/pins", page_api.pins),
        on("/api/servers/{name}/pins", page_api.accept_pins, "POST"),
        on("/api/files", page_api.show_file),
    ]
    if gateway.settings.dashboard:
        routes += page_routes()
    handlers: dict[Any, Any] = {HTTPException: _http_failed}
    return Starlette(routes=routes, exception_handlers=handlers)


def _refused(request: Request, refused: Refused) -> Response:
    headers = {name.decode(): value.decode() for name, value in refused.headers}
    body = refusal_body(refused, request.url.path)
    return Response(body, refused.status, headers, media_type="application/json")


def _failed(request: Request, error: Exception) -> Response:
    openai = request.url.path.startswith("/v1/")
    return error_response(error) if openai else native.failed(error)


async def _http_failed(request: Request, error: HTTPException) -> Response:
    body = {"message": error.detail, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": body}, error.status_code, error.headers)


async def health(gateway: Gateway, request: Request) -> Response:
    """Whether the process lives."""
    return JSONResponse({"status": "ok"})


async def ready(gateway: Gateway, request: Request) -> Response:
    """Whether it takes orders."""
    if gateway.opened is None or gateway.stopping:
        state = "stopping" if gateway.stopping else "starting"
        return JSONResponse({"status": state}, 503)
    member = gateway.opened.member
    if member is not None and not member.reachable:
        return JSONResponse({"status": "database unreachable"}, 503)
    return JSONResponse({"status": "ready"})


async def metrics(gateway: Gateway, request: Request) -> Response:
    """Figures for Prometheus."""
    member = gateway.opened.member if gateway.opened is not None else None
    figures = member.figures() if member is not None else ()
    text = gateway.metrics.render(views.gauges(gateway), figures)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
