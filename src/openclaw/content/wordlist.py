"""Many words in one regex, as a tree: a text that begins like none of them fails at once."""

from collections.abc import Callable, Iterable


class _Node(dict[str, "_Node"]):
    ends = False


def alternation(words: Iterable[str], spell: Callable[[str], str] = str) -> str:
    """A pattern for any of `words`, the longest that fits; `spell` gives the pattern of a letter."""
    root = _Node()
    for word in words:
        node = root
        for char in word:
            node = node.setdefault(char, _Node())
        node.ends = True
    return _write(root, spell)


def either_case(letters: Iterable[str]) -> str:
    """The inside of a regex set: these letters, small and capital."""
    return "".join(sorted({case for letter in letters for case in (letter, letter.upper())}))


def _write(node: _Node, spell: Callable[[str], str]) -> str:
    branches = [spell(char) + _write(child, spell) for char, child in sorted(node.items())]
    if not branches:
        return ""
    if node.ends:
        return f"(?:{'|'.join(branches)})?"
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
