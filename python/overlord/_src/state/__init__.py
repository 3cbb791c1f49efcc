"""Where a stream stands: what is saved, what may be resumed, which config keys differ."""
