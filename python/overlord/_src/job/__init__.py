"""A config on a mesh, and the streams one can read from it."""
