"""Rows and values on their way between Python workers, and the counts that workers report."""
