"""Nexmark."""
