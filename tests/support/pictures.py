"""Small images that decode."""

import io

from PIL import Image


def tiny_image(kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (1, 1), "red").save(buffer, kind)
    return buffer.getvalue()
