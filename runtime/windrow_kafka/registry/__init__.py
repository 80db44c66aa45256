"""Reads and writes Kafka values whose schemas are in a registry, as columns and elements."""
