"""Where sources read and sinks write: paths, patterns, addresses of databases, and the secrets in them."""
