"""Pictures, sounds, documents: limits, what they really are, where they lie, what they say."""
