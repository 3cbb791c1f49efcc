"""Overlord's native engine. The public face is the package overlord."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

from overlord import (
    BadDataError as BadDataError,
    BudgetExceededError as BudgetExceededError,
    CancelledError as CancelledError,
    DeadlineError as DeadlineError,
    InternalError as InternalError,
    InvalidArgumentError as InvalidArgumentError,
    NotFoundError as NotFoundError,
    OutOfRangeError as OutOfRangeError,
    OverlordError as OverlordError,
    ResourceError as ResourceError,
    SourceChangedError as SourceChangedError,
    StateMismatchError as StateMismatchError,
    UnavailableError as UnavailableError,
    UserFunctionError as UserFunctionError,
    VersionMismatchError as VersionMismatchError
)


arrow_version: str = '25.0.1'

def set_leak_warnings(value: bool) -> None:
    """
    Whether objects of this module that are alive when Python is gone are told on stderr.
    """

class Source:
    """One dataset: a name, files, columns and policies."""

    def __init__(self, values: dict | None = None) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def format(self) -> str: ...

    @property
    def files(self) -> list[str]: ...

    @property
    def text_column(self) -> str: ...

    @property
    def token_column(self) -> str: ...

    @property
    def mask_column(self) -> str: ...

    @property
    def metadata_columns(self) -> list[str]: ...

    @property
    def filter(self) -> dict | None: ...

    @property
    def media(self) -> list: ...

    @property
    def tokenizer(self) -> dict: ...

    @property
    def bos(self) -> int | None: ...

    @property
    def eod(self) -> int | None: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def shuffle(self) -> str: ...

    @property
    def window_rows(self) -> int: ...

    @property
    def window_bytes(self) -> int: ...

    @property
    def at_end(self) -> str: ...

    @property
    def over_length(self) -> str: ...

    @property
    def bad_rows_allowed(self) -> int: ...

    @property
    def allow_duplicates(self) -> bool: ...

    @property
    def limits(self) -> dict: ...

    @property
    def loaders(self) -> int: ...

    @property
    def workers(self) -> int: ...

    @property
    def count_bytes(self) -> bool: ...

    @property
    def transform(self) -> dict: ...

    @property
    def decode_at(self) -> str: ...

    @property
    def schema(self) -> dict: ...

    @property
    def empty(self) -> str: ...

    @property
    def shadows(self) -> int: ...

    @property
    def shadow(self) -> str: ...

    @property
    def most_loaders(self) -> int: ...

    @property
    def measured(self) -> dict: ...

    @property
    def files_here(self) -> bool: ...

    @property
    def part(self) -> dict | None: ...

    @property
    def groups(self) -> dict: ...

    @property
    def raw(self) -> dict: ...

    FIELDS: tuple = ...

class Strategy:
    """How the bins of a step are dealt to consumers."""

    def __init__(self, values: dict | None = None) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def axis(self) -> str: ...

    @property
    def group_size(self) -> int: ...

    @property
    def has_cost(self) -> bool: ...

    @property
    def cost(self) -> dict: ...

    @property
    def further_costs(self) -> list: ...

    @property
    def balance(self) -> str: ...

    @property
    def level(self) -> str: ...

    @property
    def atoms(self) -> str: ...

    @property
    def microbatch_tokens(self) -> int: ...

    @property
    def memory_limit(self) -> int: ...

    @property
    def order(self) -> str: ...

    @property
    def virtual_stages(self) -> int: ...

    @property
    def backward_permille(self) -> int: ...

    @property
    def hdp(self) -> dict: ...

    @property
    def encoder(self) -> dict | None: ...

    @property
    def cost_by(self) -> dict: ...

    @property
    def balance_by(self) -> dict: ...

    @property
    def plan_by(self) -> dict: ...

    FIELDS: tuple = ...

class JobSpec:
    """Everything that decides what a step holds."""

    def __init__(self, values: dict | None = None) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def stream(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def context(self) -> int: ...

    @property
    def bins(self) -> int: ...

    @property
    def substeps(self) -> int: ...

    @property
    def align(self) -> int: ...

    @property
    def pad_token(self) -> int: ...

    @property
    def max_steps(self) -> int: ...

    @property
    def leftover(self) -> str: ...

    @property
    def packing(self) -> dict: ...

    @property
    def window(self) -> dict: ...

    @property
    def mixture(self) -> dict: ...

    @property
    def strategy(self) -> dict: ...

    @property
    def sources(self) -> list: ...

    @property
    def columns(self) -> list[str]: ...

    @property
    def batch_transform(self) -> dict: ...

    @property
    def later_bins(self) -> list: ...

    FIELDS: tuple = ...

class RuntimeOptions:
    """Sizes and limits; they never change the stream."""

    def __init__(self, values: dict | None = None) -> None: ...

    @property
    def threads(self) -> int: ...

    @property
    def io_threads(self) -> int: ...

    @property
    def prefetch_steps(self) -> int: ...

    @property
    def runway(self) -> int: ...

    @property
    def payload_budget_bytes(self) -> int: ...

    @property
    def constructor_budget_bytes(self) -> int: ...

    @property
    def private_copy_limit_bytes(self) -> int: ...

    @property
    def open_files(self) -> int: ...

    @property
    def tokenizer_processes(self) -> int: ...

    @property
    def alarm_ms(self) -> int: ...

    @property
    def hash_batches(self) -> bool: ...

    @property
    def reporters(self) -> list[int]: ...

    @property
    def one_planner(self) -> bool: ...

    @property
    def scaling(self) -> dict: ...

    FIELDS: tuple = ...

class DeliverySpec:
    """Places and shapes of what the trainer receives."""

    def __init__(self, values: dict | None = None) -> None: ...

    @property
    def microbatch_size(self) -> int: ...

    @property
    def fill_empty(self) -> bool: ...

    @property
    def slicing(self) -> str: ...

    @property
    def token_type(self) -> str: ...

    @property
    def weight_type(self) -> str: ...

    @property
    def all_stages(self) -> bool: ...

    @property
    def broadcast_axes(self) -> list[str]: ...

    FIELDS: tuple = ...

class Mesh:
    """The trainer's ranks as named axes, slowest first."""

    def __init__(self, axes: Sequence[tuple[str, int]]) -> None: ...

    @property
    def world_size(self) -> int: ...

    @property
    def axes(self) -> list[tuple[str, int]]: ...

    def size(self, axis: str) -> int: ...

    def coordinate(self, rank: int, axis: str) -> int: ...

    def text(self) -> str: ...

