"""The Model Context Protocol without I/O, for clients and for servers.

Messages go in; events and messages come out. Nothing here reads a clock, opens a connection or imports
another part of OpenClaw.
"""
