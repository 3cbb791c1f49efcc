"""What a thing is that somebody points at: its layout, its rows, and the source that reads it."""
