"""Servers over time: state, the owner task, the registry, the manager."""
