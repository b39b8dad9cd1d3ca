"""Many gateways on one PostgreSQL server."""
