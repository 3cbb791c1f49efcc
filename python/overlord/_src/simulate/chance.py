"""Numbers that depend on (seed, workload, step, what for, row) and on nothing else."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from overlord._src.corpus.sampling import scramble

Reals = npt.NDArray[np.float64]
_MANTISSA_BITS = 53
_MAX_REDRAWS = 64


class Chance:
    """A family of random columns. The same key and name give the same column, in any order."""

    def __init__(self, *key: object) -> None:
        self._key = "\0".join(str(part) for part in key)

    def under(self, *more: object) -> Chance:
        """A family of its own below this one."""
        return Chance(self._key, *more)

    def uniform(self, name: str, rows: int) -> Reals:
        """Values in [0, 1)."""
        digest = hashlib.sha256(f"{self._key}\0{name}".encode()).digest()
        start = np.uint64(int.from_bytes(digest[:8], "little"))
        words = scramble(scramble(np.arange(rows, dtype=np.uint64)) ^ start)
        return (words >> np.uint64(64 - _MANTISSA_BITS)).astype(np.float64) / 2.0**_MANTISSA_BITS

    def normal(self, name: str, rows: int) -> Reals:
        """Values of N(0, 1), by Box and Muller."""
        radius = np.sqrt(-2.0 * np.log(1.0 - self.uniform(name + "/radius", rows)))
        turned: Reals = radius * np.cos(2.0 * np.pi * self.uniform(name + "/angle", rows))
        return turned

    def normal_within(
        self, name: str, rows: int, mean: float, sigma: float, low: float, high: float
    ) -> Reals:
        """Values of N(mean, sigma), drawn again while they lie outside [low, high]."""
        values = mean + sigma * self.normal(f"{name}/0", rows)
        for attempt in range(1, _MAX_REDRAWS):
            outside = np.flatnonzero((values < low) | (values > high))
            if not outside.size:
                break
            values[outside] = mean + sigma * self.normal(f"{name}/{attempt}", rows)[outside]
        return np.clip(values, low, high)
