"""Runs pipelines on several machines that are made on this one: ``python -m tests.machines --job sensors``."""
