"""From a topic of Kafka through windows to another: windrow beside native Spark."""
