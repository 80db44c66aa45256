"""Reads the code of users' functions: no other room looks at code objects, or at bytecode. Nothing is run.

:mod:`~windrow.facts.code` has the names, variables and parameters of a function, and what it does with them;
:mod:`~windrow.facts.reached` what a function reaches; :mod:`~windrow.facts.called` the type of what it only calls;
:mod:`~windrow.facts.lazy` whether its call runs none of its code; :mod:`~windrow.facts.keeping` what its calls keep;
:mod:`~windrow.facts.copies` makes the copies of it that are tried with proxies.
"""
