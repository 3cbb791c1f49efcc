"""A checked config in the engine's own values."""
