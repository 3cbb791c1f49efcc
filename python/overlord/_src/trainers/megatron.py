"""The external loader of Megatron-LM: who reads, what virtual stages see, how a state is kept."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from overlord._src.errors import refused
from overlord._src.job.job import Job, job
from overlord._src.mesh import Mesh
from overlord._src.trainers.shared_reading import Reader, SharedReading

_AXES = ("tp", "cp", "dp", "pp")
# Key of the config, and what Megatron's arguments call it.
_SIZES = (
    ("context", "seq_length"),
    ("bins", "global_batch_size"),
    ("delivery.microbatch_size", "micro_batch_size"),
)


class MegatronLoader(Iterator[dict[str, Any]]):
    """What Megatron's loops call `next()` on, and its checkpoints `save_state()`."""

    def __init__(self, shared: SharedReading, options: Mapping[str, Any]) -> None:
        self._reader = Reader(shared)
        self._options = options

    def __next__(self) -> dict[str, Any]:
        out: dict[str, Any] = next(self._reader).model_inputs("megatron", **self._options)
        return out

    def save_state(self) -> dict[str, Any]:
        """Where the stream stands: the same on every rank, for any mesh, after whole steps."""
        state: dict[str, Any] = self._reader.shared.loader.state_dict()
        return state

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, on all virtual stages."""
        self._reader.shared.loader.load_state_dict(state)
        self._reader.shared.restart()

    def close(self) -> None:
        """Stop the engine."""
        self._reader.shared.close()


def mesh(parallel_state: Any = None) -> Mesh:
    """The mesh of Megatron's own groups, once they are made, with this process's rank."""
    mpu = parallel_state or importlib.import_module("megatron.core.parallel_state")
    torch: Any = importlib.import_module("torch.distributed")
    sizes = {
        "tp": mpu.get_tensor_model_parallel_world_size(),
        "cp": mpu.get_context_parallel_world_size(),
        "dp": mpu.get_data_parallel_world_size(),
        "pp": mpu.get_pipeline_model_parallel_world_size(),
    }
    places = {
        "tp": mpu.get_tensor_model_parallel_rank(),
        "cp": mpu.get_context_parallel_rank(),
        "dp": mpu.get_data_parallel_rank(),
        "pp": mpu.get_pipeline_model_parallel_rank(),
    }
    own = Mesh(**sizes, rank=torch.get_rank())
    found = {axis: own.coordinate(torch.get_rank(), axis) for axis in _AXES}
    if found != places or own.world_size != torch.get_world_size():
        raise refused(
            ("mesh",),
            f"Megatron's groups lie in another order than {own.text()}, with this rank at {places}",
            found,
            advice="pass mesh=ol.mesh(..., order=) in the order that you gave Megatron",
        )
    return own


def provider(
    config: Any,
    *,
    packed: str | bool = False,
    hybrid: bool = False,
    mesh: Any = None,
    overrides: Mapping[str, Any] | None = None,
    arguments: Any = None,
    **options: Any,
) -> Callable[..., tuple[Any, Any, Any]]:
    """What `pretrain()` takes as its provider of datasets, for `--dataloader-type external`.

    Tensor-parallel rank 0 reads, of the first and last stage alone unless `packed` or `hybrid`; on
    the others it gives None. `packed` and `hybrid` are those of `batch.model_inputs("megatron")`.
    The stream named `valid` is the second iterator, read anew at its end, and `test` the third.
    With `--dataloader-save DIR` Megatron keeps the state, and a run that loads a checkpoint goes on
    from it, on any mesh. `arguments` are Megatron's, its own where they are left out; `options` go
    to `job.train`.
    """
    held: dict[str, SharedReading] = {}
    made: list[Job] = []

    def provide(num_samples: Any = None, vp_stage: int | None = None) -> tuple[Any, Any, Any]:
        told = _arguments() if arguments is None else arguments
        if not made:
            own = _mesh_of(mesh)
            forced = _delivery(packed=bool(packed or hybrid), hybrid=hybrid)
            made.append(job(config, mesh=own, overrides={**forced, **(overrides or {})}))
            _check_sizes(made[0], told)
        return tuple(_reader(name) for name in ("train", "valid", "test"))  # type: ignore[return-value]

    def _reader(name: str) -> MegatronLoader | None:
        [read] = made
        rank = read.mesh.rank
        assert rank is not None
        if name not in read.streams or rank not in read.readers:
            return None
        rows = read.config.delivery.microbatch_size
        form = {"packed": packed, "hybrid": hybrid, "rows": rows}
        if name not in held:
            held[name] = SharedReading(read.stream(name, rank, **options), again=name != "train")
            told = _arguments() if arguments is None else arguments
            state = saved_state(told) if name == "train" else None
            if state is not None:
                held[name].loader.load_state_dict(state)
        return MegatronLoader(held[name], form)

    provide.is_distributed = True  # type: ignore[attr-defined]
    return provide


def saved_state(arguments: Any) -> dict[str, Any] | None:
    """The state that Megatron saved beside the checkpoint it goes on from; None at a start.

    One file of any data-parallel rank is enough: after whole steps all hold the same.
    """
    iteration = getattr(arguments, "iteration", 0) or 0
    folder = getattr(arguments, "dataloader_save", None)
    if not iteration or not folder or not getattr(arguments, "load", None):
        return None
    found = sorted(Path(folder, f"iter_{iteration:07d}").rglob("train_dataloader_dprank*.pt"))
    if not found:
        raise refused(
            ("dataloader_save",),
            f"no state of the loader for iteration {iteration}, which the run goes on from",
            str(folder),
            f"a folder with iter_{iteration:07d}/.../train_dataloader_dprank000.pt",
            "give the folder that the run before saved to",
        )
    torch: Any = importlib.import_module("torch")
    state: dict[str, Any] = torch.load(found[0], weights_only=True)["dataloader_state_dict"]
    return state


def _arguments() -> Any:
    """Megatron's own, where its training package runs this process."""
    try:
        training: Any = importlib.import_module("megatron.training.global_vars")
    except ImportError:
        return None
    return training.get_args()


def _mesh_of(given: Any) -> Mesh:
    if given is None:
        return mesh()
    if not isinstance(given, Mesh) or given.rank is None:
        raise refused(
            ("mesh",),
            "needs the rank of this process",
            given,
            "ol.mesh(..., rank=), or none for that of Megatron's groups",
        )
    return given


def _delivery(*, packed: bool, hybrid: bool) -> dict[str, Any]:
    """Megatron broadcasts over tp itself, and slices over cp unless sequences have groups."""
    forced = {
        "delivery.broadcast": ["tp"],
        "delivery.readers": "fields" if packed else "payload",
    }
    return forced if hybrid else {**forced, "delivery.cp_slicing": "trainer"}


def _check_sizes(read: Job, arguments: Any) -> None:
    for key, name in _SIZES:
        wanted = getattr(arguments, name, None)
        have: Any = read.config
        for part in key.split("."):
            have = getattr(have, part)
        if wanted is not None and wanted != have:
            raise read.loaded.refused(
                tuple(key.split(".")),
                f"Megatron runs with --{name.replace('_', '-')} {wanted}",
                have,
                str(wanted),
                "give both the same: a step of the stream is one iteration",
            )
