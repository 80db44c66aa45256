"""Has the tools for pipelines: the command, views, pictures, harnesses and fixtures for tests, and replays."""