def media_use(kind: str, transform: str, places: Sequence[str]) -> dict:
    """
    How blobs of a field travel with their documents, transformed; without tokens of their own.
    """

def strategy_digest(strategy: Strategy) -> str:
    """32 hex digits over all that decides a placement."""

def ranks_served(mesh: Mesh, broadcast_axes: Sequence[str], all_stages: bool, payload: bool) -> list[int]:
    """
    Ranks that get something of a microbatch; payload: more than where documents end.
    """

WEIGHT_ONE: int = 4294967296

class EncoderPart:
    """One rank's part in an encoder, for one microbatch."""

    @property
    def module(self) -> str: ...

    @property
    def encoder(self) -> int: ...

    @property
    def encoders(self) -> int: ...

    @property
    def runs(self) -> bool: ...

    @property
    def receives(self) -> bool: ...

    @property
    def dummy(self) -> bool: ...

    @property
    def bytes_per_unit(self) -> int: ...

    @property
    def group(self) -> object: ...

    @property
    def samples(self) -> object:
        """int64 [samples, 6]: source, pass, position, part, first, units."""

    @property
    def send_order(self) -> object: ...

    @property
    def send_samples(self) -> object: ...

    @property
    def send_units(self) -> object: ...

    @property
    def received(self) -> object:
        """As `samples`."""

    @property
    def documents(self) -> object: ...

    @property
    def receive_order(self) -> object: ...

    @property
    def receive_samples(self) -> object: ...

    @property
    def receive_units(self) -> object: ...

