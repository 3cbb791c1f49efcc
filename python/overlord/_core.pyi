"""Overlord's native engine. The public face is the package overlord."""

from collections.abc import Sequence
import enum
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

class BalanceMethod(enum.Enum):
    arrival = 0

    greedy = 1

    lpt = 2

    lpt_search = 3

    karmarkar_karp = 4

    zigzag = 5

    vector = 6

class BalanceLevel(enum.Enum):
    bucket = 0

    bin = 1

    interleaved = 2

class Atoms(enum.Enum):
    sequences = 0

    samples = 1

    slices = 2

class OrderMethod(enum.Enum):
    keep = 0

    ascending = 1

    descending = 2

    small_ends = 3

    search = 4

class EncoderStrategy:
    """A module whose samples have other owners."""

    def __init__(self) -> None: ...

    @property
    def module(self) -> str: ...

    @module.setter
    def module(self, arg: str, /) -> None: ...

    @property
    def axis(self) -> str: ...

    @axis.setter
    def axis(self, arg: str, /) -> None: ...

    @property
    def group_size(self) -> int: ...

    @group_size.setter
    def group_size(self, arg: int, /) -> None: ...

    @property
    def column(self) -> str: ...

    @column.setter
    def column(self, arg: str, /) -> None: ...

    @property
    def balance(self) -> BalanceMethod: ...

    @balance.setter
    def balance(self, arg: BalanceMethod, /) -> None: ...

    @property
    def parity(self) -> bool: ...

    @parity.setter
    def parity(self, arg: bool, /) -> None: ...

    @property
    def bytes_per_unit(self) -> int: ...

    @bytes_per_unit.setter
    def bytes_per_unit(self, arg: int, /) -> None: ...

    def set_cost(self, model: dict) -> None:
        """The cost of a sample's units, as a cost model's data."""

class Strategy:
    """How the bins of a step are dealt to consumers."""

    def __init__(self) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def axis(self) -> str: ...

    @axis.setter
    def axis(self, arg: str, /) -> None: ...

    @property
    def group_size(self) -> int: ...

    @group_size.setter
    def group_size(self, arg: int, /) -> None: ...

    @property
    def balance(self) -> BalanceMethod: ...

    @balance.setter
    def balance(self, arg: BalanceMethod, /) -> None: ...

    @property
    def level(self) -> BalanceLevel: ...

    @level.setter
    def level(self, arg: BalanceLevel, /) -> None: ...

    @property
    def atoms(self) -> Atoms: ...

    @atoms.setter
    def atoms(self, arg: Atoms, /) -> None: ...

    @property
    def microbatch_tokens(self) -> int: ...

    @microbatch_tokens.setter
    def microbatch_tokens(self, arg: int, /) -> None: ...

    @property
    def memory_limit(self) -> int: ...

    @memory_limit.setter
    def memory_limit(self, arg: int, /) -> None: ...

    @property
    def order(self) -> OrderMethod: ...

    @order.setter
    def order(self, arg: OrderMethod, /) -> None: ...

    @property
    def virtual_stages(self) -> int: ...

    @virtual_stages.setter
    def virtual_stages(self, arg: int, /) -> None: ...

    @property
    def backward_permille(self) -> int: ...

    @backward_permille.setter
    def backward_permille(self, arg: int, /) -> None: ...

    def set_cost(self, model: dict) -> None:
        """The cost of a sample, as a cost model's data."""

    def set_hybrid(self, hybrid: dict) -> None:
        """
        Deal slices: model, method, balance (None: by stages), offload, powers_of_two, max_microbatches.
        """

    @property
    def encoder(self) -> EncoderStrategy | None: ...

    @encoder.setter
    def encoder(self, arg: EncoderStrategy | None, /) -> None: ...

    def add_cost(self, model: dict) -> None:
        """A further cost that a vector balance evens out too."""

    def set_cost_function(self, name: str, version: str, scale: int) -> None:
        """The cost of a sample is what a Python function says."""

    def set_balance_function(self, name: str, version: str) -> None:
        """Bins go where a Python function says."""

    def set_plan_function(self, name: str, version: str) -> None:
        """Bins go where a Python function says that knows their samples."""

