"""Under JAX: docs/trainers/jax.md."""

from overlord._src.trainers.jax_arrays import arrays

__all__ = ["arrays"]