class Microbatch:
    """One microbatch as one rank sees it; read-only views."""

    @property
    def step(self) -> int: ...

    @property
    def microbatch(self) -> int: ...

    @property
    def microbatches(self) -> int: ...

    @property
    def last_in_step(self) -> bool: ...

    @property
    def tokens(self) -> object: ...

    @property
    def targets(self) -> object: ...

    @property
    def loss_weights(self) -> object: ...

    @property
    def positions(self) -> object: ...

    @property
    def cu_seqlens(self) -> object: ...

    @property
    def cu_seqlens_padded(self) -> object: ...

    @property
    def max_seqlen(self) -> int: ...

    @property
    def num_docs(self) -> int: ...

    @property
    def num_tokens(self) -> int: ...

    @property
    def target_tokens(self) -> int: ...

    @property
    def step_target_tokens(self) -> int: ...

    @property
    def fill(self) -> float: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def encoder(self) -> EncoderPart: ...

    @property
    def digest(self) -> str: ...

    def hdp(self) -> object:
        """Its group and this rank's share; None without slices."""

    def encoded_media(self) -> dict:
        """
        As media(), of what this rank encodes; document: the place among its samples.
        """

    def media(self) -> dict:
        """
        By field: (rows or None, int64 [items, 8]: document, first token, tokens, first row, rows, t, h, w).
        """

    def token_index(self, slicing: str) -> object:
        """
        int64 [rows, columns]: where each token of the slice stands in the whole microbatch.
        """

    def lineage(self) -> object:
        """
        int64 [documents, 7]: source, pass, position, first, count, bin, flags.
        """

class Plan:
    """The immutable assignment of segments to bins for one step."""

    @property
    def step(self) -> int: ...

    @property
    def tokens(self) -> int: ...

    @property
    def target_tokens(self) -> int: ...

    @property
    def capacity(self) -> int: ...

    @property
    def last(self) -> bool: ...

    @property
    def max_delay(self) -> int: ...

    @property
    def delays(self) -> list[int]: ...

    @property
    def debts(self) -> list[float]:
        """Per source: units asked and not drawn yet, after the step."""

    @property
    def asked(self) -> list[int]: ...

    @property
    def served(self) -> list[int]: ...

    @property
    def content_hash(self) -> str: ...

    @property
    def plan_hash(self) -> str: ...

    @property
    def carried(self) -> int: ...

    @property
    def microbatches(self) -> int: ...

    def bins(self) -> list[list[tuple[int, int, int, int, int, int, int]]]:
        """
        Per bin: (source, pass, position, first, count, targets, flags) of each segment.
        """

    def placement(self) -> list[tuple[int, int, int]]:
        """Per bin: (bucket, microbatch, slot)."""

    def columns(self) -> dict:
        """int64 arrays, one value per segment in bin order."""

    def report(self) -> object:
        """
        How even the layer is and could be, in nanoseconds of its cost model; None without one.
        """

    def hdp(self) -> object:
        """Groups of ranks and their sequences; None without slices."""

    def further_reports(self) -> list:
        """As `report`, one for each further cost of a vector balance."""

    def encoder(self) -> object:
        """
        The encoder's layer: columns, report, dummies, exchanges; None without one.
        """

    def views(self) -> list:
        """Per rank: what it sees of a microbatch."""

def loader_do_plan(plan: Plan, source: int) -> list:
    """Per bucket: the segments of one source in reading order."""

def constructor_do_plan(plan: Plan, bucket: int) -> dict:
    """The segments of one bucket in the order of its rows."""

def cost_evaluate(model: dict, columns: dict) -> tuple:
    """(nanoseconds, bytes) of every row under a cost model given as a dict."""

def cost_transformer(shape: dict) -> dict:
    """A cost model from a shape, as a dict."""

def cost_vit(shape: dict) -> dict:
    """A cost model from an encoder's shape, as a dict."""

