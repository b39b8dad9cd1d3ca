"""Servers over time: state, the owner task, the manager."""
