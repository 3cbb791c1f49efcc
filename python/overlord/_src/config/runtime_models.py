"""The config's models of the running engine: sizes, processes, hosts, figures."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from overlord._src.config.field_types import (
    MIB,
    PROCESS_REASONS,
    Bytes,
    ConfigModel,
    Count32,
    FilePath,
    Processes,
    Slots,
    StepsAhead,
    Threads,
)


class ProcessesConfig(ConfigModel):
    """Which roles share a process where the ranks of a host share one set of readers."""

    loaders: Processes = Field(
        default=1, description="processes over which sources are dealt, besides isolated ones"
    )
    constructors: Annotated[int, PROCESS_REASONS] = Field(
        default=1,
        ge=0,
        le=256,
        description="processes over which data-parallel groups are dealt; 0: the loaders' own",
    )
    isolate: list[str | list[str]] = Field(
        default_factory=list,
        description="sources with a process of their own; those of a list share one",
    )
    isolate_by_rule: bool = Field(
        default=True,
        description="sources that run Python of yours live in a process apart from the others; one "
        "that costs as much as all others together, by the profiles of the run before, takes its "
        "part of `loaders`, where these are several",
    )
    shadow_costliest: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="so many sources get one shadow for each of their loader slots: those whose "
        "loaders worked most in the run before, by the profiles beside the indexes",
    )
    cores_share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="of the cores that the first rank may use, for the node and its processes",
    )
    memory_share: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="of the host's memory: budgets that add up to more are refused; absent: any",
    )
    attach_seconds: float = Field(
        default=300.0,
        gt=0,
        le=86_400,
        description="how long all ranks of a host may take to attach",
    )
    recovery_seconds: float = Field(
        default=60.0,
        ge=0,
        le=86_400,
        description="how long ranks wait for a node that died and is started again; 0: the job "
        "ends with its node, as it does where one node plans for several hosts and no other may",
    )
    orphan_seconds: float = Field(
        default=60.0,
        gt=0,
        le=86_400,
        description="how long loaders and constructors serve on without a node",
    )
    directory: str | None = Field(
        default=None,
        description="where the job's sockets lie; absent: XDG_RUNTIME_DIR, else /tmp",
    )


class AblationConfig(ConfigModel):
    """Parts of the design switched off, to measure what they are worth; the stream stays."""

    disaggregation: bool = Field(
        default=True,
        description="false: each data-parallel group of a host has loaders of its own, over all "
        "sources (engine processes)",
    )
    uniform_loaders: Slots | None = Field(
        default=None, description="loader slots of every source, instead of sources.NAME.loaders"
    )
    sharing: bool = Field(
        default=True, description="false: every rank fetches for itself (engine processes)"
    )


class MetricsConfig(ConfigModel):
    """Where the node of a host serves its figures, as Prometheus text; nowhere unless asked."""

    socket: bool = Field(
        default=False, description="HTTP at `metrics` in the node's directory, for you alone"
    )
    port: int | None = Field(
        default=None, ge=1, le=65535, description="on this port of 127.0.0.1, never beyond"
    )


class WireConfig(ConfigModel):
    """One planner and one set of readers for several hosts."""

    planner: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="HOST:PORT of the node that plans for all hosts: that of rank 0; further "
        "streams take the next ports; or a list of "
        "those of hosts without ranks (`overlord serve`), of which the first leads and the others "
        "take over; absent: every host has a node of its own, and they agree because nothing but "
        "the config enters",
    )
    host: str | None = Field(
        default=None, description="how other hosts reach this one; absent: its host name"
    )
    joinable: bool = Field(
        default=False,
        description="hosts without ranks may join (overlord serve --join): the node of rank 0 "
        "listens at `planner` also where all ranks are on one host",
    )
    certificate: str | None = Field(default=None, description="file: PEM of this host's chain")
    key: str | None = Field(default=None, description="file: PEM of its key, readable by you alone")
    authority: str | None = Field(default=None, description="file: PEM of who signs certificates")
    token: str | None = Field(
        default=None, description="env:NAME or file:PATH of the secret that all hosts share"
    )

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the job may be led from, in their order."""
        if self.planner is None:
            return ()
        return (self.planner,) if isinstance(self.planner, str) else tuple(self.planner)

    @property
    def lead(self) -> str | None:
        """The same as nodes are told it: with commas between."""
        return ",".join(self.addresses) or None

    @property
    def in_turn(self) -> bool:
        """Whether several hosts may lead, one after another; none of them has ranks."""
        return len(self.addresses) > 1


class ScalingConfig(ConfigModel):
    """Who says how many loaders read a source that may grow (`sources.NAME.most_loaders`)."""

    policy: Literal["off", "measured", "share"] = Field(
        default="measured",
        description="off: only `resize()`; measured: what reading the source keeps busy, and what "
        "the mixture asks of it now and soon; share: the moving average of its share alone",
    )
    advise_only: bool = Field(
        default=False, description="decisions are written to the journal, and not carried out"
    )
    interval_seconds: float = Field(
        default=1.0, ge=0.05, le=3600, description="how often it is looked at"
    )


class RuntimeConfig(ConfigModel):
    """Sizes and limits of the running engine; none of them changes a byte of the stream."""

    threads: Threads = Field(default=2, description="CPU pool: decoding, packing bytes, role loops")
    io_threads: Threads = Field(default=2, description="blocking storage calls")
    prefetch: StepsAhead = Field(
        default=3, description="steps a rank asks for ahead of the one it holds"
    )
    runway: StepsAhead = Field(
        default=4, description="plans published ahead of the slowest consumer"
    )
    payload_budget: Bytes = Field(
        default=256 * MIB, description="decoded blocks kept by all loaders"
    )
    constructor_budget: Bytes = Field(
        default=512 * MIB, description="batches built and not yet consumed, per data-parallel group"
    )
    private_copy_limit: Bytes = Field(
        default=1024 * MIB, description="batches held by the trainer beyond the pool"
    )
    open_files: Count32 = Field(default=64, description="open file handles kept")
    tokenizer_processes: Processes = Field(default=1, description="worker processes per tokenizer")
    alarm_seconds: float = Field(
        default=10.0, gt=0, le=86_400, description="a source later than this is named in the log"
    )
    scaling: ScalingConfig = Field(default_factory=ScalingConfig, description="loaders that grow")
    probe_seconds: float = Field(
        default=5.0,
        ge=0,
        le=3600,
        description="how long some rows of the sources may be read at the start, where sizes are "
        "`auto` and no run has left a profile of them; 0: they are not",
    )
    journal: FilePath | None = Field(
        default=None,
        description="folder of the planner's journal, which only you may write to; absent: in the "
        "node's directory, or in memory (engine embedded)",
    )
    processes: ProcessesConfig = Field(
        default_factory=ProcessesConfig, description="of engine processes"
    )
    wire: WireConfig = Field(default_factory=WireConfig, description="between hosts")
    metrics: MetricsConfig = Field(
        default_factory=MetricsConfig, description="figures of a node, served by itself"
    )
    ablation: AblationConfig = Field(
        default_factory=AblationConfig, description="for measurements: parts switched off"
    )
