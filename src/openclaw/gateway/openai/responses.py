"""`POST /v1/responses`, as OpenAI's clients know it."""

import re
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from openclaw.agent.port import AgentSettings, Reply
from openclaw.core.errors import InvalidRequest
from openclaw.core.ids import random_id
from openclaw.gateway.api.bodies import Json, json_body, objects, text_field
from openclaw.gateway.feeds import Put, frame
from openclaw.gateway.openai.order import Order
from openclaw.gateway.openai.requests import agent_of, error_body
from openclaw.gateway.state import Gateway

_ID = re.compile(r"resp_([0-9a-f]{16})_([0-9a-f]{16})")


async def responses(gateway: Gateway, request: Request) -> Any:
    """One turn."""
    body = await json_body(request)
    settings = await gateway.backend.agent.settings(agent_of(body.get("model")))
    return _Response(gateway, settings, request, body).respond()


def _previous(body: Json) -> str | None:
    """The session of the response that this one follows: its id names the session."""
    given = text_field(body, "previous_response_id")
    if given is None:
        return None
    found = _ID.fullmatch(given)
    if found is None:
        raise InvalidRequest("is not the id of a response of ours", field="previous_response_id")
    return f"http-{found[1]}"


class _Response(Order):
    def __init__(
        self, gateway: Gateway, settings: AgentSettings, request: Request, body: Json
    ) -> None:
        messages, previous = _messages(body), _previous(body)
        super().__init__(
            gateway, settings, request, body, messages, field="input", previous=previous
        )
        # A session that the client named needs no name from us: the id then says nothing of it.
        own = self.session.removeprefix("http-")
        place = own if re.fullmatch(r"[0-9a-f]{16}", own) else random_id()
        self._id = f"resp_{place}_{self.turn}"
        self._item = f"msg_{self.turn}"
        self._created = gateway.clock.now_ms() // 1000

    async def stream(self, put: Put) -> None:
        number = 0

        def say(kind: str, **body: Any) -> None:
            nonlocal number
            put(frame({"type": kind, "sequence_number": number, **body}, kind))
            number += 1

        say("response.created", response=self._head("in_progress"))
        say("response.in_progress", response=self._head("in_progress"))
        try:
            await self._streamed(say)
        except Exception as error:  # noqa: BLE001 - the answer has begun: it ends with the error
            told = error_body(error)["error"]
            failure = {"code": "server_error", "message": told["message"]}
            say("response.failed", response={**self._head("failed"), "error": failure})

    async def _streamed(self, say: Callable[..., None]) -> None:
        place = {"item_id": self._item, "output_index": 0, "content_index": 0}
        say("response.output_item.added", output_index=0, item=self._message("", "in_progress"))
        say("response.content_part.added", **place, part=_part(""))

        def piece(text: str) -> None:
            say("response.output_text.delta", **place, delta=text, logprobs=[])

        text, reply = await self.write(piece)
        say("response.output_text.done", **place, text=text, logprobs=[])
        say("response.content_part.done", **place, part=_part(text))
        say("response.output_item.done", output_index=0, item=self._message(text, "completed"))
        body = self.rendered(text, reply)
        say(f"response.{body['status']}", response=body)

    def rendered(self, text: str, reply: Reply) -> Json:
        cut = reply.outcome == "limit"
        used = reply.usage
        return {
            **self._head("incomplete" if cut else "completed"),
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": [self._message(text, "completed")],
            "usage": {
                "input_tokens": used.input_tokens,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": used.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": used.input_tokens + used.output_tokens,
            },
        }

    def _head(self, status: str) -> Json:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self.body.get("model"),
            "error": None,
            "incomplete_details": None,
            "instructions": self.body.get("instructions"),
            "metadata": self.body.get("metadata") or {},
            "output": [],
            "parallel_tool_calls": False,
            "previous_response_id": self.body.get("previous_response_id"),
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
        }

    def _message(self, text: str, status: str) -> Json:
        content = [_part(text)] if status == "completed" else []
        return {
            "id": self._item,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _messages(body: Json) -> list[Json]:
    given = body.get("input")
    messages: list[Json]
    if isinstance(given, str):
        messages = [{"role": "user", "content": given}]
    else:
        messages = objects(given, "input")
    if not messages:
        raise InvalidRequest("is missing", field="input")
    instructions = text_field(body, "instructions")
    told: list[Json] = [{"role": "system", "content": instructions}] if instructions else []
    return [*told, *messages]
