"""Which tools an agent may use: rules, and the decision over them. Pure."""
