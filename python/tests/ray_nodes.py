"""Ray clusters of several nodes on this machine, which let in who has their token."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

_ATTEMPTS = 4


def patiently(start: Callable[[], Any]) -> Any:
    """Ray gives a node 30 s to start, which is little on a busy machine."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return start()
        except Exception as error:
            if attempt == _ATTEMPTS or "timed out during startup" not in str(error):
                raise
    return None


@contextlib.contextmanager
def ray_cluster(
    nodes: int, cpus: int, environment: Mapping[str, str], **head: Any
) -> Iterator[Any]:
    """So many nodes with so many CPUs each, to which this process is connected."""
    import ray
    from ray._private.authentication_test_utils import reset_auth_token_state
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RAY_AUTH_MODE": "token", **environment}.items():
            patch.setenv(name, value)
        reset_auth_token_state()  # Ray has read the environment when it was imported
        args = {"num_cpus": cpus, **head}
        made = patiently(lambda: Cluster(initialize_head=True, head_node_args=args))
        try:
            for _ in range(nodes - 1):
                patiently(lambda: made.add_node(num_cpus=cpus))
            ray.init(address=made.address, log_to_driver=False)
            yield made
        finally:
            ray.shutdown()
            with contextlib.suppress(Exception):  # a test may have killed some of it
                made.shutdown()
    reset_auth_token_state()
