"""The model that comes with the program, and the rules that choose its tools."""
