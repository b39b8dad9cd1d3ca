"""Reading and writing lines on file descriptors."""