def strategy_digest(strategy: Strategy) -> str:
    """32 hex digits over all that decides a placement."""

class Format(enum.Enum):
    parquet = 0

    jsonl = 1

    megatron = 2

    webdataset = 3

    arrow = 4

class Shuffle(enum.Enum):
    none = 0

    window = 1

    full = 2

class DecodeAt(enum.Enum):
    auto = 0

    loader = 1

    constructor = 2

class EndPolicy(enum.Enum):
    repeat = 0

    drop = 1

    stop = 2

class OverLength(enum.Enum):
    split = 0

    truncate = 1

    drop = 2

class TokenizerKind(enum.Enum):
    none = 0

    bytes = 1

    huggingface = 2

class MixUnit(enum.Enum):
    tokens = 0

    samples = 1

    bytes = 2

class Ramp(enum.Enum):
    none = 0

    linear = 1

    cosine = 2

class Grain(enum.Enum):
    step = 0

    substep = 1

    epoch = 2

class ControllerKind(enum.Enum):
    none = 0

    odm = 1

    ado = 2

    rule = 3

class Quota(enum.Enum):
    exact = 0

    multinomial = 1

class Packing(enum.Enum):
    best_fit = 0

    concat = 1

    pad = 2

class Leftover(enum.Enum):
    drain = 0

    drop = 1

class Slicing(enum.Enum):
    trainer = 0

    sequence_zigzag = 1

    document_zigzag = 2

    contiguous = 3

class TokenType(enum.Enum):
    uint16 = 0

    int32 = 1

    int64 = 2

class WeightType(enum.Enum):
    uint8 = 0

    float32 = 1

class Tokenizer:
    """How a source's text becomes tokens."""

    def __init__(self) -> None: ...

    @property
    def kind(self) -> TokenizerKind: ...

    @kind.setter
    def kind(self, arg: TokenizerKind, /) -> None: ...

    @property
    def path(self) -> str: ...

    @path.setter
    def path(self, arg: str, /) -> None: ...

    @property
    def digest(self) -> str: ...

    @digest.setter
    def digest(self, arg: str, /) -> None: ...

    @property
    def add_special_tokens(self) -> bool: ...

    @add_special_tokens.setter
    def add_special_tokens(self, arg: bool, /) -> None: ...

    @property
    def chat(self) -> str: ...

    @chat.setter
    def chat(self, arg: str, /) -> None: ...

class RowText(enum.Enum):
    column = 0

    record = 1

    interleaved = 2

class RowSchema:
    """How text is made of more than one column."""

    def __init__(self) -> None: ...

    @property
    def text(self) -> RowText: ...

    @text.setter
    def text(self, arg: RowText, /) -> None: ...

    @property
    def columns(self) -> list[str]: ...

    @columns.setter
    def columns(self, arg: Sequence[str], /) -> None: ...

    @property
    def required(self) -> int: ...

    @required.setter
    def required(self, arg: int, /) -> None: ...

    @property
    def expected(self) -> int: ...

    @expected.setter
    def expected(self, arg: int, /) -> None: ...

    @property
    def marker(self) -> str: ...

    @marker.setter
    def marker(self, arg: str, /) -> None: ...

    @property
    def separator(self) -> str: ...

    @separator.setter
    def separator(self, arg: str, /) -> None: ...

    @property
    def masked(self) -> bool: ...

    @masked.setter
    def masked(self, arg: bool, /) -> None: ...

class Lane(enum.Enum):
    process = 0

    thread = 1

