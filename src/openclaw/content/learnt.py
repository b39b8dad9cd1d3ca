"""The linear model of the detector: weights that scripts/train_detection.py learnt.

They were learnt from the texts under tests/hostile/corpus and from those that
scripts/detection_grammar.py puts together; `openclaw.content.weights` holds them.
"""

import base64
import zlib
from array import array
from collections.abc import Collection
from functools import cache

from openclaw.content.weights import BIAS, PACKED, SCALE


@cache
def _weights() -> list[int]:
    return list(array("b", zlib.decompress(base64.b85decode("".join(PACKED.split())))))


def share(features: int) -> float:
    """How much each of so many features counts: a long sentence is not worse for being long."""
    return 5 / (features + 20) ** 0.5


def logit(features: Collection[int]) -> float:
    """How likely a window with these features gives orders to an agent, as log-odds."""
    weights = _weights()
    total = sum([weights[feature] for feature in features])
    return BIAS + SCALE * share(len(features)) * total
