"""Windows over columns: tiles, sessions, and late elements."""
