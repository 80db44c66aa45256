"""Two streams together: connected, joined by window, by interval, or as of a time."""
