"""Text files as text, in whatever character set they were written."""

from pathlib import Path

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_SAMPLE = 64 * 1024  # enough for the character set to show
_TELLING = 8  # fewer letters beyond ASCII than this say nothing about their character set
_WESTERN = "cp1252"  # what is neither UTF-8 nor anything else that shows is most often this


def decode_text(data: bytes) -> str:
    """The words in these bytes: by their BOM, as UTF-8, else in the likeliest character set."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode(_likeliest(data), "replace")


def _likeliest(data: bytes) -> str:
    if sum(byte > 127 for byte in data[:_SAMPLE]) < _TELLING:
        return _WESTERN
    from charset_normalizer import from_bytes  # takes 30 ms to import and is rarely needed

    best = from_bytes(data[:_SAMPLE]).best()
    return best.encoding if best is not None else _WESTERN


def read_text(path: Path, budget: int) -> tuple[str, bool]:
    """At most `budget` characters of the file, and whether that is less than all of it."""
    # A character takes four bytes at the most, so this many hold the budget in any character set.
    with path.open("rb") as file:
        data = file.read(budget * 4 + 1)
    text = decode_text(data)
    return text[:budget], len(text) > budget or len(data) > budget * 4
