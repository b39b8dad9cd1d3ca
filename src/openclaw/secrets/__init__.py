"""Secrets: references, where their values come from, and keeping the values out of sight."""
