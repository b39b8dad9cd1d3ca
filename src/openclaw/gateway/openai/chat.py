"""`POST /v1/chat/completions` and `GET /v1/models`, as OpenAI's clients know them."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openclaw.agent.port import Reply
from openclaw.core.errors import InvalidRequest
from openclaw.gateway.api.bodies import Json, json_body, objects
from openclaw.gateway.feeds import Put, frame
from openclaw.gateway.openai.order import Order
from openclaw.gateway.openai.requests import MODEL, agent_of, error_body
from openclaw.gateway.state import Gateway


async def list_models(gateway: Gateway, request: Request) -> Response:
    """The agents, as models."""
    names = [MODEL, *(f"{MODEL}/{agent}" for agent in gateway.backend.agents())]
    created = gateway.started // 1000
    data = [{"id": n, "object": "model", "created": created, "owned_by": MODEL} for n in names]
    return JSONResponse({"object": "list", "data": data})


async def chat_completions(gateway: Gateway, request: Request) -> Any:
    """One turn."""
    body = await json_body(request)
    if body.get("n") not in (None, 1):
        raise InvalidRequest("one choice is made for each request", field="n")
    messages = objects(body.get("messages"), "messages")
    if not messages:
        raise InvalidRequest("is missing", field="messages")
    settings = await gateway.backend.agent.settings(agent_of(body.get("model")))
    return _Completion(gateway, settings, request, body, messages, field="messages").respond()


class _Completion(Order):
    def rendered(self, text: str, reply: Reply) -> Json:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": _reason(reply)}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage(reply)}

    async def stream(self, put: Put) -> None:
        try:
            await self._streamed(put)
        except Exception as error:  # noqa: BLE001 - the answer has begun: it ends with the error
            put(frame(error_body(error)))
        put(frame("[DONE]"))

    async def _streamed(self, put: Put) -> None:
        put(self._chunk({"role": "assistant", "content": ""}))
        _, reply = await self.write(lambda piece: put(self._chunk({"content": piece})))
        put(self._chunk({}, _reason(reply)))
        options: Any = self.body.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):  # pyright: ignore[reportUnknownMemberType] - any JSON
            head = self._head("chat.completion.chunk")
            put(frame({**head, "choices": [], "usage": usage(reply)}))

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


def _reason(reply: Reply) -> str:
    return "length" if reply.outcome == "limit" else "stop"


def usage(reply: Reply) -> Json:
    """What the turn cost, all of its requests to models together."""
    return {
        "prompt_tokens": reply.usage.input_tokens,
        "completion_tokens": reply.usage.output_tokens,
        "total_tokens": reply.usage.input_tokens + reply.usage.output_tokens,
    }
