"""Nexmark, an auction house as three streams, with its queries as pipelines; NEXMARK.md says what they mean."""
