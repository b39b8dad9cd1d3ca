"""What a very small model is told so that its plain replies are as good as they get."""

import re
from collections.abc import Sequence
from dataclasses import replace

from openclaw.models.local.runner import ChatMessage, Prompt

MAX_REPLY_TOKENS = 200
MAX_MESSAGE = 3000
_MAX_REMEMBERED = 300
_REMEMBERED_TURNS = 2
_TEMPLATE_TOKENS, _TURN_TOKENS = 32, 8
_SYSTEM = "You are OpenClaw, a helpful assistant. Answer in one or two short sentences."
_EXAMPLES = (
    ("Hello!", "Hello! How can I help you?"),
    ("What is the capital of Norway?", "The capital of Norway is Oslo."),
    ("What is 7 times 8?", "7 times 8 is 56."),
    ("What are you?", "I am OpenClaw with a very small language model that runs on this computer."),
    (
        "What can you do?",
        "I can answer simple questions, and I can use the tools that are connected to me.",
    ),
    ("Why do birds sing?", "Birds sing to find a mate and to defend their place."),
    ("Thank you!", "You are welcome!"),
)
# Keeps a small model from saying the same thing over and over.
_DRY = {"dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 3}
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)

CANNOT_SEE = (
    "I cannot see images, hear sound or open this kind of attachment: the embedded model reads text "
    "only. Configure a larger model to use them."
)


def read_in_part(read: int, total: int, what: str = "message") -> str:
    """What is said where not all of a text was read; nothing where all of it was."""
    if read >= total:
        return ""
    return (
        f"[The {what} is too long for the embedded model: of its {total:,} characters, only the "
        f"first {read:,} were read.]"
    )


def _turn(role: str, content: str) -> ChatMessage:
    return {"role": role, "content": content}


def talk_prompt(message: str, history: Sequence[tuple[str, str]], max_tokens: int) -> Prompt:
    """The prompt for a plain reply: a short system prompt, examples, the last turns, the message."""
    remembered = [
        (said[:_MAX_REMEMBERED], answered[:_MAX_REMEMBERED])
        for said, answered in history[-_REMEMBERED_TURNS:]
    ]
    messages = [_turn("system", _SYSTEM)]
    for said, answered in (*_EXAMPLES, *remembered):
        messages += [_turn("user", said), _turn("assistant", answered)]
    messages.append(_turn("user", message[:MAX_MESSAGE]))
    return Prompt(messages, min(max_tokens, MAX_REPLY_TOKENS), sampling=_DRY)


def weight(text: str) -> int:
    """No fewer tokens than a text takes: two letters each, and one for each byte of other scripts."""
    plain = sum(character < "\x80" for character in text)
    return plain // 2 + len(text.encode("utf-8", "replace")) - plain


def fitted(prompt: Prompt, context: int) -> Prompt:
    """The prompt, with its last message cut, and what lies between left out, where it is too long."""
    first, *between, last = prompt.messages
    room = context - prompt.max_tokens - weight(first["content"]) - _TEMPLATE_TOKENS
    around = sum(weight(message["content"]) + _TURN_TOKENS for message in between)
    if weight(last["content"]) + around <= room:
        return prompt
    if weight(last["content"]) > room - around:
        between = between if around < room // 2 else []
        room -= around if between else 0
    share = min(1.0, max(0, room) / weight(last["content"]))
    cut = last["content"][: int(len(last["content"]) * share)]
    return replace(prompt, messages=[first, *between, _turn(last["role"], cut)])


def tidy(text: str, *, cut_short: bool) -> str:
    """A reply that ran out of room ends with its last whole sentence."""
    text = _THINKING.sub("", text).strip()
    if not cut_short:
        return text
    whole = re.match(r".*[.!?](?=\s|$)", text, re.DOTALL)
    return whole.group() if whole else f"{text}…"
