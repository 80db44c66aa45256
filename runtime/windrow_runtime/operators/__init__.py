"""Runs the steps of a plan by operators, which both engines use."""
