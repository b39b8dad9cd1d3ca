"""Confining a server's process."""
