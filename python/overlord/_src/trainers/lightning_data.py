"""DataModule: a job's streams under Lightning's Trainer.

What the Trainer does with a loader, and what is done about it:

- it fetches one batch more than it trains, and saves what a loader says of itself then: the loader
  is kept from it, and the state is that after the last optimizer step, by its number;
- it steps where the count of batches since the start is a multiple of `accumulate_grad_batches`,
  which is another one on another number of ranks: the count is set anew on resume;
- it divides losses by that number, and its strategies average gradients over ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lightning.pytorch import LightningDataModule

from overlord._src.config.streams import TRAIN
from overlord._src.job.job import Job
from overlord._src.loader.loader import Loader
from overlord._src.trainers.counts import microbatches_of


class DataModule(LightningDataModule):  # type: ignore[misc]
    """`trainer.fit(module, datamodule=ol.lightning.DataModule(job), ckpt_path=last)`.

    Batches are `ol.Microbatch`es on the device. `validate` names the stream for validation.
    """

    def __init__(self, job: Job, validate: str | None = None) -> None:
        super().__init__()
        self._job = job
        if validate is not None:  # else Lightning asks where the module validates
            self.val_dataloader = lambda: _Batches(lambda: iter(self._loader(validate)))
        self._count = microbatches_of(job)
        self._loaders: dict[str, Loader] = {}
        self._start: dict[str, Any] | None = None
        self._first_step = 0  # of the stream, at global_step 0

    @property
    def averaged_over(self) -> int:
        """By what the trainer divides a summed loss: ranks that average, times accumulation."""
        return int(self.trainer.world_size) * self._count

    def setup(self, stage: str) -> None:
        """Every step has the microbatches that the job gives it on this mesh."""
        if stage == "fit":
            self.trainer.accumulate_grad_batches = self._count

    def train_dataloader(self) -> Any:
        """The stream `train`, from where the checkpoint stood."""
        loader = self._loader(TRAIN)
        if self._start is not None:
            loader.load_state_dict(self._start)
            self._count_anew()
        self._start = loader.state_dict()
        self._first_step = self._start["step"] - self._finished()
        return _Batches(lambda: iter(loader))

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stood after the last optimizer step."""
        step = self._first_step + self._finished() - 1
        if self._start is None or step < self._start["step"]:
            return {"stream": self._start} if self._start is not None else {}
        return {"stream": self._loader(TRAIN).state_dict(step=step)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there when the loader is made."""
        self._start = state_dict["stream"]

    def teardown(self, stage: str) -> None:
        """End with the trainer."""
        while self._loaders:
            self._loaders.popitem()[1].close()

    def _loader(self, stream: str) -> Loader:
        if stream not in self._loaders:
            self._loaders[stream] = self._job.stream(stream)
        return self._loaders[stream]

    def _finished(self) -> int:
        return int(self.trainer.global_step) // max(len(self.trainer.optimizers), 1)

    def _count_anew(self) -> None:
        """Batches so far are the steps so far, on this number of ranks."""
        progress = self.trainer.fit_loop.epoch_loop.batch_progress
        unfinished = progress.total.processed - progress.total.completed
        batches = self._finished() * self._count
        progress.current.ready = progress.current.started = progress.current.processed = batches
        progress.current.completed = batches - unfinished


class _Batches:
    """What the Trainer takes for a data loader: it has no state that Lightning could save."""

    def __init__(self, batches: Callable[[], Iterator[Any]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches()
