"""What the wrappers of the tool path have in common, and the sources at its end as one."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from openclaw.core.errors import ModelFacing
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSource, ToolSpec, failed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wrapper:
    source: ToolSource

    def specs(self) -> Sequence[ToolSpec]:
        return self.source.specs()


@dataclass(slots=True)
class Joined:
    """Several sources as one. The first to use a name has it; whatever is raised becomes a result."""

    sources: Sequence[ToolSource]
    _offered: Sequence[Sequence[ToolSpec]] = ()
    _specs: tuple[ToolSpec, ...] = ()
    _owners: dict[str, ToolSource] = field(default_factory=dict[str, ToolSource])

    def specs(self) -> Sequence[ToolSpec]:
        offered = [source.specs() for source in self.sources]
        if len(offered) != len(self._offered) or any(
            new is not old for new, old in zip(offered, self._offered, strict=True)
        ):
            self._join(offered)
        return self._specs

    def _join(self, offered: Sequence[Sequence[ToolSpec]]) -> None:
        found: dict[str, ToolSpec] = {}
        self._owners = {}
        for source, specs in zip(self.sources, offered, strict=True):
            for spec in specs:
                if spec.name in found:
                    logger.warning("two tools have one name", extra={"tool": spec.name})
                    continue
                found[spec.name] = spec
                self._owners[spec.name] = source
        self._offered, self._specs = offered, tuple(found.values())

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        self.specs()
        source = self._owners.get(name)
        if source is None:
            return failed(f"There is no tool {name}.")
        try:
            return await source.call(name, arguments, context)
        except ModelFacing as error:
            return failed(error.message)
        except Exception as error:
            logger.exception("a tool raised", extra={"tool": name})
            return failed(f"The tool {name} failed: {type(error).__name__}: {error}")