class Transform:
    """A user's own Python over the rows of a source, or over its media."""

    def __init__(self) -> None: ...

    @property
    def function(self) -> str: ...

    @function.setter
    def function(self, arg: str, /) -> None: ...

    @property
    def version(self) -> str: ...

    @version.setter
    def version(self, arg: str, /) -> None: ...

    @property
    def lane(self) -> Lane: ...

    @lane.setter
    def lane(self, arg: Lane, /) -> None: ...

    @property
    def command(self) -> list[str]: ...

    @command.setter
    def command(self, arg: Sequence[str], /) -> None: ...

    @property
    def workers(self) -> int: ...

    @workers.setter
    def workers(self, arg: int, /) -> None: ...

    @property
    def batch_rows(self) -> int: ...

    @batch_rows.setter
    def batch_rows(self, arg: int, /) -> None: ...

    @property
    def deadline_ms(self) -> int: ...

    @deadline_ms.setter
    def deadline_ms(self, arg: int, /) -> None: ...

    @property
    def memory_bytes(self) -> int: ...

    @memory_bytes.setter
    def memory_bytes(self, arg: int, /) -> None: ...

    @property
    def check_every(self) -> int: ...

    @check_every.setter
    def check_every(self, arg: int, /) -> None: ...

    @property
    def key(self) -> str: ...

class SourceLimits:
    """What one bad file or row may cost."""

    def __init__(self) -> None: ...

    @property
    def max_document_bytes(self) -> int: ...

    @max_document_bytes.setter
    def max_document_bytes(self, arg: int, /) -> None: ...

    @property
    def max_block_bytes(self) -> int: ...

    @max_block_bytes.setter
    def max_block_bytes(self, arg: int, /) -> None: ...

    @property
    def max_expansion(self) -> int: ...

    @max_expansion.setter
    def max_expansion(self, arg: int, /) -> None: ...

    @property
    def max_media_bytes(self) -> int: ...

    @max_media_bytes.setter
    def max_media_bytes(self, arg: int, /) -> None: ...

class Source:
    """One dataset: a name, files, columns and policies."""

    def __init__(self) -> None: ...

    def add_media(self, name: str, places: Sequence[str], many: bool = False) -> None: ...

    def use_media(self, kind: str, transform: str) -> None:
        """The field that was added last travels with its documents, transformed."""

    def place_media(self, pad: int, before: int | None, after: int | None, pads: int, units_per_pad: int, in_text: bool = False) -> None:
        """The tokens of the field that was used last."""

    def call_on_media(self, function: Transform) -> None:
        """What the field that was used last goes through after its chain."""

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def format(self) -> Format: ...

    @format.setter
    def format(self, arg: Format, /) -> None: ...

    @property
    def files(self) -> list[str]: ...

    @files.setter
    def files(self, arg: Sequence[str], /) -> None: ...

    @property
    def text_column(self) -> str: ...

    @text_column.setter
    def text_column(self, arg: str, /) -> None: ...

    @property
    def token_column(self) -> str: ...

    @token_column.setter
    def token_column(self, arg: str, /) -> None: ...

    @property
    def mask_column(self) -> str: ...

    @mask_column.setter
    def mask_column(self, arg: str, /) -> None: ...

    @property
    def metadata_columns(self) -> list[str]: ...

    @metadata_columns.setter
    def metadata_columns(self, arg: Sequence[str], /) -> None: ...

    def set_filter(self, column: str, least: int, most: int) -> None: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @tokenizer.setter
    def tokenizer(self, arg: Tokenizer, /) -> None: ...

    @property
    def bos(self) -> int | None: ...

    @bos.setter
    def bos(self, arg: int | None, /) -> None: ...

    @property
    def eod(self) -> int | None: ...

    @eod.setter
    def eod(self, arg: int | None, /) -> None: ...

    @property
    def vocabulary(self) -> int: ...

    @vocabulary.setter
    def vocabulary(self, arg: int, /) -> None: ...

    @property
    def shuffle(self) -> Shuffle: ...

    @shuffle.setter
    def shuffle(self, arg: Shuffle, /) -> None: ...

    @property
    def window_rows(self) -> int: ...

    @window_rows.setter
    def window_rows(self, arg: int, /) -> None: ...

    @property
    def window_bytes(self) -> int: ...

    @window_bytes.setter
    def window_bytes(self, arg: int, /) -> None: ...

    @property
    def at_end(self) -> EndPolicy: ...

    @at_end.setter
    def at_end(self, arg: EndPolicy, /) -> None: ...

    @property
    def over_length(self) -> OverLength: ...

    @over_length.setter
    def over_length(self, arg: OverLength, /) -> None: ...

    @property
    def bad_rows_allowed(self) -> int: ...

    @bad_rows_allowed.setter
    def bad_rows_allowed(self, arg: int, /) -> None: ...

    @property
    def allow_duplicates(self) -> bool: ...

    @allow_duplicates.setter
    def allow_duplicates(self, arg: bool, /) -> None: ...

    @property
    def limits(self) -> SourceLimits: ...

    @limits.setter
    def limits(self, arg: SourceLimits, /) -> None: ...

    @property
    def loaders(self) -> int: ...

    @loaders.setter
    def loaders(self, arg: int, /) -> None: ...

    @property
    def workers(self) -> int: ...

    @workers.setter
    def workers(self, arg: int, /) -> None: ...

    @property
    def count_bytes(self) -> bool: ...

    @count_bytes.setter
    def count_bytes(self, arg: bool, /) -> None: ...

    @property
    def transform(self) -> Transform: ...

    @transform.setter
    def transform(self, arg: Transform, /) -> None: ...

    @property
    def decode_at(self) -> DecodeAt: ...

    @decode_at.setter
    def decode_at(self, arg: DecodeAt, /) -> None: ...

    @property
    def schema(self) -> RowSchema: ...

    @schema.setter
    def schema(self, arg: RowSchema, /) -> None: ...

