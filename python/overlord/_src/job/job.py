"""Job: a config on a mesh, and the streams one can read from it."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, overload

from pydantic import ValidationError

from overlord._src import indexing, lowering
from overlord._src.attached_engine import AttachedEngine
from overlord._src.callouts import AnyFunction, answer_request
from overlord._src.config.columns import base_name
from overlord._src.config.mesh_fit import fit_problems
from overlord._src.config.reading import ConfigInput, LoadedConfig, read_config
from overlord._src.config.refusals import problems_of
from overlord._src.config.streams import TRAIN, ResolvedStream, resolve_stream, stream_names
from overlord._src.config.substitution import Overrides
from overlord._src.errors import ConfigError, Problem
from overlord._src.index_folder import folder_problems
from overlord._src.launch import Launch, find_launch
from overlord._src.loader import Loader, RankLoaders
from overlord._src.mesh import Mesh, as_mesh, is_data_axis
from overlord._src.mix_rule import Rule, rule_problems
from overlord._src.native import core
from overlord._src.node_limits import check_memory_share, node_cores
from overlord._src.node_process import Attachment, NodePlan
from overlord._src.pinning import find_pinning
from overlord._src.preflight import check_stream
from overlord._src.shared_engine import SharedEngine
from overlord._src.state_keys import keys_of
from overlord._src.strategy_lowering import functions_of, match_functions, strategy_digest
from overlord._src.transforms import ThreadTransform, thread_problem, thread_transforms
from overlord._tokenizer_worker import worker_command
from overlord.config import JobConfig, RuntimeConfig

ENGINES = ("auto", "embedded", "processes")
_LOADERS = itertools.count()  # of this process, which hosts all ranks of each
Ranks = Literal["all"] | Sequence[int]


@dataclass(frozen=True)
class OpenStream:
    """One stream with its sources found, indexed and checked."""

    resolved: ResolvedStream
    sources: list[Any]
    infos: list[dict[str, Any]]
    native: Any
    functions: Mapping[str, AnyFunction] = field(default_factory=dict)
    transforms: Mapping[str, ThreadTransform] = field(default_factory=dict)  # of lane thread

    def cursor(self, state: bytes | None = None, *, place: bool = True) -> Any:
        """Plans one after another, from a state on; without `place` in arrival order."""
        names = self.source_names

        def call(request: Any) -> Any:
            return answer_request(request, self.functions, names)

        return self.native.planner(
            state, worker_command(), call if self.functions else None, place=place
        )

    @property
    def source_names(self) -> list[str]:
        """Names of its sources, in the engine's order."""
        return [source.name for source in self.sources]

    @property
    def source_digests(self) -> dict[str, str]:
        """What stands for the data of each source."""
        return {
            name: info["digest"][-16:]  # as a state keeps them
            for name, info in zip(self.source_names, self.infos, strict=True)
        }


