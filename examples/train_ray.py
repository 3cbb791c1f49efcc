"""A small model trained by Ray Train, fed by a keeper and loaders in the same Ray cluster.

    pip install "overlord-data[ray]" "ray[train]" torch
    python examples/train_ray.py --workers 2 --loader-hosts 1

Ray Train's workers are the ranks of the job. `ol.ray.launch` has Ray place the keeper, which plans
and leads, and hosts that run loaders; workers find the keeper by the address in the config and read
with `engine="ray"`, without a word to Ray. No batch goes through Ray. On a cluster of several
machines (RAY_ADDRESS) the config needs `runtime.wire` with certificates and a token.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

try:
    import ray
    import ray.train.torch
    import yaml
except ImportError as error:
    sys.exit(
        f"this example trains with Ray Train ({error}):\n    {sys.executable} -m pip install "
        '"ray[train]" torch'
    )

import overlord as ol


def train(told: dict[str, Any]) -> None:
    """What every worker runs: its rank's part of each step. Ray carries the function there."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional

    torch.set_num_threads(1)
    torch.manual_seed(1)
    job = ol.job(told["config"], mesh=ol.mesh.from_env())
    loader = job.train(engine="ray")
    words = job.config.vocabulary  # each is guessed from the one before it
    model = nn.Sequential(
        nn.Embedding(words, 32), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, words)
    )
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for batches in loader.steps():
        total = torch.zeros(())
        for batch in batches:
            fields = batch.torch()
            losses = functional.cross_entropy(
                model(fields["tokens"].long()).flatten(0, 1),
                fields["targets"].long().flatten(),
                reduction="none",
            )
            loss = (losses * fields["loss_weights"].flatten()).sum() / batch.step_target_tokens
            loss.backward()
            total += loss.detach()
        for parameter in model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
        dist.all_reduce(total)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            with open(told["losses"], "a") as file:
                file.write(json.dumps({"step": batches[0].step, "loss": float(total)}) + "\n")
    loader.close()


def prepare_config(args: argparse.Namespace) -> Path:
    """A small corpus, and a job over it that says where its keeper is."""
    if not (args.folder / "mix.yaml").exists():
        command = [sys.executable, "-m", "overlord", "init", str(args.folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    config = yaml.safe_load((args.folder / "mix.yaml").read_text())
    config |= {"job": "train-ray", "context": 128, "bins": 8, "steps": args.steps}
    config["runtime"] = {"wire": {"planner": args.planner, "host": args.planner.split(":")[0]}}
    path = args.folder / "ray.yaml"
    path.write_text(yaml.safe_dump(config))
    return path.resolve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("tiny-ray"), help="data and losses")
    parser.add_argument("--workers", type=int, default=2, help="ranks")
    parser.add_argument("--loader-hosts", type=int, default=0, help="nodes that run loaders")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--planner", default="127.0.0.1:7400", help="where the keeper leads")
    args = parser.parse_args()
    config = prepare_config(args)
    losses = args.folder.resolve() / "losses.json"
    losses.unlink(missing_ok=True)
    # A cluster of its own is to have room on a laptop too: these are no cores, but what Ray counts.
    own = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": 4 + args.workers + args.loader_hosts}
    ray.init(log_to_driver=False, **own)
    # Wherever Ray Train puts the workers: on the keeper's host they share memory with it.
    launched = ol.ray.launch(config, mesh=ol.mesh(dp=args.workers), loader_hosts=args.loader_hosts)
    print(f"the keeper leads at {launched.address}; {launched.status()['note'] or 'all is kept'}")
    try:
        trainer = ray.train.torch.TorchTrainer(
            train,
            train_loop_config={"config": str(config), "losses": str(losses)},
            torch_config=ray.train.torch.TorchConfig(backend="gloo"),
            scaling_config=ray.train.ScalingConfig(
                num_workers=args.workers, resources_per_worker={"CPU": 0.5}
            ),
            run_config=ray.train.RunConfig(storage_path=str(args.folder.resolve() / "results")),
        )
        trainer.fit()
    finally:
        launched.close()
    for line in losses.read_text().splitlines():
        print("step {step:4d}  loss {loss:.4f}".format(**json.loads(line)))


if __name__ == "__main__":
    main()
