"""Which tools an agent may use: rules, and the decision over them. Pure."""

from openclaw.policy.decide import Decision, Outcome, decide, server_wholly_denied
from openclaw.policy.rules import Policy, Rules, glob_matches

__all__ = [
    "Decision",
    "Outcome",
    "Policy",
    "Rules",
    "decide",
    "glob_matches",
    "server_wholly_denied",
]
