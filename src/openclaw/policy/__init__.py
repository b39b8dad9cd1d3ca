"""Which tools an agent may use: rules, and the decision over them. Pure."""

from openclaw.policy.call_rules import covers, rule_for, what_it_covers
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
    "covers",
    "decide",
    "glob_matches",
    "rule_for",
    "server_wholly_denied",
    "what_it_covers",
]
