"""Runs a lowered pipeline as a streaming query or as one batch job."""
