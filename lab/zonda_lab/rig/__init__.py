"""Where servers and load generators run: processes and network namespaces of this machine, and kernel settings."""
