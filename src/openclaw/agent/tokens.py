"""How many tokens a text takes, guessed without any model's own tokenizer."""

import json
from collections.abc import Iterable

from openclaw.core.tools import ToolSpec

IMAGE_TOKENS = 1_200
MESSAGE_TOKENS = 6
"""What the frame around a message costs, whatever it says."""

_ASCII_CHARS_PER_TOKEN = 3.6
_OTHER_TOKENS_PER_CHAR = 0.9


def estimate(text: str) -> int:
    """Tokens of `text`, rather a little too many than too few."""
    if text.isascii():
        return int(len(text) / _ASCII_CHARS_PER_TOKEN) + 1
    plain = len(text.encode("ascii", "ignore"))
    other = len(text) - plain
    return int(plain / _ASCII_CHARS_PER_TOKEN + other * _OTHER_TOKENS_PER_CHAR) + 1


def estimate_tool(spec: ToolSpec) -> int:
    """Tokens of a tool's definition."""
    schema = json.dumps(spec.input_schema, default=str)
    return estimate(schema) + estimate(spec.description) + estimate(spec.name) + MESSAGE_TOKENS


class ToolSizes:
    """Tokens of definitions, each reckoned once: the same tools come again at every step."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ToolSpec, int]] = {}

    def of(self, spec: ToolSpec) -> int:
        """Tokens of one definition."""
        # The spec is kept beside its size, so that its id cannot come to mean another.
        known = self._known.get(id(spec))
        if known is None:
            known = self._known[id(spec)] = (spec, estimate_tool(spec))
        return known[1]

    def total(self, specs: Iterable[ToolSpec]) -> int:
        """Tokens of these definitions together."""
        return sum(map(self.of, specs))


def cut_to(text: str, tokens: int) -> str:
    """`text` itself, or its beginning and end with a note between, within about `tokens`."""
    need = estimate(text)
    if need <= tokens:
        return text
    keep = max(0, int(len(text) * tokens / need) - 60)
    head, tail = keep * 2 // 3, keep // 3
    left_out = len(text) - head - tail
    end = text[-tail:] if tail else ""
    return f"{text[:head]}\n[… {left_out} characters left out …]\n{end}"
