"""The checkpoint folder: what lies in it, and whether a run may go on from it."""
