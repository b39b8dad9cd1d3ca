"""What a session is, where it is kept, and the lane that keeps its turns in order."""
