"""Windows over columns: panes, sessions, and late elements."""