class MixtureStage:
    """Weights that hold from a step on."""

    def __init__(self) -> None: ...

    @property
    def first_step(self) -> int: ...

    @first_step.setter
    def first_step(self, arg: int, /) -> None: ...

    @property
    def weights(self) -> list[int]: ...

    @weights.setter
    def weights(self, arg: Sequence[int], /) -> None: ...

    @property
    def ramp(self) -> Ramp: ...

    @ramp.setter
    def ramp(self, arg: Ramp, /) -> None: ...

    @property
    def ramp_steps(self) -> int: ...

    @ramp_steps.setter
    def ramp_steps(self, arg: int, /) -> None: ...

class ControllerSpec:
    """How reported losses move the weights."""

    def __init__(self) -> None: ...

    @property
    def kind(self) -> ControllerKind: ...

    @kind.setter
    def kind(self, arg: ControllerKind, /) -> None: ...

    @property
    def delay(self) -> int: ...

    @delay.setter
    def delay(self, arg: int, /) -> None: ...

    @property
    def smoothing(self) -> int: ...

    @smoothing.setter
    def smoothing(self, arg: int, /) -> None: ...

    @property
    def history_rate(self) -> int: ...

    @history_rate.setter
    def history_rate(self, arg: int, /) -> None: ...

    @property
    def follow_rate(self) -> int: ...

    @follow_rate.setter
    def follow_rate(self, arg: int, /) -> None: ...

    @property
    def history_exponent(self) -> int: ...

    @history_exponent.setter
    def history_exponent(self, arg: int, /) -> None: ...

    @property
    def floor(self) -> int: ...

    @floor.setter
    def floor(self, arg: int, /) -> None: ...

    @property
    def fit_every(self) -> int: ...

    @fit_every.setter
    def fit_every(self, arg: int, /) -> None: ...

    @property
    def fit_after(self) -> int: ...

    @fit_after.setter
    def fit_after(self, arg: int, /) -> None: ...

    @property
    def rule_version(self) -> int: ...

    @rule_version.setter
    def rule_version(self, arg: int, /) -> None: ...

class Mixture:
    """How much of each source a step asks for."""

    def __init__(self) -> None: ...

    @property
    def unit(self) -> MixUnit: ...

    @unit.setter
    def unit(self, arg: MixUnit, /) -> None: ...

    @property
    def quota(self) -> Quota: ...

    @quota.setter
    def quota(self, arg: Quota, /) -> None: ...

    @property
    def stages(self) -> list[MixtureStage]: ...

    @stages.setter
    def stages(self, arg: Sequence[MixtureStage], /) -> None: ...

    @property
    def version(self) -> int: ...

    @version.setter
    def version(self, arg: int, /) -> None: ...

    @property
    def grain(self) -> Grain: ...

    @grain.setter
    def grain(self, arg: Grain, /) -> None: ...

    @property
    def epoch_steps(self) -> int: ...

    @epoch_steps.setter
    def epoch_steps(self, arg: int, /) -> None: ...

    @property
    def epoch_source(self) -> int: ...

    @epoch_source.setter
    def epoch_source(self, arg: int, /) -> None: ...

    @property
    def max_passes(self) -> list[int]: ...

    @max_passes.setter
    def max_passes(self, arg: Sequence[int], /) -> None: ...

    @property
    def controller(self) -> ControllerSpec: ...

    @controller.setter
    def controller(self, arg: ControllerSpec, /) -> None: ...

