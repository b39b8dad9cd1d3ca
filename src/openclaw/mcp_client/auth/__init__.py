"""Logins to remote servers: OAuth, tokens, and where they are stored."""
