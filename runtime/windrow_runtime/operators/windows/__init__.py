"""The window operator, and the faster loops for common shapes of windows."""