class PackingSpec:
    """How documents fill the bins of a step."""

    def __init__(self) -> None: ...

    @property
    def method(self) -> Packing: ...

    @method.setter
    def method(self, arg: Packing, /) -> None: ...

    @property
    def slack_permille(self) -> int: ...

    @slack_permille.setter
    def slack_permille(self, arg: int, /) -> None: ...

    @property
    def max_delay_steps(self) -> int: ...

    @max_delay_steps.setter
    def max_delay_steps(self, arg: int, /) -> None: ...

class WindowSpec:
    """Steps whose bins are dealt anew among each other."""

    def __init__(self) -> None: ...

    @property
    def steps(self) -> int: ...

    @steps.setter
    def steps(self, arg: int, /) -> None: ...

    @property
    def max_delay(self) -> int: ...

    @max_delay.setter
    def max_delay(self, arg: int, /) -> None: ...

    @property
    def width(self) -> int: ...

    @width.setter
    def width(self, arg: int, /) -> None: ...

    def set_cost(self, model: dict) -> None: ...

class JobSpec:
    """Everything that decides what a step holds."""

    def __init__(self) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def stream(self) -> str: ...

    @stream.setter
    def stream(self, arg: str, /) -> None: ...

    @property
    def seed(self) -> int: ...

    @seed.setter
    def seed(self, arg: int, /) -> None: ...

    @property
    def context(self) -> int: ...

    @context.setter
    def context(self, arg: int, /) -> None: ...

    @property
    def bins(self) -> int: ...

    @bins.setter
    def bins(self, arg: int, /) -> None: ...

    @property
    def substeps(self) -> int: ...

    @substeps.setter
    def substeps(self, arg: int, /) -> None: ...

    @property
    def align(self) -> int: ...

    @align.setter
    def align(self, arg: int, /) -> None: ...

    @property
    def pad_token(self) -> int: ...

    @pad_token.setter
    def pad_token(self, arg: int, /) -> None: ...

    @property
    def max_steps(self) -> int: ...

    @max_steps.setter
    def max_steps(self, arg: int, /) -> None: ...

    @property
    def leftover(self) -> Leftover: ...

    @leftover.setter
    def leftover(self, arg: Leftover, /) -> None: ...

    @property
    def packing(self) -> PackingSpec: ...

    @packing.setter
    def packing(self, arg: PackingSpec, /) -> None: ...

    @property
    def window(self) -> WindowSpec: ...

    @window.setter
    def window(self, arg: WindowSpec, /) -> None: ...

    @property
    def mixture(self) -> Mixture: ...

    @mixture.setter
    def mixture(self, arg: Mixture, /) -> None: ...

    @property
    def strategy(self) -> Strategy: ...

    @strategy.setter
    def strategy(self, arg: Strategy, /) -> None: ...

    @property
    def sources(self) -> list[Source]: ...

    @sources.setter
    def sources(self, arg: Sequence[Source], /) -> None: ...

    @property
    def columns(self) -> list[str]: ...

    @columns.setter
    def columns(self, arg: Sequence[str], /) -> None: ...

    @property
    def batch_transform(self) -> Transform: ...

    @batch_transform.setter
    def batch_transform(self, arg: Transform, /) -> None: ...

