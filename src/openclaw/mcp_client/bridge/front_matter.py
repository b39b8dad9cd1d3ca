"""The YAML at the head of a `SKILL.md`, read within bounds and compared with what a server lists.

Scalars are compared as text, because readers of YAML disagree about what `yes` and `1.0` are.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, cast

_MOST_BYTES = 64 * 1024
_HEAD = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)


def parse_front_matter(data: bytes) -> Mapping[str, Any] | None:
    """The fields, each scalar as text; None if there is no head, or it cannot be read."""
    import yaml  # few servers have skills

    class Loader(yaml.BaseLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):  # a few of these make a bomb
                raise yaml.YAMLError("aliases are not allowed")
            return super().compose_node(parent, index)

    head = _HEAD.match(data[: _MOST_BYTES + 1])
    if head is None:
        return None
    try:
        fields: Any = yaml.load(head[1], Loader)  # noqa: S506  it makes nothing but text
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    return cast("Mapping[str, Any]", fields) if isinstance(fields, dict) else None


def same_fields(listed: Any, written: Any) -> bool:
    """Whether this JSON value is what the YAML says."""
    if isinstance(listed, Mapping):
        fields = cast("Mapping[str, Any]", listed)
        if not isinstance(written, dict) or fields.keys() != written.keys():
            return False
        return all(same_fields(value, written[key]) for key, value in fields.items())
    if isinstance(listed, list):
        items = cast("list[Any]", listed)
        if not isinstance(written, list) or len(items) != len(cast("list[Any]", written)):
            return False
        return all(map(same_fields, items, cast("list[Any]", written)))
    return isinstance(written, str) and _same_scalar(listed, written)


def _same_scalar(listed: object, text: str) -> bool:
    if listed is None:
        return text in ("", "~", "null", "Null", "NULL")
    if isinstance(listed, bool):
        return text.lower() in (("true", "yes", "on") if listed else ("false", "no", "off"))
    if isinstance(listed, int | float):
        try:
            return math.isclose(float(text), listed)
        except (ValueError, OverflowError):
            return False
    return listed == text
