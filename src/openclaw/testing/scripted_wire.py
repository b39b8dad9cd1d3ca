"""Encodes a scripted step for each model provider's API. Pure: steps in, JSON and SSE out."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Api = Literal["chat", "responses", "anthropic", "google"]
Json = dict[str, Any]

_CREATED = 1_700_000_000
_PIECE = 8
_MOST_PIECES = 100


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of the scripted model.

    `text` may contain `{last}`, which is replaced with the text of the last message. `calls` are
    `(name, arguments)` pairs; arguments as a string go out unparsed, so that they can be malformed,
    and may contain `{last}` as well. A tool in a namespace (OpenAI responses only) is called
    `namespace/name`. `found` are tools that the provider's own search found before
    the calls (Anthropic messages only).
    `status` other than 200 is an error; `overflow` is the provider's "too long" error. `cut_after`
    breaks the connection after that many events, and `end_after` ends the stream there as if it
    were whole; `delay` is the pause in seconds before each event; `hang` never answers. `finish` is
    the provider's word for why the answer ended; empty if it does not say. `cached_tokens` and `reasoning_tokens` are parts of the
    other two counts (OpenAI chat completions only). `signature` (base64) is what the provider signs
    or encrypts its thoughts with.

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
    signature: str | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    when: str | None = None
    role: str | None = None
    model: str | None = None


class Call(NamedTuple):
    """A tool call: `raw` is its arguments as text, which may be broken; `given` as a value."""

    id: str
    name: str
    raw: str
    given: Any


class Answer:
    """A step being sent as an answer; `last` replaces `{last}`."""

    def __init__(self, number: int, model: str, step: Step, last: str) -> None:
        self.id = f"answer_{number}"
        self.model = model
        self.step = step
        self.text = step.text.replace("{last}", last)
        self.calls: list[Call] = []
        for index, (name, given) in enumerate(step.calls):
            said = given.replace("{last}", last) if isinstance(given, str) else dict(given)
            raw = said if isinstance(said, str) else json.dumps(said)
            self.calls.append(Call(f"call_{number}_{index}", name, raw, said))

    def ended(self, with_calls: str, without: str) -> str:
        if self.step.finish is not None:
            return self.step.finish
        return with_calls if self.calls else without

    def usage(self, given: str, written: str, total: str | None = None) -> Json:
        """The tokens under a provider's names for them."""
        counts = {given: self.step.input_tokens, written: self.step.output_tokens}
        return {**counts, total: sum(counts.values())} if total else counts


def pieces(text: str) -> list[str]:
    size = max(_PIECE, -(-len(text) // _MOST_PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]


_OPENAI_TOO_LONG = "This model's maximum context length is 8192 tokens.", "context_length_exceeded"
_TOO_LONG: Mapping[Api, tuple[str, str]] = {
    "chat": _OPENAI_TOO_LONG,
    "responses": _OPENAI_TOO_LONG,
    "anthropic": (
        "prompt is too long: 250000 tokens > 200000 maximum",
        "invalid_request_error",
    ),
    "google": (
        "The input token count (2000000) exceeds the maximum number of tokens allowed (1000000).",
        "INVALID_ARGUMENT",
    ),
}
_ANTHROPIC_KINDS = {
    401: "authentication_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def refusal(api: Api, step: Step) -> tuple[int, Json] | None:
    """The status and body of a step that is an error; None for other steps."""
    status, message, code = step.status, step.message, step.code
    if step.overflow:
        status, (message, code) = 400, _TOO_LONG[api]
    if status == 200:
        return None
    if api == "anthropic":
        kind = code or _ANTHROPIC_KINDS.get(status, "invalid_request_error")
        return status, {"type": "error", "error": {"type": kind, "message": message}}
    error = {"message": message, "type": code or "error", "param": None, "code": code}
    if api == "google":
        error = {"code": status, "message": message, "status": code or "UNKNOWN"}
    return status, {"error": error}


def _sse(data: Json, event: str | None = None) -> str:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data)}\n\n"


# ---- OpenAI chat completions


def _chat_body(answer: Answer, kind: str, choices: list[Json], *, counted: bool = True) -> Json:
    head = {"id": answer.id, "object": kind, "created": _CREATED, "model": answer.model}
    if not counted:
        return {**head, "choices": choices}
    usage = {
        **answer.usage("prompt_tokens", "completion_tokens", "total_tokens"),
        "prompt_tokens_details": {"cached_tokens": answer.step.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": answer.step.reasoning_tokens},
    }
    return {**head, "choices": choices, "usage": usage}


def _chat_call(call: Call, raw: str) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": raw}}


def _chat_whole(answer: Answer) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None}
    if answer.step.thinking:
        message["reasoning_content"] = answer.step.thinking
    if answer.calls:
        message["tool_calls"] = [_chat_call(call, call.raw) for call in answer.calls]
    finish = answer.ended("tool_calls", "stop")
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    return _chat_body(answer, "chat.completion", choices)


def _chat_deltas(answer: Answer) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    for piece in pieces(answer.step.thinking):
        yield {"reasoning_content": piece}
    for piece in pieces(answer.text):
        yield {"content": piece}
    for index, call in enumerate(answer.calls):
        yield {"tool_calls": [{**_chat_call(call, ""), "index": index}]}
        for piece in pieces(call.raw):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _chat_stream(answer: Answer) -> Iterator[str]:
    kind = "chat.completion.chunk"
    chunks = [(delta, None) for delta in _chat_deltas(answer)]
    for delta, finish in [*chunks, ({}, answer.ended("tool_calls", "stop"))]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish or None}
        yield _sse(_chat_body(answer, kind, [choice], counted=False))
    yield _sse(_chat_body(answer, kind, []))
    yield "data: [DONE]\n\n"


# ---- OpenAI responses


def _responses_items(answer: Answer) -> list[Json]:
    items: list[Json] = []
    if answer.step.thinking:
        summary = [{"type": "summary_text", "text": answer.step.thinking}]
        thought: Json = {"type": "reasoning", "id": f"rs_{answer.id}", "summary": summary}
        items.append({**thought, "encrypted_content": answer.step.signature})
    if answer.text:
        content: Json = {"type": "output_text", "text": answer.text, "annotations": []}
        about: Json = {"type": "message", "id": f"msg_{answer.id}", "role": "assistant"}
        items.append({**about, "status": "completed", "content": [content]})
    for call in answer.calls:
        about = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id}
        namespace, _, name = call.name.rpartition("/")
        about |= {"name": name, "arguments": call.raw, "status": "completed"}
        items.append({**about, "namespace": namespace} if namespace else about)
    return items


def _responses_whole(answer: Answer, status: str | None = None) -> Json:
    status = status or ("incomplete" if answer.step.finish else "completed")
    done = status != "in_progress"
    usage = {
        **answer.usage("input_tokens", "output_tokens", "total_tokens"),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": answer.id,
        "object": "response",
        "created_at": _CREATED,
        "status": status,
        "incomplete_details": {"reason": answer.step.finish} if status == "incomplete" else None,
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


def _responses_events(answer: Answer) -> Iterator[tuple[str, Json]]:
    yield "response.created", {"response": _responses_whole(answer, "in_progress")}
    for index, item in enumerate(_responses_items(answer)):
        at: Json = {"item_id": item["id"], "output_index": index}
        begun = {**item, **_RESPONSES_BEGUN[item["type"]]}
        yield "response.output_item.added", {"output_index": index, "item": begun}
        if item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", {**at, "delta": piece}
            done = {**at, "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", done
        elif item["type"] == "message":
            at["content_index"] = 0
            empty: Json = {"type": "output_text", "text": "", "annotations": []}
            yield "response.content_part.added", {**at, "part": empty}
            for piece in pieces(answer.text):
                yield "response.output_text.delta", {**at, "delta": piece, "logprobs": []}
            yield "response.output_text.done", {**at, "text": answer.text, "logprobs": []}
        else:
            at["summary_index"] = 0
            part = {"type": "summary_text", "text": ""}
            yield "response.reasoning_summary_part.added", {**at, "part": part}
            for piece in pieces(answer.step.thinking):
                yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
        yield "response.output_item.done", {"output_index": index, "item": item}
    whole = _responses_whole(answer)
    yield f"response.{whole['status']}", {"response": whole}


def _responses_stream(answer: Answer) -> Iterator[str]:
    for number, (kind, fields) in enumerate(_responses_events(answer), 1):
        yield _sse({"type": kind, "sequence_number": number, **fields}, kind)


# ---- Anthropic messages


def _anthropic_blocks(answer: Answer) -> list[tuple[Json, list[Json]]]:
    """Each block of the answer, with the deltas in which it is streamed."""
    blocks: list[tuple[Json, list[Json]]] = []
    if thought := answer.step.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(thought)]
        signature = answer.step.signature or "sig"
        signed = {"type": "signature_delta", "signature": signature}
        block = {"type": "thinking", "thinking": thought, "signature": signature}
        blocks.append((block, [*deltas, signed]))
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(answer.text)]
        blocks.append(({"type": "text", "text": answer.text}, deltas))
    if answer.step.found:
        searched, query = f"srvtoolu_{answer.id}", {"query": "a tool"}
        named = {"id": searched, "name": "tool_search_tool_bm25"}
        block = {"type": "server_tool_use", **named, "input": query}
        blocks.append((block, _anthropic_input([json.dumps(query)])))
        references = [{"type": "tool_reference", "tool_name": tool} for tool in answer.step.found]
        result = {"type": "tool_search_tool_search_result", "tool_references": references}
        block = {"type": "tool_search_tool_result", "tool_use_id": searched, "content": result}
        blocks.append((block, []))
    for call in answer.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.given}
        blocks.append((block, _anthropic_input(pieces(call.raw))))
    return blocks


