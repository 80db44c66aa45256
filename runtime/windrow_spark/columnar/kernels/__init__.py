"""Kernels, which compute declared aggregates over whole Arrow columns."""
