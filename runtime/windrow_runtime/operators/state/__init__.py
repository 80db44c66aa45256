"""The keyed state that operators keep, engine-neutral."""
