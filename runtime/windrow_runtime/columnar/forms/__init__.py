"""Decides which steps run on columns, and what hands columns to them."""
