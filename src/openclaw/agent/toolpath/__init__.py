"""What happens to every tool call: one wrapper per decision, assembled in `toolbox.py`."""
