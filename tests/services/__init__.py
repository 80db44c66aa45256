"""Servers that tests run against, such as Kafka: fetched into a cache, started on the loopback device, and stopped."""
