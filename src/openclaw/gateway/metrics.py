"""Metrics in Prometheus's text format."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from openclaw.core.outcome import Outcome

if TYPE_CHECKING:
    from openclaw.gateway.connections import Connections

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_KNOWN: Final = ("/v1/chat/completions", "/v1/responses", "/v1/models", "/health", "/ready", "/mcp")
_NOUNS: Final = ("agents", "events", "logs", "messages", "reload", "servers", "sessions", "turns")
_METHODS: Final = ("GET", "POST", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS")

Labels = tuple[tuple[str, str], ...]
Family = tuple[str, str, Mapping[Labels, float]]  # name, help, values


class Histogram:
    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.count = 0
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.sum += seconds
        self.counts[bisect_left(_BUCKETS, seconds)] += 1


class Metrics:
    """Counts what the gateway does. Label values come from a bounded set, whatever clients send."""

    def __init__(self) -> None:
        self._requests: defaultdict[Labels, int] = defaultdict(int)
        self._seconds: defaultdict[Labels, Histogram] = defaultdict(Histogram)
        self._turns: defaultdict[Labels, int] = defaultdict(int)
        self._turn_seconds = Histogram()
        self._tokens = {"input": 0, "output": 0}
        self._reloads: defaultdict[Labels, int] = defaultdict(int)
        self.requests_running = 0
        self.refused = 0  # requests beyond a limit on simultaneous ones
        self.connections: Connections | None = None

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        route = (("method", method if method in _METHODS else "other"), ("route", _route(path)))
        self._requests[(*route, ("status", str(status)))] += 1
        self._seconds[route].add(seconds)

    def turn(self, outcome: Outcome, seconds: float, input_tokens: int, output_tokens: int) -> None:
        self._turns[(("outcome", outcome),)] += 1
        self._turn_seconds.add(seconds)
        self._tokens["input"] += input_tokens
        self._tokens["output"] += output_tokens

    def reload(self, outcome: str) -> None:
        self._reloads[(("outcome", outcome),)] += 1

    def render(self, others: Iterable[Family]) -> str:
        tokens = {(("kind", kind),): float(count) for kind, count in self._tokens.items()}
        families: list[Family] = [
            *others,
            *self._load(),
            ("http_requests_total", "Requests answered.", self._requests),
            ("turns_total", "Turns that ended.", self._turns),
            ("model_tokens_total", "Model tokens.", tokens),
            ("reloads_total", "Reloads.", self._reloads),
        ]
        lines: list[str] = []
        for short, text, values in families:
            name, kind = f"openclaw_{short}", "counter" if short.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_labels(labels)} {value:.15g}" for labels, value in values.items()]
        lines += _histograms("openclaw_http_request_seconds", "Time to answer.", self._seconds)
        lines += _histograms("openclaw_turn_seconds", "Turns.", {(): self._turn_seconds})
        return "\n".join(lines) + "\n"

    def _load(self) -> list[Family]:
        found = [("requests_running", "Requests that are being answered.", self.requests_running)]
        refused, connections = self.refused, self.connections
        if connections is not None:
            refused += connections.refused
            found += [
                ("connections_open", "Open connections.", len(connections.open)),
                ("connections_limit", "Most connections at a time.", connections.most),
            ]
        found.append(("overload_refusals_total", "Requests refused with 503.", refused))
        return [(name, text, {(): float(value)}) for name, text, value in found]


def _route(path: str) -> str:
    if path in _KNOWN:
        return path
    if path.startswith("/api/"):
        noun = path[5:].partition("/")[0]
        return f"/api/{noun}" if noun in _NOUNS else "/api"
    return "other"


def _histograms(name: str, text: str, values: Mapping[Labels, Histogram]) -> list[str]:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} histogram"]
    for labels, one in values.items():
        for bound, count in zip(_BUCKETS, accumulate(one.counts), strict=False):
            lines.append(f"{name}_bucket{_labels((*labels, ('le', f'{bound:g}')))} {count}")
        lines.append(f"{name}_bucket{_labels((*labels, ('le', '+Inf')))} {one.count}")
        lines.append(f"{name}_sum{_labels(labels)} {one.sum:.6f}")
        lines.append(f"{name}_count{_labels(labels)} {one.count}")
    return lines


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    shown = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels)
    return f"{{{shown}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
