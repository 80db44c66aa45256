"""Random pipelines over random input, on both engines: ``python -m tests.differential --cases N --seed S``."""
