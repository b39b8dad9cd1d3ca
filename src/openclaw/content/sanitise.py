"""What is taken out of untrusted text, or made harmless in it, before a model reads it.

In this order: what only a machine would see is removed; then markers, control tokens and links
are found in the text and in every layer under its encodings, and replaced together. A text with
none of these comes back as it was.
"""

from collections.abc import Iterable, Iterator, Sequence

from openclaw.content.edits import Edit, apply
from openclaw.content.fold import Layer, layers
from openclaw.content.invisible import strip_invisible
from openclaw.content.links import find_links, find_scripts
from openclaw.content.links import replace_usual as replace_usual_images
from openclaw.content.markers import find_markers
from openclaw.content.markers import replace_usual as replace_usual_markers
from openclaw.content.tokens import find_tokens
from openclaw.content.tokens import replace_usual as replace_usual_tokens

# A replacement may complete what it stands next to, so what was changed is read again. Each round
# takes out what the one before left; nothing known needs more than three. A link's new scheme
# completes nothing.
_MOST_ROUNDS = 8


def sanitise(text: str) -> str:
    """`text` with nothing in it that could be taken for a marker or a control token."""
    visible = replace_usual_tokens(replace_usual_markers(strip_invisible(text)))
    visible = replace_usual_images(visible)
    for _ in range(_MOST_ROUNDS):
        under = list(layers(visible))
        hidden = list(_find_orders(visible, under))
        edits = [*hidden, *_find_addresses(visible, under)]
        visible = apply(visible, edits)
        if not hidden:
            break
    return visible


def holds_orders(text: str) -> bool:
    """Whether there is a marker or a control token in `text`, or under one of its encodings."""
    visible = strip_invisible(text)
    if replace_usual_tokens(replace_usual_markers(visible)) != visible:
        return True
    return any(True for _ in _find_orders(visible, list(layers(visible))))


def _find_orders(text: str, under: Sequence[Layer]) -> Iterator[Edit]:
    """Markers and control tokens, in the text and under its encodings."""
    yield from find_markers(text)
    yield from find_tokens(text)
    for layer in under:
        for find in (find_markers, find_tokens):
            yield from _in_source(layer, find(layer.text))


def _find_addresses(text: str, under: Sequence[Layer]) -> Iterator[Edit]:
    yield from find_links(text)
    for layer in under:
        yield from _in_source(layer, find_scripts(layer.text))


def _in_source(layer: Layer, edits: Iterable[Edit]) -> Iterator[Edit]:
    for start, end, replacement in edits:
        yield (*layer.span_in_source(start, end), replacement)
