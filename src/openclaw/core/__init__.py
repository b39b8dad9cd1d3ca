"""What every other package may rely on: errors, content, tools, events. No I/O."""
