"""`openclaw chat`: input, questions, the conversation and how it is shown."""
