"""Takes the elements of a key in event-time order, and finds patterns in them."""