class Job:
    """A job on a mesh. `train`, `valid` and `stream` give loaders; they start when read."""

    def __init__(
        self,
        loaded: LoadedConfig,
        mesh: Mesh,
        rule: Rule | None = None,
        functions: Mapping[str, Any] | None = None,
    ) -> None:
        self._loaded = loaded
        self._rule = rule
        self._functions, unfit = match_functions(loaded.config.strategy, functions or {})
        self._mesh = mesh
        self._streams: dict[str, OpenStream] = {}
        problems = [
            problem
            for name in stream_names(loaded.config)
            for problem in fit_problems(loaded.config, resolve_stream(loaded.config, name), mesh)
        ]
        for name in stream_names(loaded.config):
            problems += rule_problems(resolve_stream(loaded.config, name), rule)
        problems += [*unfit, *folder_problems(loaded)]
        if problems:
            raise loaded.refuse(dict.fromkeys(problems))

    @property
    def config(self) -> JobConfig:
        """The checked config."""
        return self._loaded.config

    @property
    def loaded(self) -> LoadedConfig:
        """The config with the place it was read from."""
        return self._loaded

    @property
    def mesh(self) -> Mesh:
        """The ranks of the job."""
        return self._mesh

    @property
    def streams(self) -> list[str]:
        """Names of the streams, `train` first."""
        return stream_names(self.config)

    def open_stream(self, name: str = TRAIN) -> OpenStream:
        """Find, index where missing, and check everything a stream reads. Done once per stream."""
        if name not in self._streams:
            self._streams[name] = self._open(name)
        return self._streams[name]

    def _resolve(self, name: str) -> ResolvedStream:
        try:
            return resolve_stream(self.config, name)
        except ConfigError as error:
            raise error.at(self._loaded.origin, self._loaded.lines) from None

    def _open(self, name: str) -> OpenStream:
        resolved = self._resolve(name)
        names = resolved.mixture.source_names()
        whole = list(dict.fromkeys(base_name(item) for item in names))
        files = {source: lowering.list_source_files(self._loaded, source) for source in whole}
        lowering.check_shared_files(self._loaded, files)
        indexed, sources = (
            [
                lowering.lower_source(self._loaded, resolved, item, files[base_name(item)])
                for item in items
            ]
            for items in (whole, names)
        )
        indexing.ensure_indexes(self._loaded, indexed, self.config.runtime.threads)
        infos = [indexing.check_indexed_files(self._loaded, source) for source in sources]
        spec = lowering.lower_stream(self._loaded, resolved, sources)
        native = core.Job(
            spec,
            lowering.lower_delivery(self.config.delivery, resolved, self.config.strategy),
            lowering.lower_mesh(self._mesh),
            [str(indexing.index_path(self._loaded, source)) for source in sources],
        )
        threads = thread_transforms(self._loaded, sources, spec.batch_transform)
        return OpenStream(resolved, sources, infos, native, self._functions, threads)

    @overload
    def train(
        self,
        rank: int | None = None,
        *,
        ranks: None = None,
        prefetch: int | None = None,
        engine: str = "auto",
        threads: int | None = None,
        hash: bool = False,
        node: str | os.PathLike[str] | None = None,
        writable: bool = False,
        pin: bool | int = False,
    ) -> Loader: ...

    @overload
    def train(
        self,
        rank: Sequence[int],
        *,
        ranks: None = None,
        prefetch: int | None = None,
        engine: str = "auto",
        threads: int | None = None,
        hash: bool = False,
        node: str | os.PathLike[str] | None = None,
        writable: bool = False,
        pin: bool | int = False,
    ) -> RankLoaders: ...

    @overload
    def train(
        self,
        rank: None = None,
        *,
        ranks: Ranks,
        prefetch: int | None = None,
        engine: str = "auto",
        threads: int | None = None,
        hash: bool = False,
        node: str | os.PathLike[str] | None = None,
        writable: bool = False,
        pin: bool | int = False,
    ) -> RankLoaders: ...

    def train(
        self,
        rank: Any = None,
        *,
        ranks: Any = None,
        prefetch: int | None = None,
        engine: str = "auto",
        threads: int | None = None,
        hash: bool = False,
        node: str | os.PathLike[str] | None = None,
        writable: bool = False,
        pin: bool | int = False,
    ) -> Loader | RankLoaders:
        """The training stream for one rank, or for several hosted here (`ranks="all"` or a list).

        `rank` may be left out where the mesh knows it (from the environment or a DeviceMesh) or has
        one rank. `prefetch` and `threads` win over the config; they never change the stream. `hash`
        chains the bytes of every batch, so that streams can be compared.

        `engine` is `embedded` (all roles in this process), `processes` (a node process of this host
        reads for all its ranks), or `auto`: the latter where the launcher's environment says that
        this is one of several ranks of the host. `node` is the directory of a node that
        `overlord serve` runs. `writable` gives arrays that may be changed, at the cost of a copy.
        `pin` registers the memory of batches with CUDA, so that copies to the device run at full
        speed beside the host; `True` means this process's current device, a number that device.
        """
        loader: Loader | RankLoaders = self.stream(
            TRAIN,
            rank,
            ranks=ranks,
            prefetch=prefetch,
            engine=engine,
            threads=threads,
            hash=hash,
            node=node,
            writable=writable,
            pin=pin,
        )
        return loader

    def valid(self, rank: Any = None, **options: Any) -> Any:
        """The stream named `valid`; takes what `train` takes."""
        return self.stream("valid", rank, **options)

    def stream(
        self,
        name: str,
        rank: Any = None,
        *,
        ranks: Any = None,
        prefetch: int | None = None,
        engine: str = "auto",
        threads: int | None = None,
        hash: bool = False,
        node: str | os.PathLike[str] | None = None,
        writable: bool = False,
        pin: bool | int = False,
    ) -> Any:
        """The stream of this name; takes what `train` takes."""
        _check_call(engine, prefetch, threads)
        single, hosted = self._hosted(rank, ranks)
        resolved = self._resolve(name)
        options = lowering.lower_runtime(
            self.config.runtime,
            threads=threads,
            prefetch=prefetch,
            hash_batches=hash,
            reporters=lowering.reporting_ranks(resolved.mixture, self._mesh),
        )
        launch = find_launch()
        if (
            node is not None
            or engine == "processes"
            or (engine == "auto" and self._shares_readers(launch, hosted))
        ):
            shared: SharedEngine = self._attached(
                name, resolved, hosted, options, launch, "" if node is None else str(node)
            )
        else:
            shared = self._embedded(name, hosted, options)
        shared.form_batches(self.config.delivery.cp_slicing, writable, find_pinning(pin))
        shared.keys = keys_of(self.config, resolved)
        return Loader(shared, hosted[0]) if single else RankLoaders(shared)

    def _shares_readers(self, launch: Launch | None, hosted: Sequence[int]) -> bool:
        """Whether this process is one of several that read the stream, here or on other hosts."""
        if launch is None or launch.world_size != self._mesh.world_size:
            return False
        if self.config.runtime.wire.planner is not None and launch.hosts > 1:
            return True
        return len(launch.local_ranks) > 1 and set(hosted) < set(launch.local_ranks)

    def _embedded(self, name: str, hosted: list[int], options: Any) -> SharedEngine:
        opened = check_stream(self._loaded, self.open_stream(name), tell=0 in hosted)
        return SharedEngine(
            opened.native,
            hosted,
            options,
            self.config.job,
            name,
            self._mesh,
            opened.source_digests,
            self._dealing(self.config.delivery),
            self._rule if opened.resolved.mixture.follows_rule else None,
            self._hybrid,
            opened.functions,
            opened.transforms,
        )

    def _attached(
        self,
        name: str,
        resolved: ResolvedStream,
        hosted: list[int],
        options: Any,
        launch: Launch | None,
        path: str,
    ) -> AttachedEngine:
        shared = launch is not None and launch.world_size == self._mesh.world_size
        local = sorted(launch.local_ranks) if launch is not None and shared else hosted
        if not set(hosted) <= set(local):
            local = hosted
        if not self.config.runtime.ablation.disaggregation:
            local = self._same_group(hosted, local, path)
        plan, served = replace(self.node_plan(), local=sorted(local), starter=hosted), local
        self._check_attachable(resolved, local)
        if self.config.runtime.wire.planner is not None and len(local) < self._mesh.world_size:
            served = list(range(self._mesh.world_size))
            plan = replace(plan, wire=self._wire_words(leads=0 in local))
        agreed = self.agreed_key(name, options.hash_batches)
        run = launch.run if launch is not None else ""
        if launch is None and len(hosted) == self._mesh.world_size:
            # Nobody else reads this stream: another reader of the same job has a node of its own.
            run = f"process {os.getpid()}, loader {next(_LOADERS)}"
        attachment = Attachment(
            agreed,
            _digest([agreed, local, run, os.getuid()]),
            hosted,
            lambda: self.job_file(name, served, options),
            replace(plan, run=_digest([local, run, os.getuid()])),
            self.config.runtime.processes.directory or "",
            path,
        )
        return AttachedEngine(
            attachment,
            options,
            self.config.job,
            name,
            self._mesh,
            self._dealing(self.config.delivery),
            launch.restarts if launch is not None else 0,
            self._rule if resolved.mixture.follows_rule else None,
            self._hybrid,
        )

    def _same_group(self, hosted: list[int], local: list[int], path: str) -> list[int]:
        """Those that share a node where every data-parallel group reads for itself."""

        def group(rank: int) -> tuple[int, ...]:
            axes = (axis for axis, _ in self._mesh.axes if is_data_axis(axis))
            return tuple(self._mesh.coordinate(rank, axis) for axis in axes)

        if path or len({group(rank) for rank in hosted}) > 1:
            raise ConfigError(
                Problem(
                    ("runtime", "ablation", "disaggregation"),
                    "false: each data-parallel group has a node of its own, which its first rank "
                    "starts",
                    allowed="processes that each host ranks of one group, without node=",
                )
            )
        return [rank for rank in local if group(rank) == group(hosted[0])]

    def job_file(self, name: str, ranks: Sequence[int], options: Any) -> bytes:
        """A stream of the job as a node process is started with it; opens and indexes its data."""
        opened = check_stream(self._loaded, self.open_stream(name))
        file: bytes = core.job_file(opened.native, list(ranks), options, worker_command())
        return file

    def node_plan(self) -> NodePlan:
        """How the config wants the roles of a host dealt to processes."""
        placing = self.config.runtime.processes
        return NodePlan(
            loader_processes=placing.loaders,
            constructor_processes=placing.constructors,
            isolate=tuple(placing.isolate),
            attach_seconds=placing.attach_seconds,
            metrics_socket=self.config.runtime.metrics.socket,
            metrics_port=self.config.runtime.metrics.port,
            share_batches=self.config.runtime.ablation.sharing,
            cores=node_cores(placing.cores_share),
        )

    def _check_attachable(self, stream: ResolvedStream, local: Sequence[int]) -> None:
        """What a node cannot do, said before one is started."""
        check_memory_share(self._loaded, min(len(local), self._mesh.data_size))
        if functions_of(self.config.strategy):
            raise self._loaded.refuse(
                Problem(
                    ("strategy",),
                    "functions of your own run in the process that plans, and a node has no Python",
                    advice='use engine="embedded" with all ranks in one process',
                )
            )
        names = dict.fromkeys(base_name(item) for item in stream.mixture.source_names())
        threaded = thread_problem(self._loaded, list(names))
        if threaded is not None:
            raise self._loaded.refuse(threaded)
        several = len(local) < self._mesh.world_size
        if stream.mixture.metric_driven and several and self.config.runtime.wire.planner is None:
            raise self._loaded.refuse(
                Problem(
                    (*stream.path_of("mixture"), "schedule"),
                    "a mixture that follows losses needs one planner that hears every report",
                    advice="set runtime.wire.planner to the address of rank 0's host",
                )
            )

    def _wire_words(self, *, leads: bool) -> list[str]:
        """How the node of this host reaches the others, as it is told; secrets by reference."""
        wire = self.config.runtime.wire
        told = {
            "wire.lead": wire.planner,
            "wire.bind": f"{wire.host or socket.gethostname()}:0",
            "wire.certificate": wire.certificate and str(self._loaded.base / wire.certificate),
            "wire.key": wire.key and str(self._loaded.base / wire.key),
            "wire.authority": wire.authority and str(self._loaded.base / wire.authority),
            "wire.token": wire.token,
            "wire.leads": "1" if leads else None,
        }
        return [f"{key}={value}" for key, value in told.items() if value]

    def agreed_key(self, name: str, hash_batches: bool) -> str:
        """What the ranks that share a node must agree on, as a digest."""
        config = self.config.model_dump(mode="json", exclude={"runtime"})
        told = [config, str(self._loaded.base), self._mesh.axes, name, hash_batches]
        return _digest(told)

    @property
    def _hybrid(self) -> bool:
        return self.config.strategy is not None and self.config.strategy.hybrid is not None

    def plan(self, step: int = 0, stream: str = TRAIN) -> Any:
        """The plan of a step, from metadata alone: what `ol.strategy.loader_do_plan` takes."""
        from overlord._src.readable import plan_of

        return plan_of(self.open_stream(stream), step)[0]

    def summary_buffer(
        self,
        step: int = 0,
        *,
        fields: Sequence[str] | None = None,
        rows: int | None = None,
        stream: str = TRAIN,
    ) -> Any:
        """What the planner knows of a step's samples before it places them, as an Arrow table.

        One row per segment, in bin order: `source`, `pass`, `position`, `first`, `tokens`,
        `targets`, `bin`, and the job's metadata columns. `fields` chooses columns, `rows` caps the
        rows. Nothing is placed and no function of a strategy is called.
        """
        from overlord._src.plan_duties import summarise

        return summarise(self.open_stream(stream), step, fields, rows)

    def _dealing(self, delivery: Any) -> str:
        """How bins are dealt: a state saved inside a step is bound to it."""
        text = f"microbatch_size={delivery.microbatch_size},fill_empty={int(delivery.fill_empty)}"
        if self.config.strategy is None:
            return text
        return f"{text},strategy={strategy_digest(self.config.strategy)}"

    def _hosted(self, rank: Any, ranks: Any) -> tuple[bool, list[int]]:
        """Whether one loader is wanted, and the ranks that live in this process."""
        if rank is not None and ranks is not None:
            raise ConfigError(
                Problem(("ranks",), "rank and ranks are both given", advice="give one")
            )
        several = ranks if ranks is not None else rank if not isinstance(rank, int | None) else None
        if several is None:
            return True, [self._own_rank() if rank is None else self._mesh.check_rank(rank)]
        hosted = list(range(self._mesh.world_size)) if several == "all" else list(several)
        for item in hosted:
            self._mesh.check_rank(item)
        if not hosted or len(set(hosted)) != len(hosted):
            raise ConfigError(
                Problem(
                    ("ranks",),
                    "needs each rank once, and at least one",
                    hosted,
                    f"0 to {self._mesh.world_size - 1}, or 'all'",
                )
            )
        return False, hosted

    def _own_rank(self) -> int:
        if self._mesh.rank is not None:
            return self._mesh.rank
        if self._mesh.world_size == 1:
            return 0
        text = os.environ.get("RANK", "")
        if text.isdigit() and os.environ.get("WORLD_SIZE") == str(self._mesh.world_size):
            return self._mesh.check_rank(int(text))
        raise ConfigError(
            Problem(
                ("rank",),
                f"needed on a mesh of {self._mesh.world_size} ranks",
                allowed=f"0 to {self._mesh.world_size - 1}",
                advice='pass rank=, use ol.mesh.from_env(), or host all with ranks="all"',
            )
        )


