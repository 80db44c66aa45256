"""Reads the addresses of sources and sinks: paths, patterns, addresses of databases, and the secrets in them."""
