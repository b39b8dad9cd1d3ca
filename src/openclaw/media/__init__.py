"""Images, audio and documents: limits, type detection, storage, and extracting their text."""
