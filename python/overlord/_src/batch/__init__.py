"""What one rank receives: arrays, media and tensors of a microbatch."""
