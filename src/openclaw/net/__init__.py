"""The guarded HTTP client, for every URL that we did not write ourselves."""
