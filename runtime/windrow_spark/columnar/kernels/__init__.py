"""Defines kernels, which compute declared aggregates over whole Arrow columns."""
