"""What a person may choose for a session: the agent, as a mode, and the model."""

from collections.abc import Mapping

from acp.schema import (
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from openclaw.config.merge import EffectiveAgent
from openclaw.config.schema import Config

MODEL_OPTION = "model"


def modes(agents: Mapping[str, EffectiveAgent], current: str) -> SessionModeState | None:
    """The agents as modes; nothing where there is only one."""
    if len(agents) < 2:
        return None
    return SessionModeState(
        current_mode_id=current,
        available_modes=[SessionMode(id=one.id, name=one.name) for one in agents.values()],
    )


def model_names(config: Config, own: tuple[str, ...]) -> tuple[str, ...]:
    """The agent's own models first, then all others that the configuration names."""
    listed = (
        f"{provider}/{model.id}"
        for provider, settings in config.models.providers.items()
        for model in settings.models
    )
    return tuple(dict.fromkeys((*own, *listed)))


def model_option(names: tuple[str, ...], current: str | None) -> list[SessionConfigOptionSelect]:
    """The models as a setting of the session; nothing where none is known."""
    if not names:
        return []
    chosen = current if current in names else names[0]
    return [
        SessionConfigOptionSelect(
            id=MODEL_OPTION,
            name="Model",
            category="model",
            type="select",
            current_value=chosen,
            options=[SessionConfigSelectOption(value=name, name=name) for name in names],
        )
    ]
