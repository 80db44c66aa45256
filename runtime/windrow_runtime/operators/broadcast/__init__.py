"""The operators that take elements for all keys: process functions with rules, and side inputs."""
