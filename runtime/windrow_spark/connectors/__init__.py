"""What Spark asks of the sources and sinks of ``windrow_runtime.connectors``."""
