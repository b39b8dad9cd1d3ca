"""`${VAR}` in the configuration's strings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openclaw.config.json5 import Node
from openclaw.config.keypath import KeyPath
from openclaw.secrets.lookslike import looks_like_credential
from openclaw.secrets.refs import InvalidReference, find

_MARK = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|\$\{")


@dataclass(slots=True)
class Interpolation:
    """The values with every `${VAR}` replaced, and what could not be."""

    environ: Mapping[str, str]
    problems: list[tuple[KeyPath, str]] = field(default_factory=list[tuple[KeyPath, str]])
    credentials: set[str] = field(default_factory=set[str])
    """Values of variables that are credentials by their name, or because a reference names them."""

    def value(self, node: Node, path: KeyPath = ()) -> Any:
        """The plain value of this node."""
        if node.kind == "object":
            return {
                key: self.value(member.value, (*path, key)) for key, member in node.members.items()
            }
        if node.kind == "array":
            return [self.value(item, (*path, index)) for index, item in enumerate(node.items)]
        return self._text(node.scalar, path) if isinstance(node.scalar, str) else node.scalar

    def _text(self, text: str, path: KeyPath) -> str:
        if "\0" in text:
            self.problems.append((path, "contains a NUL character"))
            return text
        if "${" not in text:
            self._check_references(text, path)
            return text
        problems: list[str] = []

        def replace(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            name = match["name"]
            if name is None:
                problems.append(
                    "'${' is not followed by a variable's name and '}'; write '$${' for the characters themselves"
                )
            elif name not in self.environ:
                problems.append(f"the environment variable {name} is not set")
            else:
                return self._variable(name)
            return match[0]

        replaced = _MARK.sub(replace, text)
        self.problems.extend((path, problem) for problem in dict.fromkeys(problems))
        self._check_references(replaced, path)
        return replaced

    def _check_references(self, text: str, path: KeyPath) -> None:
        if path[-1:] == ("systemPrompt",):  # prose may speak of references
            return
        try:
            for hit in find(text):
                if hit.ref.scheme == "env":  # known at once, and so before anybody uses it
                    self.credentials.add(self.environ.get(hit.ref.name) or "")
        except InvalidReference as error:
            hint = f"; {error.hint}" if error.hint else ""
            self.problems.append((path, f"{error.message}{hint}"))

    def _variable(self, name: str) -> str:
        value = self.environ[name]
        if value and looks_like_credential(name):
            self.credentials.add(value)
        return value
