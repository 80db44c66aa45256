"""Elements as JSON lines."""
