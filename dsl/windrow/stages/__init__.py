"""Parts of the builder stages: ready-made calls of windows, and steps that need no keys."""