def cost_preset(name: str, layers: int = 0, tp: int = 1, pp: int = 1) -> dict:
    """A named cost model as a dict; 0 layers are all of them."""

def cost_presets() -> list:
    """Shape, coefficients and errors of every preset."""

def pipeline_order(costs: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', writable=False)], stages: int, method: str, virtual_stages: int = 1, backward_permille: int = 2000) -> dict:
    """
    Order the microbatches of one pipeline under 1F1B: order, makespan, lower_bound, kept_makespan and the seconds it took. `costs` are forward times on a stage.
    """

def hdp_plan(lengths: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', writable=False)], ranks: int, model: dict, targets: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', writable=False)], stages: int, offload: bool, balance: str, method: str, powers_of_two: bool, align: int, max_microbatches: int, check: bool) -> dict:
    """
    Plan one step of hybrid data parallelism; groups are flat arrays in global order.
    """

def hdp_model(name: str) -> dict:
    """A measured cost model by name."""

def hdp_slices(length: int, members: int, align: int) -> object:
    """
    Per member of a group: first and count of its low chunk, then of its high chunk.
    """

def balance(costs: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], bins: int, method: str = 'lpt_search', sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, size_limit: int = 0, equal_count: bool = False) -> dict:
    """
    Put atoms with these costs onto bins; `bin_of` is 2**32 - 1 for atoms that are `left`.
    """

def partition(sources: list, room: dict) -> dict:
    """
    Sizes of the loaders of all sources, from what their rows cost: sizes (loaders, workers, cluster, reason, loader_bytes), free_cores, memory_bytes and step_ns.
    """

class IndexTask:
    """Indexing of one source, in threads of its own."""

    def __init__(self, source: Source, path: str, lengths: bool, threads: int, worker_command: Sequence[str], others: Sequence[str] = []) -> None: ...

    def wait(self, timeout_s: float) -> bool: ...

    def cancel(self) -> None: ...

    def progress(self) -> dict: ...

def index_key(source: Source, patterns: Sequence[str]) -> str:
    """What the name of a source's index has beside the source's."""

def index_info(path: str, source: Source) -> dict:
    """What an index file says of its source."""

def read_media(path: str, source: Source, row: int) -> dict:
    """
    Bytes of a row's media by name, read through the index; absent ones are left out, fields with many are lists.
    """

def list_files(pattern: str) -> list[str]:
    """A glob as sorted URIs."""

def read_file(uri: str, most_bytes: int) -> bytes:
    """All of a file or object that has no more bytes than that."""

def expand_braces(pattern: str) -> list[str]:
    """The patterns that one with braces stands for."""

def index_columns(path: str, source: Source) -> dict:
    """
    What an index keeps by row: `lengths` in tokens (None: not known; `bad` where the row is bad), and by media field the sizes in bytes (`absent`: none) and what the probe found.
    """

def length_counts(path: str, source: Source, limits: Sequence[int]) -> dict | None:
    """
    Documents of a source by the lengths its index has, with bos and eod: how many, their tokens, the longest, and documents and tokens of those `above` each limit; None: lengths are not known.
    """

class RuleDesk:
    """Where the planner asks a mixing rule of the user's."""

    def take(self, timeout_s: float) -> tuple[int, tuple[int, list[tuple[int, int, int]], list[int]]] | None:
        """
        A step, its (source, loss sum in 2**-12, tokens) and the newest weights.
        """

    def answer(self, step: int, weights: Sequence[int]) -> None:
        """Weights of all sources, in units of 2**-32."""

    def fail(self, step: int, wrong: str) -> None:
        """The rule has no answer that can be used."""

    def close(self) -> None: ...

    @property
    def closed(self) -> bool: ...

