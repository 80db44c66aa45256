"""What calls of users' functions give and keep: results that cannot be used, and values left for the next call."""