class RuntimeOptions:
    """Sizes and limits; they never change the stream."""

    def __init__(self) -> None: ...

    @property
    def threads(self) -> int: ...

    @threads.setter
    def threads(self, arg: int, /) -> None: ...

    @property
    def io_threads(self) -> int: ...

    @io_threads.setter
    def io_threads(self, arg: int, /) -> None: ...

    @property
    def prefetch_steps(self) -> int: ...

    @prefetch_steps.setter
    def prefetch_steps(self, arg: int, /) -> None: ...

    @property
    def runway(self) -> int: ...

    @runway.setter
    def runway(self, arg: int, /) -> None: ...

    @property
    def payload_budget_bytes(self) -> int: ...

    @payload_budget_bytes.setter
    def payload_budget_bytes(self, arg: int, /) -> None: ...

    @property
    def constructor_budget_bytes(self) -> int: ...

    @constructor_budget_bytes.setter
    def constructor_budget_bytes(self, arg: int, /) -> None: ...

    @property
    def private_copy_limit_bytes(self) -> int: ...

    @private_copy_limit_bytes.setter
    def private_copy_limit_bytes(self, arg: int, /) -> None: ...

    @property
    def open_files(self) -> int: ...

    @open_files.setter
    def open_files(self, arg: int, /) -> None: ...

    @property
    def tokenizer_processes(self) -> int: ...

    @tokenizer_processes.setter
    def tokenizer_processes(self, arg: int, /) -> None: ...

    @property
    def alarm_ms(self) -> int: ...

    @alarm_ms.setter
    def alarm_ms(self, arg: int, /) -> None: ...

    @property
    def hash_batches(self) -> bool: ...

    @hash_batches.setter
    def hash_batches(self, arg: bool, /) -> None: ...

    @property
    def reporters(self) -> list[int]: ...

    @reporters.setter
    def reporters(self, arg: Sequence[int], /) -> None: ...

class DeliverySpec:
    """Places and shapes of what the trainer receives."""

    def __init__(self) -> None: ...

    @property
    def microbatch_size(self) -> int: ...

    @microbatch_size.setter
    def microbatch_size(self, arg: int, /) -> None: ...

    @property
    def fill_empty(self) -> bool: ...

    @fill_empty.setter
    def fill_empty(self, arg: bool, /) -> None: ...

    @property
    def slicing(self) -> Slicing: ...

    @slicing.setter
    def slicing(self, arg: Slicing, /) -> None: ...

    @property
    def token_type(self) -> TokenType: ...

    @token_type.setter
    def token_type(self, arg: TokenType, /) -> None: ...

    @property
    def weight_type(self) -> WeightType: ...

    @weight_type.setter
    def weight_type(self, arg: WeightType, /) -> None: ...

    @property
    def all_stages(self) -> bool: ...

    @all_stages.setter
    def all_stages(self, arg: bool, /) -> None: ...

    @property
    def broadcast_axes(self) -> list[str]: ...

    @broadcast_axes.setter
    def broadcast_axes(self, arg: Sequence[str], /) -> None: ...

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

    def token_index(self, slicing: Slicing) -> object:
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

def pack_stats(lengths: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', writable=False)], context: int, bins: int, slack_permille: int, max_delay: int) -> dict:
    """
    Pack a stream of document lengths with best_fit and report fill, steps and delay.
    """

def hash_bytes(data: bytes) -> str:
    """XXH3-128 as 32 hex digits."""

def text_digest(data: bytes) -> str:
    """XXH3-128 as 32 hex digits."""

def loader_do_plan(plan: Plan, source: int) -> list:
    """Per bucket: the segments of one source in reading order."""

def constructor_do_plan(plan: Plan, bucket: int) -> dict:
    """The segments of one bucket in the order of its rows."""

def planning_times(lengths: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', writable=False)], sources: int, context: int, bins: int, mesh: Mesh, strategy: Strategy, steps: int, window: int) -> dict:
    """
    CPU milliseconds of whole plans over made-up metadata, one per step, and what is held.
    """

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

def pipeline_makespan(costs: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', writable=False)], stages: int, orders: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', writable=False)], virtual_stages: int = 1, backward_permille: int = 2000) -> list[int]:
    """Makespan under 1F1B of each order, a row of `orders`."""

