"""Turns failures of Spark and of its workers into windrow's errors."""
