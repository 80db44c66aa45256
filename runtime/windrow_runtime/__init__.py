"""Runs pipelines in the interpreter, and is the door to the packages beside it that users import by its name."""
