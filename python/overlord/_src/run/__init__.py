"""A run of a stream on all ranks of a mesh in this process."""
