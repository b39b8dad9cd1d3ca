"""The embedded model: weights, the runner, and what makes a very small model useful."""
