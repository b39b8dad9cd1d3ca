"""Many gateways as one: turns that enter at one of them and run at another."""
