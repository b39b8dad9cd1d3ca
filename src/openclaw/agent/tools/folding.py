"""Long lines in pieces that count as lines, so that what has no line ends can be read on from any place."""

from collections.abc import Iterable, Iterator

MAX_LINE_CHARS = 4000


def folded(lines: Iterable[str]) -> Iterator[str]:
    """Every line, or its pieces where it is long; each ends as a line does."""
    for line in lines:
        for at in range(0, len(line), MAX_LINE_CHARS):
            piece = line[at : at + MAX_LINE_CHARS]
            yield piece if piece.endswith(("\n", "\r")) else piece + "\n"
