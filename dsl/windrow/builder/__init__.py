"""The builder: streams, and the stages between a stream and its windows, joins and process functions."""
