"""Sessions, where they are stored, and the lanes that keep their turns in order."""
