"""`POST /v1/chat/completions` and `GET /v1/models`, as OpenAI's clients know them."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openclaw.agent.port import Reply
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.gateway.api.bodies import Json, json_body, objects
from openclaw.gateway.feeds import Put, frame
from openclaw.gateway.openai.options import chat_options
from openclaw.gateway.openai.order import Order, reason_of, waiting_session
from openclaw.gateway.openai.requests import MODEL, agent_of, error_body
from openclaw.gateway.state import Gateway

_STARTS_OVER = "\n\n[The connection to the model broke. The answer starts over.]\n\n"


async def list_models(gateway: Gateway, request: Request) -> Response:
    """The agents, as models."""
    return JSONResponse({"object": "list", "data": list(_models(gateway).values())})


async def show_model(gateway: Gateway, request: Request) -> Response:
    """One of them."""
    name = request.path_params["model"]
    found = _models(gateway).get(name)
    if found is None:
        raise NotFound(f"there is no model '{name}'", hint="GET /v1/models lists what there is")
    return JSONResponse(found)


def _models(gateway: Gateway) -> dict[str, Json]:
    names = [MODEL, *(f"{MODEL}/{agent}" for agent in gateway.backend.agents())]
    created = gateway.started // 1000
    return {
        name: {"id": name, "object": "model", "created": created, "owned_by": MODEL}
        for name in names
    }


async def chat_completions(gateway: Gateway, request: Request) -> Any:
    """One turn."""
    body = await json_body(request)
    options = chat_options(body)
    messages = objects(body.get("messages"), "messages")
    if not messages:
        raise InvalidRequest("is missing", field="messages")
    settings = await gateway.backend.agent.settings(agent_of(body.get("model")))
    waiting, results = await waiting_session(gateway, settings.id, messages, "messages")
    order = _Completion(
        gateway,
        settings,
        request,
        body,
        messages,
        field="messages",
        options=options,
        previous=waiting,
        results=results,
    )
    return order.respond()


class _Completion(Order):
    def rendered(self, text: str, reply: Reply) -> Json:
        message: Json = {"role": "assistant", "content": text}
        if reply.calls:
            message |= {"content": text or None, "tool_calls": self._tool_calls(reply)}
        choice = {"index": 0, "message": message, "finish_reason": reason_of(reply)}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage(reply)}

    async def stream(self, put: Put) -> None:
        try:
            await self._streamed(put)
        except Exception as error:  # noqa: BLE001 - the answer has begun: it ends with the error
            put(frame(error_body(error)))
        put(frame("[DONE]"))

    async def _streamed(self, put: Put) -> None:
        put(self._chunk({"role": "assistant", "content": ""}))

        def piece(text: str) -> None:
            put(self._chunk({"content": text}))

        # What was sent cannot be taken back here, so the reader is told that it is void.
        _, reply = await self.write(piece, lambda _: piece(_STARTS_OVER))
        for index, call in enumerate(self._tool_calls(reply)):
            put(self._chunk({"tool_calls": [{"index": index, **call}]}))
        put(self._chunk({}, reason_of(reply)))
        options: Any = self.body.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):  # pyright: ignore[reportUnknownMemberType] - any JSON
            head = self._head("chat.completion.chunk")
            put(frame({**head, "choices": [], "usage": usage(reply)}))

    def _tool_calls(self, reply: Reply) -> list[Json]:
        return [
            {"id": name, "type": "function", "function": {"name": tool, "arguments": arguments}}
            for name, tool, arguments in self.calls(reply)
        ]

    def _chunk(self, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return frame({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> Json:
        return {
            "id": f"chatcmpl-{self.turn}",
            "object": kind,
            "created": self.gateway.clock.now_ms() // 1000,
            "model": self.body.get("model"),
        }


def usage(reply: Reply) -> Json:
    """What the turn cost, all of its requests to models together."""
    used = reply.usage
    return {
        "prompt_tokens": used.input_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens": used.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.input_tokens + used.output_tokens,
    }
