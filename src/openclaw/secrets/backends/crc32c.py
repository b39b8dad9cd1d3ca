"""The checksum that Google sends along with a secret (CRC-32C, Castagnoli)."""

from typing import Final

_POLYNOMIAL: Final = 0x82F63B78


def _table() -> tuple[int, ...]:
    rows: list[int] = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        rows.append(value)
    return tuple(rows)


_TABLE: Final = _table()


def crc32c(data: bytes) -> int:
    """The checksum of these bytes."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF
