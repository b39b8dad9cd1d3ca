"""The gateway's own HTTP API; the OpenAPI document is made from it."""
