"""How a gateway is: for the other gateways, for whoever asks for the status, and for the metrics."""

import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from openclaw.cluster.worker import Worker
from openclaw.core.clock import Clock
from openclaw.sessions.postgres.gateways import GatewayRow
from openclaw.sessions.postgres.queue import Depth
from openclaw.version import __version__

if TYPE_CHECKING:
    from openclaw.mcp_client.lifecycle.manager import McpManager
    from openclaw.mcp_client.lifecycle.server_status import ServerStatus

Json = dict[str, Any]
Figure = tuple[str, str, str, float]
"""For the metrics: kind, name, help and value."""

_FRESH_SECONDS = 0.5
_UNREADY = ("connecting", "error", "failed", "needs_login")


class ServersHere:
    """The MCP servers of this gateway, as they were a moment ago: asking them all takes its time."""

    def __init__(
        self, manager: "McpManager", agents: Callable[[], Sequence[str]], clock: Clock
    ) -> None:
        self._manager, self._agents, self._clock = manager, agents, clock
        self._looked = -1e9
        self._found: tuple[ServerStatus, ...] = ()

    def statuses(self, *, fresh: bool = False) -> "tuple[ServerStatus, ...]":
        """All of them."""
        now = self._clock.monotonic()
        if fresh or now - self._looked > _FRESH_SECONDS:
            self._found = self._manager.status()
            self._looked = now
        return self._found

    def of_scope(self, scope: str, *, fresh: bool) -> list[str]:
        """Those that a client brought along for one session."""
        return [one.snapshot.name for one in self.statuses(fresh=fresh) if scope in one.sessions]

    def ready_agents(self) -> Sequence[str]:
        """The agents whose servers are all ready here, or start when they are needed."""
        waiting = {
            agent
            for one in self.statuses()
            if one.snapshot.state.value in _UNREADY
            for agent in one.agents
        }
        return [agent for agent in self._agents() if agent not in waiting]


def facts_of(servers: ServersHere, worker: Worker) -> Json:
    """What a gateway says of itself to the others."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": __version__,
        "workers": worker.capacity,
        "running": worker.running,
        "readyAgents": list(servers.ready_agents()),
        "servers": [
            {
                "name": one.snapshot.name,
                "state": one.snapshot.state.value,
                "agents": list(one.agents),
                "sessions": list(one.sessions),
                "tools": one.tools,
            }
            for one in servers.statuses()
        ],
    }


def shown(row: GatewayRow, this: str) -> Json:
    """A gateway for a person or a program to look at."""
    return {
        "id": row.id,
        "this": row.id == this,
        "alive": row.alive,
        "seenSecondsAgo": round(row.seen_seconds, 1),
        "upSeconds": round(row.up_seconds, 1),
        **row.facts,
    }


def figures(depth: Depth, worker: Worker, *, reachable: bool) -> list[Figure]:
    """Everything that is measured here."""
    counts = worker.counts
    gauges: list[tuple[str, str, float]] = [
        ("openclaw_database_up", "1 while the database answers.", reachable),
        ("openclaw_queue_waiting", "Turns that wait anywhere.", depth.waiting),
        ("openclaw_queue_running", "Turns that run anywhere.", depth.running),
        ("openclaw_queue_oldest_seconds", "How long the oldest waits.", depth.oldest_seconds),
        ("openclaw_worker_running", "Turns that run here.", worker.running),
        ("openclaw_worker_capacity", "Turns that may run here.", worker.capacity),
    ]
    counters: list[tuple[str, str, float]] = [
        ("openclaw_turns_taken_total", "Turns taken to run here.", counts.taken),
        ("openclaw_turns_taken_over_total", "Turns whose gateway stopped.", counts.taken_over),
        ("openclaw_turns_parked_total", "Turns given up: too many attempts.", counts.parked),
        ("openclaw_turns_lost_total", "Turns that another gateway took over.", counts.lost),
        ("openclaw_turns_returned_total", "Turns handed to another gateway.", counts.returned),
    ]
    return [
        *(("gauge", *one) for one in gauges),
        *(("counter", *one) for one in counters),
    ]