def hdp_plan(lengths: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', writable=False)], ranks: int, model: dict, targets: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', writable=False)], stages: int, offload: bool, balance: str, method: str, powers_of_two: bool, align: int, max_microbatches: int, context: int, check: bool) -> dict:
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

def index_columns(path: str, source: Source) -> dict:
    """
    What an index keeps by row: `lengths` in tokens (None: not known; `bad` where the row is bad), and by media field the sizes in bytes (`absent`: none) and what the probe found.
    """

class CalloutDesk:
    """Where the planner leaves its questions to Python functions."""

    def __init__(self) -> None: ...

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

    def open(self, ranks: Sequence[int], options: RuntimeOptions, state: bytes | None, worker_command: Sequence[str], allow_mixture: bool = False, allow_sources: bool = False, journal_path: str = '', callouts: CalloutDesk | None = None, pinning: HostPinning | None = None, transforms: TransformDesk | None = None) -> Engine: ...

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

    def rebuild(self, axes: Sequence[tuple[str, int]], step: int | None) -> int:
        """Plan for another mesh from a step on; the step from which it holds."""

    def axes_of(self, tree: int) -> list[tuple[str, int]]:
        """Axes of a later tree's mesh, slowest first."""

    @property
    def ranks(self) -> list[int]: ...

    def rank_hash(self, rank: int) -> str: ...

    def plan_chain(self) -> str: ...

    def content_hash(self) -> str: ...

    def stream_hash(self) -> str: ...

class Client:
    """One rank's end of an engine."""

    def next(self, timeout_s: float) -> Microbatch:
        """
        The next microbatch, or None at the end; DeadlineError after timeout_s.
        """

    def state(self, timeout_s: float = 0.0) -> bytes:
        """Resume state after what next() has returned."""

    def report(self, step: int, losses: Sequence[tuple[int, int, int]], weights: Sequence[int] = []) -> str:
        """
        Report (source, loss sum in 2**-12, tokens) of a consumed step; gives the verdict.
        """

    @property
    def wait_ns(self) -> int:
        """How long next() has waited so far."""

    @property
    def tree(self) -> int:
        """
        Version of the tree of what next() returned last; 1: the job's own mesh.
        """

    @property
    def rank(self) -> int: ...

def describe_state(state: bytes) -> dict:
    """The readable part of an encoded resume state."""

def combine_stream_hash(plan_chain: str, rank_hashes: Sequence[str]) -> str: ...

def pictures_per_second(files: Sequence[bytes], side: int, whole_chain: bool, threads: int, seconds: float) -> tuple[float, int]:
    """
    (rate, checksum) of JPEGs to side x side RGB without a loader: libjpeg-turbo and a resize, or the chain of sources.
    """

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

def mix_stats(kind: ControllerKind, sources: int, steps: int) -> dict:
    """
    Milliseconds of each step of a metric-driven mixture, from feedback to quotas.
    """

class SocketDirectory:
    """Where the processes of one job on this host meet."""

    def __init__(self, job: str, base: str = '') -> None: ...

    @staticmethod
    def at(path: str) -> SocketDirectory:
        """Made where it is not there."""

    @property
    def path(self) -> str: ...

    def try_lock(self) -> bool: ...

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

def job_file(job: Job, ranks: Sequence[int], options: RuntimeOptions, worker_command: Sequence[str], journal_path: str = '') -> bytes:
    """The job as a node process is started with it."""

def attach(directory: str, job: str, attempt: int, ranks: Sequence[int], state: bytes | None, allow_mixture: bool, allow_sources: bool, wire: Sequence[str], connect_s: float, timeout_s: float, pinning: HostPinning | None = None) -> AttachedEngine:
    """Attach ranks to the node in a directory; waits until it serves."""

def place_processes(sources: Sequence[tuple[str, int]], buckets: int, loader_processes: int, constructor_processes: int, isolate: Sequence[str]) -> dict:
    """
    Processes with the number of their roles, and the reasons; sources are (name, loaders).
    """

def ask_node(directory: str, timeout_s: float = 2.0) -> dict:
    """What the node in a directory does."""

def node_metrics(directory: str, timeout_s: float = 2.0) -> str:
    """The same as Prometheus text."""
