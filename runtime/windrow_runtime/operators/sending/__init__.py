"""What pickle makes of functions: copies of them, and what in them cannot be pickled."""
