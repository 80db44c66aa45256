"""Windows over columns: slices, sessions, and late elements."""
