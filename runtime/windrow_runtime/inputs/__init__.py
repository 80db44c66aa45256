"""What both engines read sources with."""
