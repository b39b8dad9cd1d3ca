"""Processes and pipes, SSE, and ending whatever a server leaves behind."""
