"""`openclaw init`: what is found, planned and written."""
