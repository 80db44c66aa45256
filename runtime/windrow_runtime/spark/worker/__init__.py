"""Settings of the Python workers."""
