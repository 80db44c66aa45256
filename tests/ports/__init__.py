"""Programs of other systems, written with windrow, beside answers that plain Python computes from the same input.

Each module has ``PIPELINE``, and ``answers()``: the results of each sink as they have to be.
"""
