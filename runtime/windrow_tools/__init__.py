"""What tools do with pipelines: the command, views, pictures, harnesses and fixtures for tests, replays."""
