"""Shows the steps of a plan to people and tools, in the formats of ``explain()``."""
