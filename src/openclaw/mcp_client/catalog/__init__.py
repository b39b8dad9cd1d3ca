"""What a server declares: names, schemas, pins, and the cache of it."""
