"""What a server declares: names, schemas and pins."""
