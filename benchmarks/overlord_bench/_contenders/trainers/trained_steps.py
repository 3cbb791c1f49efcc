"""A trainer over a Llama, fed by Overlord and by DataLoaders in turn: seconds of a step of each.

All of them in one process: every run begins with the same weights and has the same tokens, and its
last loss says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from overlord_bench._contenders.trainers import feeds
from overlord_bench._contenders.trainers.models import (
    alone,
    llama,
    quietly,
    threads_for,
    wait_for,
)

RATE = 0.01


class Clock:
    """Told of every step's end, it knows what those behind the first ones took."""

    def __init__(self, work: dict[str, Any]) -> None:
        self._work = work
        self._done = 0
        self._began = self.seconds = 0.0

    def stepped(self) -> None:
        """A step has ended."""
        self._done += 1
        if self._done == self._work["warmup"]:
            wait_for(self._work["device"])
            self._began = time.perf_counter()
        elif self._done == feeds.steps_of(self._work):
            wait_for(self._work["device"])
            self.seconds = (time.perf_counter() - self._began) / self._work["steps"]


Run = Callable[[int | None, Clock], None]


def _loop(work: dict[str, Any], model: Any, inner: Any, rows: feeds.Rows) -> Run:
    """A loop of one's own; `inner` is what the inputs are made for."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def run(workers: int | None, clock: Clock) -> None:
        given = feeds.ours(work, inner) if workers is None else feeds.theirs(work, rows, workers)
        for inputs in given:
            model(**inputs).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            clock.stepped()

    return run


def _ddp(work: dict[str, Any], model: Any, rows: feeds.Rows) -> Run:
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    return _loop(work, wrapped, model, rows)


def _fsdp2(work: dict[str, Any], model: Any, rows: feeds.Rows) -> Run:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(work["device"], (1,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return _loop(work, model, model, rows)


def _hf(work: dict[str, Any], model: Any, rows: feeds.Rows) -> Run:
    """Trainer of transformers, its own DataLoader in the order of the rows."""
    import transformers
    from torch.utils.data import SequentialSampler

    import overlord as ol

    class Timed(transformers.TrainerCallback):  # type: ignore[misc]
        def __init__(self, clock: Clock) -> None:
            self._clock = clock

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self._clock.stepped()

    class Usual(transformers.Trainer):  # type: ignore[misc]
        def _get_train_sampler(self, *_: Any) -> Any:
            return SequentialSampler(rows)

    class Ours(ol.hf.TrainerMixin, transformers.Trainer):  # type: ignore[misc]
        pass

    def run(workers: int | None, clock: Clock) -> None:
        args = transformers.TrainingArguments(
            output_dir=work["folder"] + "/hf",
            max_steps=feeds.steps_of(work),
            per_device_train_batch_size=work["bins"],
            dataloader_num_workers=workers or 0,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            optim="sgd",
            max_grad_norm=0,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            use_cpu=work["device"] == "cpu",
            disable_tqdm=True,
        )
        timed = [Timed(clock)]
        if workers is None:
            trainer = Ours(model, args, data=ol.job(feeds.config_of(work)), callbacks=timed)
        else:
            trainer = Usual(model, args, train_dataset=rows, callbacks=timed)
        trainer.train()

    return run


_TRAINERS = {"ddp": _ddp, "fsdp2": _fsdp2, "hf": _hf}


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a step by feed, one for every round; the order is turned from round to round."""
    threads_for(work["device"])
    until = time.perf_counter() + work["limit_s"]
    model = llama(work["model"], work["vocabulary"], work["context"], work["device"])
    losses: list[Any] = [None]

    def note(_: Any, __: Any, output: Any) -> None:
        losses[0] = output.loss.detach()

    model.register_forward_hook(note)
    with alone(work["device"]), quietly():
        run = _TRAINERS[work["trainer"]](work, model, feeds.packed(work, model))
        start = [parameter.detach().clone() for parameter in model.parameters()]
        kinds = feeds.feeds_of(work)
        seconds: dict[str, list[float]] = {name: [] for name in kinds}
        last: dict[str, float] = {}
        for turn in range(work["rounds"]):
            if turn and time.perf_counter() > until:
                break
            for name in kinds if turn % 2 == 0 else reversed(list(kinds)):
                with torch.no_grad():
                    for parameter, kept in zip(model.parameters(), start, strict=True):
                        parameter.copy_(kept)
                model.train()
                clock = Clock(work)
                run(kinds[name], clock)
                seconds[name].append(clock.seconds)
                last[name] = float(losses[0])
    _same(last, 1e-2 if work["device"] == "cuda" else 1e-5)
    return {"version": torch.__version__, "step_s": seconds, "last_loss": last[feeds.OURS]}


def _same(last: dict[str, float], tolerance: float) -> None:
    """All have trained on the same tokens."""
    ours = last[feeds.OURS]
    if any(abs(loss - ours) > tolerance * abs(ours) for loss in last.values()):
        raise AssertionError(f"the last losses differ, so these did not see the same: {last}")
