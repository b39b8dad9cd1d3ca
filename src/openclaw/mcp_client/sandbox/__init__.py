"""Confines stdio servers and the commands of the `exec` tool."""