def _digest(told: Any) -> str:
    text = json.dumps(told, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _check_call(engine: str, prefetch: int | None, threads: int | None) -> None:
    problems = []
    if engine not in ENGINES:
        problems.append(
            Problem(("engine",), "no such engine in this version", engine, ", ".join(ENGINES))
        )
    given = {"prefetch": prefetch, "threads": threads}
    given = {key: value for key, value in given.items() if value is not None}
    try:
        RuntimeConfig.model_validate(given)
    except ValidationError as error:
        problems += problems_of(error, RuntimeConfig, given)
    if problems:
        raise ConfigError(problems)


def job(
    config: ConfigInput,
    mesh: Mesh | str | Any | None = None,
    seed: int | None = None,
    overrides: Overrides = (),
    strategy: Any = None,
    rule: Rule | None = None,
    callouts: Mapping[str, Any] | None = None,
    transforms: Mapping[str, Any] | None = None,
) -> Job:
    """A job from a YAML file, a dict or a JobConfig, on a mesh.

    `mesh` is an `ol.mesh(...)`, text like `"dp=2,tp=2"`, or a torch DeviceMesh; without one the job
    has one rank. `seed` replaces the config's. `overrides` are dotted keys: a mapping, or strings
    like `"mixture.weights.web=0.5"`. `strategy` replaces the config's: a function over graph and
    tree (see `overlord.strategy`), or the data that `strategy.trace` makes of one. `rule` is an
    `ol.mix.rule(...)` for a mixture whose schedule is of kind rule. `callouts` gives the Python
    functions that a strategy from a file names, by name; those of a traced one come with it.
    `transforms` gives functions under `@ol.transform` that sources name without a module.
    """
    loaded = read_config(config, overrides=overrides, seed=seed)
    if transforms:
        loaded = replace(loaded, transforms=dict(transforms))
    functions: dict[str, Any] = {}
    if strategy is not None:
        from overlord.strategy import StrategyConfig, trace_functions

        if isinstance(strategy, StrategyConfig):
            declared = strategy
        else:
            declared, functions = trace_functions(strategy)
        loaded = replace(loaded, config=loaded.config.model_copy(update={"strategy": declared}))
    return Job(loaded, as_mesh(mesh), rule, {**functions, **(callouts or {})})


__all__ = ["Job", "OpenStream", "job"]
