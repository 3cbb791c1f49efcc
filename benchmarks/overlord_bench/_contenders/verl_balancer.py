"""verl's Karmarkar-Karp, from its own package: `get_seqlen_balanced_partitions`.

verl needs Ray and more to be imported whole. Its balancer uses none of that, so only its module is
loaded, with empty stand-ins for the parts of verl that it names and partitioning never calls.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from overlord_bench._contenders.sequence_costs import draw_costs

_NAMED = {
    "verl": [],
    "verl.protocol": ["DataProto"],
    "verl.utils": ["tensordict_utils"],
    "verl.utils.device": ["get_device_name"],
}


def _load_balancer() -> Any:
    package = importlib.util.find_spec("verl")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'verl'")
    path = Path(package.origin).parent / "utils" / "seqlen_balancing.py"
    for name, members in _NAMED.items():
        module = ModuleType(name)
        for member in members:
            setattr(module, member, object())
        sys.modules[name] = module
    spec = importlib.util.spec_from_file_location("verl.utils.seqlen_balancing", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """CPU time of one call, and the fullest bin."""
    balancer = _load_balancer()
    costs = draw_costs(work["shape"], work["samples"]).tolist()
    began = time.process_time()
    parts = balancer.get_seqlen_balanced_partitions(
        costs, work["bins"], equal_size=work["equal_count"]
    )
    elapsed = time.process_time() - began
    return {
        "version": version("verl"),
        "time_ms": elapsed * 1e3,
        "max_load": max(sum(costs[i] for i in part) for part in parts),
    }
