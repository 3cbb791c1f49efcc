"""Job: a config on a mesh, and the streams one can read from it."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from overlord._src.checkup.preflight import check_stream
from overlord._src.config.columns import base_name
from overlord._src.config.hybrid_fit import hybrid_of
from overlord._src.config.job_config import JobConfig
from overlord._src.config.mesh_fit import fit_problems
from overlord._src.config.readers import check_reads, reading_ranks
from overlord._src.config.reading import ConfigInput, LoadedConfig, read_config
from overlord._src.config.streams import TRAIN, ResolvedStream, resolve_stream, stream_names
from overlord._src.config.substitution import Overrides
from overlord._src.config.wire_checks import addresses_of_stream
from overlord._src.errors import ConfigError, refused
from overlord._src.functions.mix_rule import Rule, rule_problems
from overlord._src.functions.transforms import thread_problem
from overlord._src.index.folder import folder_problems
from overlord._src.index.source_profile import loader_millicores
from overlord._src.job.call_checks import check_call, check_ray_call
from overlord._src.job.launch import Launch, find_launch
from overlord._src.job.open_stream import OpenStream
from overlord._src.loader.attached_engine import AttachedEngine
from overlord._src.loader.embedded_engine import EmbeddedEngine
from overlord._src.loader.loader import Loader, RankLoaders
from overlord._src.loader.pinning import find_pinning
from overlord._src.loader.shared_engine import EngineSettings, SharedEngine
from overlord._src.loader.stream_length import microbatches_of, steps_of
from overlord._src.lowering import job_spec as lowering
from overlord._src.lowering.strategy import match_functions, strategy_digest
from overlord._src.mesh import Mesh, as_mesh, is_data_axis
from overlord._src.native import core
from overlord._src.node.keeper_place import KeeperPlace
from overlord._src.node.limits import check_memory_share, given_memory, node_cores
from overlord._src.node.process import Attachment, GivenNode, HostNode, NodeFinder, NodePlan
from overlord._src.node.process_groups import group_costs, lists_of
from overlord._src.node.wire_words import wire_words
from overlord._src.scale.at_start import told_sources
from overlord._src.state.keys import keys_of
from overlord._workers.tokenizer_worker import worker_command

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LOG = logging.getLogger("overlord")
_LOADERS = itertools.count()  # of this process, which hosts all ranks of each
Ranks = Literal["all"] | Sequence[int]


class ReadOptions(TypedDict, total=False):
    """What the loaders of any stream may be asked for; `Job.train` says what each means."""

    prefetch: int | None
    engine: str
    threads: int | None
    hash: bool
    node: str | os.PathLike[str] | None
    writable: bool
    pin: bool | int
    device: Any


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
        self._steps: dict[str, int] = {}  # of streams whose length was asked for
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
    def readers(self) -> list[int]:
        """The ranks that have loaders: all of them, unless `delivery.readers` says otherwise."""
        return reading_ranks(self.config, self._mesh)

    @property
    def streams(self) -> list[str]:
        """Names of the streams, `train` first."""
        return stream_names(self.config)

    def open_stream(self, name: str = TRAIN, *, may_lack: bool = False) -> OpenStream:
        """Find, index where missing, and check everything a stream reads. Done once per stream.

        `may_lack`: other hosts run loaders of sources whose files are not here.
        """
        if name not in self._streams:
            self._streams[name] = OpenStream.open(
                self._loaded, self._mesh, self._resolve(name), self._functions, may_lack=may_lack
            )
        return self._streams[name]

    def _resolve(self, name: str) -> ResolvedStream:
        try:
            return resolve_stream(self.config, name)
        except ConfigError as error:
            raise error.at(self._loaded.origin, self._loaded.lines) from None

    @overload
    def train(
        self, rank: int | None = None, *, ranks: None = None, **options: Unpack[ReadOptions]
    ) -> Loader: ...

    @overload
    def train(
        self, rank: Sequence[int], *, ranks: None = None, **options: Unpack[ReadOptions]
    ) -> RankLoaders: ...

    @overload
    def train(
        self, rank: None = None, *, ranks: Ranks, **options: Unpack[ReadOptions]
    ) -> RankLoaders: ...

    def train(
        self, rank: Any = None, *, ranks: Any = None, **options: Unpack[ReadOptions]
    ) -> Loader | RankLoaders:
        """The training stream for one rank, or for several hosted here (`ranks="all"` or a list).

        `rank` may be left out where the mesh knows it (from the environment or a DeviceMesh) or has
        one rank. `prefetch` and `threads` win over the config; they never change the stream. `hash`
        chains the bytes of every batch, so that streams can be compared.

        `engine` is `embedded` (all roles in this process), `processes` (a node process of this host
        reads for all its ranks), `ray` (the same, led by the keeper that `ol.ray.launch` has
        placed), or `auto`: processes where the launcher's environment says that this is one of
        several ranks of the host. `node` is the directory of a node that `overlord serve` runs.
        `writable` gives arrays that may be changed, at the cost of a copy. `pin`
        registers the memory of batches with CUDA, so that copies to the device run at full speed
        beside the host; `True` means this process's current device, a number that device.
        `device` gives batches whose tensors are there, the next one already on its way.
        """
        loader: Loader | RankLoaders = self.stream(TRAIN, rank, ranks=ranks, **options)
        return loader

    def valid(self, rank: Any = None, *, ranks: Any = None, **options: Unpack[ReadOptions]) -> Any:
        """The stream named `valid`; takes what `train` takes."""
        return self.stream("valid", rank, ranks=ranks, **options)

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
        device: Any = None,
    ) -> Any:
        """The stream of this name; takes what `train` takes."""
        check_call(engine, prefetch, threads)
        if engine == "ray":
            check_ray_call(prefetch=prefetch, threads=threads, node=node)
        single, hosted = self._hosted(rank, ranks)
        resolved = self._resolve(name)
        settings = EngineSettings(
            job=self.config.job,
            stream=name,
            mesh=self._mesh,
            ranks=hosted,
            options=lowering.lower_runtime(
                self.config.runtime,
                threads=threads,
                prefetch=prefetch,
                hash_batches=hash,
                reporters=lowering.reporting_ranks(resolved.mixture, self._mesh),
            ),
            dealing=self._dealing(),
            keys=keys_of(self.config, resolved),
            slicing=self.config.delivery.cp_slicing,
            most_loaders=lowering.most_loaders(self._loaded),
            hybrid=hybrid_of(self.config) is not None,
            readers=self.config.delivery.readers,
            rule=self._rule if resolved.mixture.follows_rule else None,
            functions=self._functions,
            writable=writable,
            microbatches=lambda mesh: self._microbatches(name, mesh),
            pinning=find_pinning(pin),
        )
        launch = find_launch()
        shadowed = self._shadowed(resolved)
        if shadowed and engine == "embedded" and node is None:
            raise self._loaded.refused(
                ("sources", shadowed, "shadows"),
                "a shadow takes over when a process dies, and all roles share one here",
                self.config.sources[shadowed].shadows,
                advice='use engine="processes", or set it to 0',
            )
        shared: SharedEngine
        if (
            node is not None
            or engine in ("processes", "ray")
            or (engine == "auto" and (shadowed or self._shares_readers(launch, hosted)))
        ):
            path = "" if node is None else str(node)
            shared = self._attached(settings, launch, path, by_ray=engine == "ray")
        else:
            opened = check_stream(self._loaded, self.open_stream(name), tell=0 in hosted)
            shared = EmbeddedEngine(
                settings, opened, self._loaded.journal_path, lambda: self._told(opened)
            )
        if single:
            return Loader(shared, hosted[0], device=device)
        return RankLoaders(shared, device)

    def _microbatches(self, name: str, mesh: Mesh) -> int:
        if name not in self._steps:
            self._steps[name] = steps_of(self.open_stream(name))
        return microbatches_of(self.config, self._resolve(name), mesh, self._steps[name])

    def _shadowed(self, stream: ResolvedStream) -> str | None:
        """A source of the stream whose loaders have shadows."""
        names = (base_name(name) for name in stream.mixture.source_names())
        return next((name for name in names if self.config.sources[name].shadows), None)

    def _shares_readers(self, launch: Launch | None, hosted: Sequence[int]) -> bool:
        """Whether this process is one of several that read the stream, here or on other hosts."""
        if launch is None or launch.world_size != self._mesh.world_size:
            return False
        wire = self.config.runtime.wire
        if wire.in_turn or (wire.planner is not None and launch.hosts > 1):
            return True
        return len(launch.local_ranks) > 1 and set(hosted) < set(launch.local_ranks)

    def _attached(
        self,
        settings: EngineSettings,
        launch: Launch | None,
        path: str,
        by_ray: bool,
    ) -> AttachedEngine:
        name, hosted, options = settings.stream, list(settings.ranks), settings.options
        shared = launch is not None and launch.world_size == self._mesh.world_size
        everybody = self.readers
        local = sorted(launch.local_ranks) if launch is not None and shared else hosted
        local = [rank for rank in local if rank in everybody]
        if not set(hosted) <= set(local):
            local = hosted
        if not self.config.runtime.ablation.disaggregation:
            local = self._same_group(hosted, local, path)
        plan, served = replace(self.node_plan(), local=sorted(local), starter=hosted), local
        self.check_attachable(name, local)
        wire = self.config.runtime.wire
        # Under Ray the keeper leads, and of several that may a host without ranks.
        elsewhere, follows = by_ray or wire.in_turn, False
        alone = len(local) == len(everybody) and not (wire.joinable or elsewhere)
        if wire.lead is not None and not alone:
            served, leads = everybody, 0 in local and not elsewhere
            follows = not leads
            words = self._wire_words(name, wire.lead, leads=leads)
            plan = replace(plan, wire=words, lead_returns=elsewhere)
        agreed = self.agreed_key(name, options.hash_batches)
        if by_ray:
            self.check_under_ray()
            beside = self.keeper_place(name, options.hash_batches)
            if beside.is_here():  # else their own node follows it
                path, plan = beside.path, self.leading_plan(name)
        run = launch.run if launch is not None else ""
        if launch is None and hosted == everybody:
            # Nobody else reads this stream: another reader of the same job has a node of its own.
            run = f"process {os.getpid()}, loader {next(_LOADERS)}"
        plan = replace(plan, run=_digest([local, run, os.getuid()]))
        finder: NodeFinder = GivenNode(path)
        if not path:
            finder = HostNode(
                agreed,
                _digest([agreed, local, run, os.getuid()]),
                hosted,
                lambda: self.job_file(name, served, options, may_lack=follows),
                plan,
                self.config.runtime.processes.directory or "",
            )
        node = Attachment(agreed, hosted, finder, plan)
        return AttachedEngine(settings, node, launch.restarts if launch else 0)

    def _same_group(self, hosted: list[int], local: list[int], path: str) -> list[int]:
        """Those that share a node where every data-parallel group reads for itself."""

        def group(rank: int) -> tuple[int, ...]:
            axes = (axis for axis, _ in self._mesh.axes if is_data_axis(axis))
            return tuple(self._mesh.coordinate(rank, axis) for axis in axes)

        if path or len({group(rank) for rank in hosted}) > 1:
            raise refused(
                ("runtime", "ablation", "disaggregation"),
                "false: each data-parallel group has a node of its own, which its first rank "
                "starts",
                allowed="processes that each host ranks of one group, without node=",
            )
        return [rank for rank in local if group(rank) == group(hosted[0])]

    def job_file(
        self,
        name: str,
        ranks: Sequence[int],
        options: core.RuntimeOptions,
        *,
        may_lack: bool = False,
    ) -> bytes:
        """A stream of the job as a node process is started with it; opens and indexes its data."""
        opened = check_stream(self._loaded, self.open_stream(name, may_lack=may_lack))
        for source in opened.sources:
            if not source.files_here:
                told = "no file of source %s is on this host: its loaders live on others"
                _LOG.warning(told, source.name)
        measured = loader_millicores(self._loaded, opened.sources)
        for cost in group_costs(self._loaded, opened.resolved, measured):
            warnings.warn(f"overlord: {cost}", UserWarning, stacklevel=4)
        return core.job_file(
            opened.native,
            list(ranks),
            options,
            worker_command(),
            self._loaded.journal_path,
            self._told(opened),
        )

    def _told(self, opened: OpenStream) -> dict[str, dict[str, Any]]:
        """What is known of the sources when the stream starts."""
        launch = find_launch()
        several = launch is not None and self.config.runtime.wire.planner is not None
        hosts = launch.hosts if launch is not None and several else 1
        return told_sources(self._loaded, opened, hosts=hosts, groups=self._mesh.data_size)

    def node_plan(self) -> NodePlan:
        """How the config wants the roles of a host dealt to processes."""
        placing = self.config.runtime.processes
        return NodePlan(
            loader_processes=placing.loaders,
            constructor_processes=placing.constructors,
            isolate=tuple(lists_of(placing.isolate)),
            isolate_by_rule=placing.isolate_by_rule,
            attach_seconds=placing.attach_seconds,
            recovery_seconds=placing.recovery_seconds,
            orphan_seconds=placing.orphan_seconds,
            metrics_socket=self.config.runtime.metrics.socket,
            metrics_port=self.config.runtime.metrics.port,
            share_batches=self.config.runtime.ablation.sharing,
            cores=node_cores(placing.cores_share),
            memory_bytes=given_memory(self.config.runtime),
        )

    def check_attachable(self, name: str, local: Sequence[int]) -> None:
        """What a node cannot do, said before one is started."""
        stream = self._resolve(name)
        check_memory_share(self._loaded, min(len(local), self._mesh.data_size))
        names = dict.fromkeys(base_name(item) for item in stream.mixture.source_names())
        if (threaded := thread_problem(self._loaded, list(names))) is not None:
            raise self._loaded.refuse(threaded)
        several = len(local) < len(self.readers)
        if not several or self.config.runtime.wire.planner is not None:
            return
        advice = "set runtime.wire.planner to the address of rank 0's host"
        if stream.mixture.metric_driven:
            why = "a mixture that follows losses needs one planner that hears every report"
            raise self._loaded.refused((*stream.path_of("mixture"), "schedule"), why, advice=advice)
        if self._functions:
            why = "functions of your own need one planner that asks them for all ranks"
            raise self._loaded.refused(("strategy",), why, advice=advice)

    def served_file(
        self, name: str, ranks: Sequence[int], hash_batches: bool, *, may_lack: bool = False
    ) -> bytes:
        """job_file() for a node that is started beside the trainers."""
        mixture = resolve_stream(self.config, name).mixture
        options = lowering.lower_runtime(
            self.config.runtime,
            hash_batches=hash_batches,
            reporters=lowering.reporting_ranks(mixture, self._mesh),
        )
        return self.job_file(name, ranks, options, may_lack=may_lack)

    def check_under_ray(self) -> None:
        """What the engine ray needs of a config and cannot carry."""
        if self.config.runtime.wire.planner is None:
            raise self._loaded.refused(
                ("runtime", "wire", "planner"),
                "under Ray ranks find the keeper by this address",
                advice="set it to HOST:PORT of a node of the cluster",
            )
        if self.config.runtime.wire.in_turn:
            raise self._loaded.refused(
                ("runtime", "wire", "planner"),
                "Ray runs the keeper again on its own node, and no other takes over",
                list(self.config.runtime.wire.addresses),
                "one address",
                'use engine="processes" and `overlord serve` on each of them',
            )
        if not self.config.runtime.ablation.disaggregation:
            raise self._loaded.refused(
                ("runtime", "ablation", "disaggregation"),
                "each data-parallel group would have a node that leads, and Ray keeps one",
                False,
                advice='use engine="processes", or set it to true',
            )

    def keeper_place(self, stream: str, hash_batches: bool) -> KeeperPlace:
        """Where the keeper that Ray runs serves the ranks of its own host."""
        # Not under $XDG_RUNTIME_DIR, which Ray may not have.
        base = self._loaded.base / (self.config.runtime.processes.directory or "/tmp")
        return KeeperPlace.of(self.agreed_key(stream, hash_batches), base)

    def lead_of(self, stream: str, addresses: str | None = None) -> str:
        """Where a stream is led, of a job at these addresses, or at those of the config."""
        lead = addresses or self.config.runtime.wire.lead
        assert lead is not None
        return addresses_of_stream(lead, self.streams.index(self._resolve(stream).name))

    def leading_plan(self, stream: str) -> NodePlan:
        """Of the node that a keeper under Ray runs; which ranks share its host is seen there."""
        words = self._wire_words(stream, None, leads=True)
        return replace(self.node_plan(), stays=True, reruns=True, wire=words)

    def turn_plan(self, stream: str, at: str) -> NodePlan:
        """Of one of several hosts that may lead, which is called at this address then."""
        check_memory_share(self._loaded, 0)  # it has no constructors
        plan = self.leading_plan(stream)
        return replace(plan, wire=[*plan.wire, f"wire.at={self.lead_of(stream, at)}"])

    def joining_plan(self, stream: str, lead: str, host: str | None = None) -> NodePlan:
        """Of a host without ranks, and its lead; reached as `host` unless the config says how."""
        check_memory_share(self._loaded, 0)  # it has no constructors
        words = [*self._wire_words(stream, lead, leads=False, host=host), "wire.joined=1"]
        return replace(self.node_plan(), stays=True, joins=True, wire=words)

    def _wire_words(
        self, stream: str, lead: str | None, *, leads: bool, host: str | None = None
    ) -> list[str]:
        return wire_words(self._loaded, self.lead_of(stream, lead), leads=leads, host=host)

    def agreed_key(self, name: str, hash_batches: bool) -> str:
        """What the ranks that share a node must agree on, as a digest."""
        config = self.config.model_dump(mode="json", exclude={"runtime"})
        told = [config, str(self._loaded.base), self._mesh.axes, name, hash_batches]
        return _digest(told)

    def plan(self, step: int = 0, stream: str = TRAIN) -> Any:
        """The plan of a step, from metadata alone: what `ol.strategy.loader_do_plan` takes."""
        from overlord._src.plan_view.readable import plan_of

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
        from overlord._src.plan_view.duties import summarise

        return summarise(self.open_stream(stream), step, fields, rows)

    def _dealing(self) -> str:
        delivery = self.config.delivery
        text = f"microbatch_size={delivery.microbatch_size},fill_empty={int(delivery.fill_empty)}"
        if self.config.strategy is None:
            return text
        return f"{text},strategy={strategy_digest(self.config.strategy)}"

    def _hosted(self, rank: Any, ranks: Any) -> tuple[bool, list[int]]:
        """Whether one loader is wanted, and the ranks that live in this process."""
        if rank is not None and ranks is not None:
            raise refused(("ranks",), "rank and ranks are both given", advice="give one")
        several = ranks if ranks is not None else rank if not isinstance(rank, int | None) else None
        if several is None:
            own = self._own_rank() if rank is None else self._mesh.check_rank(rank)
            check_reads(self.config, self._mesh, [own])
            return True, [own]
        hosted = self.readers if several == "all" else list(several)
        check_reads(self.config, self._mesh, [self._mesh.check_rank(item) for item in hosted])
        if not hosted or len(set(hosted)) != len(hosted):
            raise refused(
                ("ranks",),
                "needs each rank once, and at least one",
                hosted,
                f"0 to {self._mesh.world_size - 1}, or 'all'",
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
        raise refused(
            ("rank",),
            f"needed on a mesh of {self._mesh.world_size} ranks",
            allowed=f"0 to {self._mesh.world_size - 1}",
            advice='pass rank=, use ol.mesh.from_env(), or host all with ranks="all"',
        )


# What `help` and editors show of `train` and `valid`: the options one by one, as `stream` has them.
_shown = inspect.signature(Job.stream)
_shown = _shown.replace(parameters=[p for p in _shown.parameters.values() if p.name != "name"])
_asked: tuple[Any, ...] = (Job.train, Job.valid)
for _method in _asked:
    _method.__signature__ = _shown


def _digest(told: Any) -> str:
    text = json.dumps(told, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


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
