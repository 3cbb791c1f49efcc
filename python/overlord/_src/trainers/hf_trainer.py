"""TrainerMixin: a job's stream under the Trainer of transformers, and those that derive from it.

What a Trainer does with a loader, and what is done about it:

- it re-shards what `accelerator.prepare` gets: loaders are returned unprepared;
- on resume it reads and drops what was trained: it is told not to, and the stream begins at its
  state, which lies in the checkpoint's trainer_state.json;
- it pulls a whole step before it computes: the state that is saved is the one after the last step
  that the optimizer finished, by its number;
- it counts targets to normalise the loss: the step's own count, over all ranks, is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from overlord._src.config.streams import TRAIN
from overlord._src.errors import refused
from overlord._src.job.job import Job
from overlord._src.loader.loader import Loader
from overlord._src.trainers.counts import microbatches_of, steps_of

_KEY = "Overlord"  # in the states of callbacks that trainer_state.json holds


class TrainerMixin:
    """Before a Trainer: `class OurTrainer(ol.hf.TrainerMixin, transformers.Trainer): ...`.

    `data` is the job: its stream `train` is trained, and its other streams are there for evaluation
    by their names (`eval_dataset="valid"`). `gradient_accumulation_steps` and `max_steps` come from
    it. `allow` is that of `Loader.load_state_dict` on resume.
    """

    def __init__(self, *words: Any, data: Job, allow: tuple[str, ...] = (), **more: Any) -> None:
        parent: Any = super()
        found = [word for word in (*words, more.get("args")) if hasattr(word, "max_grad_norm")]
        if not found or not hasattr(parent, "get_batch_samples"):
            raise refused(
                ("args",),
                "this trainer was given no TrainingArguments, or is older than what counts the "
                "targets of a step",
                advice="pass args=TrainingArguments(...), with transformers 4.46 or newer",
            )
        _fit(found[0], data)
        self.data = data
        self.loaders: dict[str, Loader] = {}  # by stream
        self._allow = allow
        self._last: Any = None  # the batch that was pulled last
        self._first_step = 0  # of the stream, at global_step 0
        self._start: dict[str, Any] = {}
        if hasattr(parent, "_prepare_dataset"):
            more = _without_preparation(found[0], more)
        parent.__init__(*words, **more)
        this: Any = self
        if not this.model_accepts_loss_kwargs and this.compute_loss_func is None:
            raise refused(
                ("model",),
                f"the loss of {type(this.model).__name__} takes no num_items_in_batch: means of "
                "microbatches with unequal targets are not the mean of the step",
                advice="pass compute_loss_func, which gets it",
            )
        this.add_callback(_callback(this))

    def _loader(self, stream: str) -> Loader:
        if stream not in self.loaders:
            self.loaders[stream] = self.data.stream(stream)
        return self.loaders[stream]

    def _inputs(self, stream: str) -> Iterator[dict[str, Any]]:
        this: Any = self
        for batch in self._loader(stream):
            if stream == TRAIN:
                self._last = batch
            inputs = batch.model_inputs("hf", model=this.model)
            inputs.pop("num_items_in_batch", None)  # the trainer passes it where it is taken
            yield inputs

    def get_train_dataloader(self) -> Any:
        """The stream as it is: nobody shards it again, nobody skips in it."""
        if TRAIN in self.loaders:  # of a training that did not come to its end
            self.loaders.pop(TRAIN).close()
        return _Inputs(self, TRAIN)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Another stream of the job, from its start."""
        this: Any = self
        name = next((n for n in (eval_dataset, this.eval_dataset) if isinstance(n, str)), "valid")
        return _Inputs(self, name)

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, *_: Any) -> tuple[Any, Any]:
        """The microbatches of the next step, and its targets over all ranks."""
        this: Any = self
        samples = list(islice(epoch_iterator, num_batches))
        if not samples:
            return samples, None
        if not self._last.last_in_step or self._last.microbatches != num_batches:
            raise refused(
                ("args", "gradient_accumulation_steps"),
                f"step {self._last.step} has {self._last.microbatches} microbatches",
                num_batches,
                advice="leave it to the trainer, which takes it from the job",
            )
        counted = max(self._last.step_target_tokens, 1)
        if not getattr(this.args, "average_tokens_across_devices", False):
            counted = counted / this.accelerator.num_processes
        return samples, counted

    def _save_checkpoint(self, *words: Any, **more: Any) -> None:
        this: Any = self
        parent: Any = super()
        saved = {"args": {}, "attributes": {"state": self._state_after(this.state.global_step)}}
        this.state.stateful_callbacks[_KEY] = saved
        parent._save_checkpoint(*words, **more)

    def _state_after(self, finished: int) -> dict[str, Any]:
        """The state after so many optimizer steps, whatever was pulled since."""
        step = self._first_step + finished - 1
        if step < self._start["step"]:
            return self._start
        return self._loader(TRAIN).state_dict(step=step)

    def _begin(self, state: Any) -> None:
        """Stand where the checkpoint says, before anything is read."""
        loader = self._loader(TRAIN)
        saved = (state.stateful_callbacks or {}).get(_KEY)
        if saved is not None:
            loader.load_state_dict(saved["attributes"]["state"], self._allow)
        elif state.global_step:
            raise refused(
                ("resume_from_checkpoint",),
                f"the checkpoint of step {state.global_step} does not say where the stream stood",
                advice="resume from one that this trainer saved, or load the model alone "
                "and train from step 0",
            )
        self._start = loader.state_dict()
        self._first_step = self._start["step"] - state.global_step

    def _end(self) -> None:
        self._last = None
        self.loaders.pop(TRAIN).close()


