"""Parts of the builder: keyed streams, ready-made calls of windows, and steps that need no keys."""
