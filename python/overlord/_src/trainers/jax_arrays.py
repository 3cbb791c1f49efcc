"""Global arrays of JAX, of what each process has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt


def arrays(inputs: Mapping[str, npt.NDArray[Any]], sharding: Any) -> dict[str, Any]:
    """Each process's rows, one after the other in the order of the processes.

    `inputs` as `batch.arrays()` or `batch.model_inputs("maxtext")` give them; `sharding` splits
    their rows over processes in the order of the data ranks.
    """
    import jax

    return {
        name: jax.make_array_from_process_local_data(sharding, array)
        for name, array in inputs.items()
    }
