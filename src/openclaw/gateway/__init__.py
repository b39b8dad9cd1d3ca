"""The daemon that keeps the agent running, and the interfaces that it offers over HTTP."""