class CalloutDesk:
    """Where the planner leaves its questions to Python functions."""

    def take(self, timeout_s: float) -> tuple[int, dict] | None:
        """
        The next question and its number; None after timeout_s, or when it is closed.
        """

    def answer(self, number: int, values: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Costs of samples, or seats of bins."""

    def fail(self, number: int, wrong: str) -> None:
        """The function has no answer that can be used."""

    def close(self) -> None: ...

    @property
    def closed(self) -> bool: ...

class TransformDesk:
    """Where transforms of lane thread find their batches."""

    def __init__(self) -> None: ...

    def take(self, timeout_s: float) -> tuple[int, str, list[str | bytes]] | None:
        """
        The next batch: its number, name@version of the function, texts, or one frame of bytes where the function is given microbatches. None after timeout_s, or when it is closed.
        """

    def answer(self, number: int, bytes: bytes) -> None:
        """An answer as a worker would send it, less its head."""

    def fail(self, number: int, wrong: str) -> None:
        """The function has no answer that can be used."""

    def close(self) -> None: ...

    @property
    def closed(self) -> bool: ...

class PlanCursor:
    """Plans one after another, from metadata alone."""

    def next(self) -> Plan | None: ...

    def seek(self, step: int) -> None: ...

    def weights(self) -> list[int]:
        """
        By source: the mixture's weights at the last plan's step; 0 where it gives no more.
        """

    def graph(self) -> object:
        """
        Edges, costs and metadata columns of the graph that the last plan was read out of; None before it.
        """

    def samples(self, plan: Plan, source: int | None, conditions: Sequence[tuple[str, str, int]]) -> object:
        """
        Rows of the last plan's columns that belong to a source and meet conditions like ('image_patches', '>', 0).
        """

    def report(self, step: int, losses: Sequence[tuple[int, int, int]]) -> None:
        """
        Feedback of a planned step, complete: (source, loss sum in 2**-12, tokens).
        """

    def state(self) -> bytes: ...

class Job:
    """A job whose manifest is frozen."""

    def __init__(self, spec: JobSpec, delivery: DeliverySpec, mesh: Mesh, index_paths: Sequence[str]) -> None: ...

    @property
    def config_digest(self) -> str: ...

    @property
    def manifest_digest(self) -> str: ...

    def section_digests(self) -> dict: ...

    def changed_data(self, state: bytes) -> dict[str, str]:
        """
        Sources whose data are not those of an encoded state, with advice or nothing.
        """

    def open(self, ranks: Sequence[int], options: RuntimeOptions, state: bytes | None, worker_command: Sequence[str], allow_mixture: bool = False, allow_sources: bool = False, allow_batch: bool = False, journal_path: str = '', pinning: HostPinning | None = None, transforms: TransformDesk | None = None, told: Mapping[str, dict] = {}) -> Engine: ...

    def planner(self, state: bytes | None, worker_command: Sequence[str], call: object | None = None, place: bool = True) -> PlanCursor:
        """
        Plans from a state on. `call` answers for Python functions; without `place` steps stay in arrival order.
        """

    def locate(self, source: int, pass_: int, position: int) -> dict: ...

    def read_row(self, source: int, row: int, worker_command: Sequence[str]) -> dict: ...

class Engine:
    """All roles of a job in this process."""

    def client(self, rank: int) -> Client: ...

    def status(self) -> dict: ...

    def quarantine(self) -> list: ...

    def close(self) -> None: ...

    def rebuild(self, axes: Sequence[tuple[str, int]], step: int | None, ranks: Sequence[int]) -> int:
        """
        Plan for another mesh, or other ranks, from a step on; the step from which it holds.
        """

    def resize(self, source: int, slots: int) -> None:
        """From some window on, that many slots of a source."""

    def tree_of(self, tree: int) -> tuple[list[tuple[str, int]], list[int]]:
        """
        Of a later tree: the axes of its mesh, slowest first, and its ranks; none: all.
        """

    @property
    def ranks(self) -> list[int]: ...

    @property
    def rule(self) -> RuleDesk: ...

    @property
    def callouts(self) -> CalloutDesk: ...

    def rank_hash(self, rank: int) -> str: ...

    def plan_chain(self) -> str: ...

    def content_hash(self) -> str: ...

    def stream_hash(self) -> str: ...

class Place:
    """Where a rank stood; lives without its engine."""

    @property
    def next_step(self) -> int: ...

    @property
    def microbatch(self) -> int:
        """Microbatches of the next step that were returned already."""

    @property
    def tree(self) -> int:
        """Version of the tree of what was returned last; 1: the job's own mesh."""

    @property
    def totals(self) -> dict:
        """
        What the steps that are finished there held: sequences, samples, tokens.
        """

    def state(self, timeout_s: float = 0.0) -> bytes:
        """The resume state of this place."""

class Client:
    """One rank's end of an engine."""

    def next(self, timeout_s: float) -> Microbatch:
        """
        The next microbatch, or None at the end; DeadlineError after timeout_s.
        """

    def state(self, timeout_s: float = 0.0) -> bytes:
        """Resume state after what next() has returned."""

    def report(self, step: int, losses: Sequence[tuple[int, int, int]]) -> str:
        """
        Report (source, loss sum in 2**-12, tokens) of a consumed step; gives the verdict.
        """

    @property
    def wait_ns(self) -> int:
        """How long next() has waited so far."""

    def place(self) -> Place:
        """Where the rank stands after what next() has returned."""

    @property
    def rank(self) -> int: ...

def describe_state(state: bytes) -> dict:
    """The readable part of an encoded resume state."""

def bound_state(state: bytes, layout: str) -> bytes:
    """An encoded resume state, bound to a layout where it is inside a step."""

def combine_stream_hash(plan_chain: str, rank_hashes: Sequence[str]) -> str: ...

def media_codecs() -> list:
    """
    Codecs of this build: name, made_by, package, version, present, fingerprint.
    """

def probe_image(bytes: bytes) -> dict:
    """What the headers say, without decoding."""

def decode_image(bytes: bytes, options: str = '') -> object:
    """
    8-bit RGB as stored, height x width x 3. Options as in a chain: "alpha=drop".
    """

def run_image_chain(bytes: bytes, chain: str, key: int = 0) -> tuple:
    """(array, geometry) of a chain in its text form."""

class ImageChain:
    """A prepared chain; may be used by many threads at once."""

    def __init__(self, text: str) -> None: ...

    @property
    def text(self) -> str:
        """The text form with every value named."""

    def run(self, bytes: bytes, key: int = 0) -> tuple:
        """(array, geometry)"""

    def planned_size(self, bytes: bytes) -> dict:
        """The geometry that run() will deliver, from the header alone."""

def mrope_positions(tokens: int, spans: Sequence[tuple[int, int, int, int]]) -> object:
    """3 x tokens positions; spans are (start, t, h, w) in tokens."""

def probe_audio(bytes: bytes) -> dict:
    """What the headers say, without decoding."""

def decode_audio(bytes: bytes, options: str = '') -> object:
    """float32, samples x channels. Options as in a chain: "max_seconds=60"."""

def run_audio_chain(bytes: bytes, chain: str, key: int = 0) -> tuple:
    """(array, geometry) of a chain in its text form."""

class AudioChain:
    """A prepared chain; may be used by many threads at once."""

    def __init__(self, text: str) -> None: ...

    @property
    def text(self) -> str:
        """The text form with every value named."""

    def run(self, bytes: bytes, key: int = 0) -> tuple:
        """(array, geometry)"""

    def planned_size(self, bytes: bytes) -> dict:
        """The geometry that run() will deliver, from the header alone."""

def probe_video(bytes: bytes) -> dict:
    """What the headers say, without decoding."""

def decode_video(bytes: bytes, options: str = '') -> object:
    """
    Every frame, 8-bit RGB as stored, frames x height x width x 3. Options as in a chain: "threads=2".
    """

def run_video_chain(bytes: bytes, chain: str, key: int = 0) -> tuple:
    """(array, geometry) of a chain in its text form."""

class VideoChain:
    """A prepared chain; may be used by many threads at once."""

    def __init__(self, text: str) -> None: ...

    @property
    def text(self) -> str:
        """The text form with every value named."""

    def run(self, bytes: bytes, key: int = 0) -> tuple:
        """(array, geometry)"""

    def planned_size(self, bytes: bytes) -> dict:
        """The geometry that run() will deliver, from the header alone."""

def encode_jpeg(pixels: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], quality: int = 90) -> bytes:
    """
    height x width x 3 (RGB) or x 1 (grey), uint8, as a baseline JPEG file.
    """

