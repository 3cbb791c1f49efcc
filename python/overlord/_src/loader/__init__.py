"""What a trainer holds: loaders of ranks over the engine of their process."""
