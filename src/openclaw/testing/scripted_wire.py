"""Encodes a scripted step for each model provider's API. Pure: steps in, JSON and SSE out."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Api = Literal["chat", "responses", "anthropic", "google"]
Json = dict[str, Any]

_CREATED = 1_700_000_000
_PIECE = 8
_MOST_PIECES = 100


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes; `arguments` as a string go out as they are, however broken."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str

    @property
    def raw(self) -> str:
        """The arguments as a provider sends them: JSON text, or the broken text itself."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(dict(self.arguments))


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of the scripted model.

    `text` may contain `{last}`, which stands for the text of the last message. `calls` are
    `(name, arguments)` pairs; arguments as a string go out unparsed, so that they can be malformed,
    and may contain `{last}` as well. `found` are tools that the provider's own search found before
    the calls (Anthropic messages alone).
    `status` other than 200 is an error; `overflow` is the provider's "too long" error. `cut_after`
    breaks the connection after that many events, and `end_after` ends the stream there as if it
    were whole; `delay` is the pause in seconds before each event; `hang` never answers. `finish` is
    the provider's word for why the answer ended (but not for OpenAI responses). `cached_tokens` and
    `reasoning_tokens` are parts of the other two counts (OpenAI chat completions alone).

    `when` (text in the last message), `role` (of the last message: user or tool) and `model` make
    the step a rule.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    found: tuple[str, ...] = ()
    status: int = 200
    message: str = "scripted failure"
    code: str | None = None
    retry_after: float | None = None
    overflow: bool = False
    cut_after: int | None = None
    end_after: int | None = None
    delay: float = 0.0
    hang: bool = False
    input_tokens: int = 10
    output_tokens: int = 5
    finish: str | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    when: str | None = None
    role: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A step on its way to whoever asked."""

    id: str
    model: str
    text: str
    calls: tuple[Call, ...]
    step: Step

    def ended(self, with_calls: str, without: str) -> str:
        return self.step.finish or (with_calls if self.calls else without)


def pieces(text: str) -> list[str]:
    size = max(_PIECE, -(-len(text) // _MOST_PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]


def error(api: Api, status: int, message: str, code: str | None) -> Json:
    if api == "anthropic":
        kinds = {
            401: "authentication_error",
            429: "rate_limit_error",
            500: "api_error",
            529: "overloaded_error",
        }
        kind = code or kinds.get(status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    if api == "google":
        return {"error": {"code": status, "message": message, "status": code or "UNKNOWN"}}
    return {"error": {"message": message, "type": code or "error", "param": None, "code": code}}


def overflow(api: Api) -> tuple[str, str | None]:
    """The message and code with which each provider refuses a request that is too long."""
    if api == "anthropic":
        return "prompt is too long: 250000 tokens > 200000 maximum", "invalid_request_error"
    if api == "google":
        return (
            "The input token count (2000000) exceeds the maximum number of tokens allowed (1000000).",
            "INVALID_ARGUMENT",
        )
    return "This model's maximum context length is 8192 tokens.", "context_length_exceeded"


def _sse(data: Json, event: str | None = None) -> str:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data)}\n\n"


# ---- OpenAI chat completions


def _chat_usage(answer: Answer) -> Json:
    return {
        "prompt_tokens": answer.step.input_tokens,
        "completion_tokens": answer.step.output_tokens,
        "total_tokens": answer.step.input_tokens + answer.step.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.step.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": answer.step.reasoning_tokens},
    }


def _chat_call(call: Call) -> Json:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.raw},
    }


def _chat_head(answer: Answer, kind: str) -> Json:
    return {"id": answer.id, "object": kind, "created": _CREATED, "model": answer.model}


def _chat_whole(answer: Answer) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None}
    if answer.step.thinking:
        message["reasoning_content"] = answer.step.thinking
    if answer.calls:
        message["tool_calls"] = [_chat_call(call) for call in answer.calls]
    finish = answer.ended("tool_calls", "stop")
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    head = _chat_head(answer, "chat.completion")
    return {**head, "choices": choices, "usage": _chat_usage(answer)}


def _chat_chunk(answer: Answer, delta: Json, finish: str | None = None) -> str:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return _sse({**_chat_head(answer, "chat.completion.chunk"), "choices": choices})


def _chat_stream(answer: Answer) -> Iterator[str]:
    yield _chat_chunk(answer, {"role": "assistant", "content": ""})
    for piece in pieces(answer.step.thinking):
        yield _chat_chunk(answer, {"reasoning_content": piece})
    for piece in pieces(answer.text):
        yield _chat_chunk(answer, {"content": piece})
    for index, call in enumerate(answer.calls):
        start = _chat_call(call)
        start["index"] = index
        start["function"] = {"name": call.name, "arguments": ""}
        yield _chat_chunk(answer, {"tool_calls": [start]})
        for piece in pieces(call.raw):
            delta = {"index": index, "function": {"arguments": piece}}
            yield _chat_chunk(answer, {"tool_calls": [delta]})
    yield _chat_chunk(answer, {}, answer.ended("tool_calls", "stop"))
    head = _chat_head(answer, "chat.completion.chunk")
    yield _sse({**head, "choices": [], "usage": _chat_usage(answer)})
    yield "data: [DONE]\n\n"


# ---- OpenAI responses


def _responses_items(answer: Answer) -> list[Json]:
    items: list[Json] = []
    if answer.step.thinking:
        summary = [{"type": "summary_text", "text": answer.step.thinking}]
        items.append({"type": "reasoning", "id": f"rs_{answer.id}", "summary": summary})
    if answer.text:
        content: Json = {"type": "output_text", "text": answer.text, "annotations": []}
        about: Json = {"type": "message", "id": f"msg_{answer.id}", "role": "assistant"}
        items.append({**about, "status": "completed", "content": [content]})
    for call in answer.calls:
        about = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id}
        made = {"name": call.name, "arguments": call.raw, "status": "completed"}
        items.append({**about, **made})
    return items


def _responses_whole(answer: Answer, status: str = "completed") -> Json:
    done = status == "completed"
    usage = {
        "input_tokens": answer.step.input_tokens,
        "output_tokens": answer.step.output_tokens,
        "total_tokens": answer.step.input_tokens + answer.step.output_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": answer.id,
        "object": "response",
        "created_at": _CREATED,
        "status": status,
        "model": answer.model,
        "output": _responses_items(answer) if done else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if done else None,
    }


_RESPONSES_BEGUN: Mapping[str, Json] = {
    "function_call": {"arguments": "", "status": "in_progress"},
    "message": {"content": []},
    "reasoning": {"summary": []},
}


def _responses_stream(answer: Answer) -> Iterator[str]:
    sequence = 0

    def event(kind: str, **fields: Any) -> str:
        nonlocal sequence
        sequence += 1
        return _sse({"type": kind, "sequence_number": sequence, **fields}, kind)

    yield event("response.created", response=_responses_whole(answer, "in_progress"))
    for index, item in enumerate(_responses_items(answer)):
        at: Json = {"item_id": item["id"], "output_index": index}
        begun = {**item, **_RESPONSES_BEGUN[item["type"]]}
        yield event("response.output_item.added", output_index=index, item=begun)
        if item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **at, delta=piece)
            yield event("response.function_call_arguments.done", **at, arguments=item["arguments"])
        elif item["type"] == "message":
            empty: Json = {"type": "output_text", "text": "", "annotations": []}
            at["content_index"] = 0
            yield event("response.content_part.added", **at, part=empty)
            for piece in pieces(answer.text):
                yield event("response.output_text.delta", **at, delta=piece, logprobs=[])
            yield event("response.output_text.done", **at, text=answer.text, logprobs=[])
        else:
            at["summary_index"], empty = 0, {"type": "summary_text", "text": ""}
            yield event("response.reasoning_summary_part.added", **at, part=empty)
            for piece in pieces(answer.step.thinking):
                yield event("response.reasoning_summary_text.delta", **at, delta=piece)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=_responses_whole(answer))


# ---- Anthropic messages


def _anthropic_input(call: Call) -> Any:
    return call.arguments if isinstance(call.arguments, str) else dict(call.arguments)


def _anthropic_blocks(answer: Answer) -> list[Json]:
    blocks: list[Json] = []
    if answer.step.thinking:
        blocks.append({"type": "thinking", "thinking": answer.step.thinking, "signature": "sig"})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    if answer.step.found:
        searched, name = f"srvtoolu_{answer.id}", "tool_search_tool_bm25"
        references = [{"type": "tool_reference", "tool_name": tool} for tool in answer.step.found]
        result = {"type": "tool_search_tool_search_result", "tool_references": references}
        query = {"query": "a tool"}
        blocks += [
            {"type": "server_tool_use", "id": searched, "name": name, "input": query},
            {"type": "tool_search_tool_result", "tool_use_id": searched, "content": result},
        ]
    blocks.extend(
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _anthropic_input(call)}
        for call in answer.calls
    )
    return blocks


def _anthropic_whole(answer: Answer) -> Json:
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": _anthropic_blocks(answer),
        "stop_reason": answer.ended("tool_use", "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": answer.step.input_tokens,
            "output_tokens": answer.step.output_tokens,
        },
    }


def _anthropic_deltas(answer: Answer, block: Json, calls: Iterator[Call]) -> Iterator[Json]:
    if block["type"] == "thinking":
        for piece in pieces(answer.step.thinking):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": "sig"}
    elif block["type"] == "text":
        for piece in pieces(answer.text):
            yield {"type": "text_delta", "text": piece}
    elif block["type"] == "server_tool_use":
        yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    elif block["type"] == "tool_use":
        for piece in pieces(next(calls).raw):
            yield {"type": "input_json_delta", "partial_json": piece}


def _anthropic_stream(answer: Answer) -> Iterator[str]:
    def event(kind: str, **fields: Any) -> str:
        return _sse({"type": kind, **fields}, kind)

    opening: Json = {**_anthropic_whole(answer), "content": [], "stop_reason": None}
    opening["usage"] = {"input_tokens": answer.step.input_tokens, "output_tokens": 0}
    yield event("message_start", message=opening)
    empty: Json = {"thinking": "", "text": "", "signature": "", "input": {}}
    calls = iter(answer.calls)
    for index, block in enumerate(_anthropic_blocks(answer)):
        start = {key: empty.get(key, value) for key, value in block.items()}
        yield event("content_block_start", index=index, content_block=start)
        for delta in _anthropic_deltas(answer, block, calls):
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    stop = answer.ended("tool_use", "end_turn")
    yield event(
        "message_delta",
        delta={"stop_reason": stop, "stop_sequence": None},
        usage={"output_tokens": answer.step.output_tokens},
    )
    yield event("message_stop")


# ---- Google generateContent


def _google_parts(answer: Answer) -> list[Json]:
    parts: list[Json] = []
    if answer.step.thinking:
        parts.append({"text": answer.step.thinking, "thought": True})
    parts.extend({"text": piece} for piece in pieces(answer.text))
    parts.extend(
        {"functionCall": {"name": call.name, "args": _anthropic_input(call), "id": call.id}}
        for call in answer.calls
    )
    return parts


def _google_body(answer: Answer, parts: list[Json], *, last: bool) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    body: Json = {"responseId": answer.id, "modelVersion": answer.model, "candidates": [candidate]}
    if last:
        candidate["finishReason"] = answer.ended("STOP", "STOP")
        body["usageMetadata"] = {
            "promptTokenCount": answer.step.input_tokens,
            "candidatesTokenCount": answer.step.output_tokens,
            "totalTokenCount": answer.step.input_tokens + answer.step.output_tokens,
        }
    return body


def _google_whole(answer: Answer) -> Json:
    return _google_body(answer, _google_parts(answer), last=True)


def _google_stream(answer: Answer) -> Iterator[str]:
    parts = _google_parts(answer) or [{"text": ""}]
    for index, part in enumerate(parts):
        yield _sse(_google_body(answer, [part], last=index == len(parts) - 1))


WHOLE: Mapping[Api, Callable[[Answer], Json]] = {
    "chat": _chat_whole,
    "responses": _responses_whole,
    "anthropic": _anthropic_whole,
    "google": _google_whole,
}
STREAM: Mapping[Api, Callable[[Answer], Iterator[str]]] = {
    "chat": _chat_stream,
    "responses": _responses_stream,
    "anthropic": _anthropic_stream,
    "google": _google_stream,
}