class _Inputs:
    """What the Trainer takes for a data loader: iterable, without a length."""

    def __init__(self, trainer: TrainerMixin, stream: str) -> None:
        self._trainer = trainer
        self._stream = stream

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._trainer._inputs(self._stream)


def _callback(trainer: Any) -> Any:
    from transformers import TrainerCallback

    class OverlordCallback(TrainerCallback):  # type: ignore[misc]
        """Begins and ends with the trainer, and sees that checkpoints have the state."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trainer._begin(state)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if _KEY not in state.stateful_callbacks:
                raise RuntimeError(
                    "the checkpoint was saved without the state of the stream: this version of "
                    "transformers saves in another way than through Trainer._save_checkpoint"
                )

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trainer._end()

    return OverlordCallback()


def _fit(args: Any, job: Job) -> None:
    """Arguments that the job decides."""
    count, steps = microbatches_of(job), steps_of(job)
    if args.n_gpu > 1:
        raise refused(
            ("args", "n_gpu"),
            "one process cannot feed several devices",
            args.n_gpu,
            "1",
            "start a process per device, with torchrun",
        )
    if args.gradient_accumulation_steps not in (1, count):
        raise refused(
            ("args", "gradient_accumulation_steps"),
            "a step of this job has another number of microbatches on this mesh",
            args.gradient_accumulation_steps,
            str(count),
            "leave it out, so that it follows when the number of ranks changes",
        )
    if args.max_steps <= 0 and steps is None:
        raise refused(
            ("args", "max_steps"),
            "neither they nor the job say how long to train",
            args.max_steps,
            "1 or more",
            "set it, or `steps` in the config: epochs are those of the mixture",
        )
    args.gradient_accumulation_steps = count
    args.max_steps = args.max_steps if args.max_steps > 0 else steps
    args.ignore_data_skip = True


def _without_preparation(args: Any, more: dict[str, Any]) -> dict[str, Any]:
    """TRL's trainers want a dataset, to prepare it: they get an empty word and leave it alone."""
    from datasets import Dataset
    from transformers import default_data_collator

    args.dataset_kwargs = {**(args.dataset_kwargs or {}), "skip_prepare_dataset": True}
    nothing = Dataset.from_dict({"input_ids": [[0]], "labels": [[-100]]})
    return {"train_dataset": nothing, "data_collator": default_data_collator, **more}
