"""One start of a server and its windows: the harness, what a window yields, and when it is valid."""