def journal_plans(path: str) -> list[tuple[int, str, str]]:
    """
    Step, content hash and plan hash of every plan in a journal, in the order of writing.
    """

def look_at_journal(folder: str) -> dict:
    """
    What a journal folder tells, and from where on a planner that reads it plans again.
    """

OPENINGS_PER_START: int = 65536

class SocketDirectory:
    """Where the processes of one job on this host meet."""

    def __init__(self, job: str, base: str = '') -> None: ...

    @staticmethod
    def at(path: str) -> SocketDirectory:
        """Made where it is not there."""

    @property
    def path(self) -> str: ...

    def try_lock(self) -> bool: ...

    def take_over(self) -> bool: ...

    @property
    def lock_descriptor(self) -> int: ...

    def hand_over_lock(self) -> None: ...

    def remove(self) -> None: ...

class AttachedEngine(Engine):
    """The trainer's end of a node on this host."""

    def node_status(self, timeout_s: float = 2.0) -> dict: ...

    @property
    def held_bytes(self) -> int: ...

    @property
    def source_names(self) -> list[str]: ...

class HostPinning:
    """Registers memory with a CUDA device."""

def cuda_pinning(device: int) -> HostPinning:
    """
    Who pins memory for a CUDA device; an error that says why where nobody can.
    """

