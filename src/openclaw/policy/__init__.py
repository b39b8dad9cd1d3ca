"""Which tools an agent may use: the rules, and the decision. Pure."""