def _anthropic_input(parts: list[str]) -> list[Json]:
    return [{"type": "input_json_delta", "partial_json": part} for part in parts]


def _anthropic_whole(answer: Answer) -> Json:
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [block for block, _ in _anthropic_blocks(answer)],
        "stop_reason": answer.ended("tool_use", "end_turn"),
        "stop_sequence": None,
        "usage": answer.usage("input_tokens", "output_tokens"),
    }


def _anthropic_events(answer: Answer) -> Iterator[Json]:
    usage = {**answer.usage("input_tokens", "output_tokens"), "output_tokens": 0}
    opening: Json = {**_anthropic_whole(answer), "content": [], "stop_reason": None, "usage": usage}
    yield {"type": "message_start", "message": opening}
    empty: Json = {"thinking": "", "text": "", "signature": "", "input": {}}
    for index, (block, deltas) in enumerate(_anthropic_blocks(answer)):
        start = {key: empty.get(key, value) for key, value in block.items()}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": answer.ended("tool_use", "end_turn"), "stop_sequence": None}
    usage = {"output_tokens": answer.step.output_tokens}
    yield {"type": "message_delta", "delta": stop, "usage": usage}
    yield {"type": "message_stop"}


def _anthropic_stream(answer: Answer) -> Iterator[str]:
    return (_sse(event, event["type"]) for event in _anthropic_events(answer))


# ---- Google generateContent


def _google_parts(answer: Answer) -> list[Json]:
    thought, signature = answer.step.thinking, answer.step.signature
    parts: list[Json] = [{"text": thought, "thought": True}] if thought else []
    parts += [{"text": piece} for piece in pieces(answer.text)]
    calls: list[Json] = [
        {"functionCall": {"name": call.name, "args": call.given, "id": call.id}}
        for call in answer.calls
    ]
    if signature is not None and (calls or (thought and answer.text)):
        (calls or parts[-1:])[0]["thoughtSignature"] = signature
    return [*parts, *calls]


def _google_body(answer: Answer, parts: list[Json], *, last: bool) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    body: Json = {"responseId": answer.id, "modelVersion": answer.model, "candidates": [candidate]}
    if last:
        candidate["finishReason"] = answer.ended("STOP", "STOP")
        names = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
        body["usageMetadata"] = answer.usage(*names)
    return body


def _google_whole(answer: Answer) -> Json:
    return _google_body(answer, _google_parts(answer), last=True)


def _google_stream(answer: Answer) -> Iterator[str]:
    *before, last = _google_parts(answer) or [{"text": ""}]
    for part in before:
        yield _sse(_google_body(answer, [part], last=False))
    yield _sse(_google_body(answer, [last], last=True))


# How each API sends an answer: whole, and streamed.
WIRES: Mapping[Api, tuple[Callable[[Answer], Json], Callable[[Answer], Iterator[str]]]] = {
    "chat": (_chat_whole, _chat_stream),
    "responses": (_responses_whole, _responses_stream),
    "anthropic": (_anthropic_whole, _anthropic_stream),
    "google": (_google_whole, _google_stream),
}