def job_file(job: Job, ranks: Sequence[int], options: RuntimeOptions, worker_command: Sequence[str], journal_path: str = '', told: Mapping[str, dict] = {}) -> bytes:
    """
    The job as a node process is started with it; told: ToldSource by name.
    """

def attach(directory: str, job: str, attempt: int, ranks: Sequence[int], state: bytes | None, allow_mixture: bool, allow_sources: bool, allow_batch: bool, wire: Sequence[str], connect_s: float, timeout_s: float, recovery_s: float = 0.0, pinning: HostPinning | None = None) -> AttachedEngine:
    """
    Attach ranks to the node in a directory; waits until it serves. None: nobody is there.
    """

def refusal(error: str, text: str) -> bytes:
    """
    What a node that waits for its job is sent instead: the name of an error, and its text.
    """

def place_processes(sources: Sequence[tuple[str, int, int, int, int, bool]], buckets: int, loader_processes: int, constructor_processes: int, isolate: Sequence[Sequence[str]], isolate_by_rule: bool = True, hosts: Sequence[tuple[str, int, bool, Sequence[str]]] = []) -> dict:
    """
    Processes with their roles, and hosts of those that may move, with the reason of each; of (name, loaders, workers, shadows, measured millicores, runs Python) and (name, cores, has ranks, sources on its disks).
    """

def choose_decoding(job: Job, hosts: Sequence[tuple[str, int, bool, Sequence[str]]], buckets: int, decoding: Mapping[str, int]) -> list:
    """
    Who decodes the media of each source that has some, and why; of the hosts of place_processes, and the thousandths of a core that decoding keeps busy.
    """

def ask_node(directory: str, timeout_s: float = 2.0) -> dict:
    """What the node in a directory does."""

def node_metrics(directory: str, timeout_s: float = 2.0) -> str:
    """The same as Prometheus text."""

class StoredFiles:
    """Files of the disk or the store that serves a URI."""

    def __init__(self, uri: str) -> None: ...

    def below(self, folder: str, most: int) -> list[tuple[str, int]]:
        """
        URI and size of all files below a folder, sorted; the folder ends with a slash.
        """

    def size(self, uri: str) -> int: ...

    def read(self, uri: str, offset: int, size: int) -> bytes: ...
