"""The runtimes of windrow: the interpreter, and Spark."""
