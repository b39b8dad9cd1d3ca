"""Which tools an agent may use: rules, and the decision over them. Pure."""

from openclaw.policy.decide import (
    Decision,
    Outcome,
    Policy,
    Rules,
    decide,
    glob_matches,
    server_wholly_denied,
)

__all__ = [
    "Decision",
    "Outcome",
    "Policy",
    "Rules",
    "decide",
    "glob_matches",
    "server_wholly_denied",
]
