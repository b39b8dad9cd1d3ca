"""Changes to a text, found first and made together."""

from collections.abc import Iterable

Edit = tuple[int, int, str]
"""Put the third in place of the characters from the first to the second.

A mere tuple: there may be a hundred thousand of them, and the garbage collector passes it over.
"""


def apply(text: str, edits: Iterable[Edit]) -> str:
    """`text` with the edits made; of two that overlap, the one that begins first covers both."""
    pieces: list[str] = []
    done = 0
    for start, end, replacement in sorted(edits):
        if start < done:
            done = max(done, end)
            continue
        pieces.append(text[done:start])
        pieces.append(replacement)
        done = end
    if not done:
        return text
    pieces.append(text[done:])
    return "".join(pieces)
