"""The watermark and the processing time of each batch."""
