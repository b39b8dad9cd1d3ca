"""Processes and pipes, and ending whatever a server leaves behind."""
