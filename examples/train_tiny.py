"""A small GPT on the CPU, with data and tensor parallelism, that resumes on another mesh.

    .venv/bin/pip install torch  # once; brings torchrun
    torchrun --nproc-per-node 4 examples/train_tiny.py --tp 2
    torchrun --nproc-per-node 2 examples/train_tiny.py --tp 1 --resume tiny/step-20.pt --steps 40

The four trainers of the first line attach to one node process, which reads the sources once; tensor
parallel peers look at the same pages. A checkpoint holds model, optimizer and the place in the
stream, all without a trace of the mesh, so the second line goes on with half the ranks and gives
the losses that the first would have given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    from torch import Tensor, nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.nn import functional
except ModuleNotFoundError as error:
    sys.exit(
        f"this example trains with PyTorch ({error}). Install it where Overlord is "
        f"installed, which brings torchrun as well:\n    {sys.executable} -m pip install torch"
    )

import overlord as ol


class CopyToPeers(torch.autograd.Function):
    """Every peer reads the same activations; their gradients add up."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class SumOverPeers(torch.autograd.Function):
    """Every peer has computed a part of a sum."""

    @staticmethod
    def forward(ctx, x, group):
        x = x.contiguous().clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Block(nn.Module):
    """Attention heads and the hidden layer are split over the tensor parallel peers."""

    def __init__(self, width: int, heads: int, tp) -> None:
        super().__init__()
        self.tp = tp.get_group()
        self.heads = heads // tp.size()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        mine, hidden = width // tp.size(), 4 * width // tp.size()
        self.split = nn.ParameterDict(  # name: rows or columns of this peer
            {
                "query": nn.Parameter(torch.empty(mine, width)),
                "key": nn.Parameter(torch.empty(mine, width)),
                "value": nn.Parameter(torch.empty(mine, width)),
                "up": nn.Parameter(torch.empty(hidden, width)),
                "joined": nn.Parameter(torch.empty(width, mine)),
                "down": nn.Parameter(torch.empty(width, hidden)),
            }
        )

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        y = CopyToPeers.apply(self.norms[0](x), self.tp)
        query, key, value = (
            (y @ self.split[name].T).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        y = functional.scaled_dot_product_attention(query, key, value, attn_mask=visible)
        x = x + SumOverPeers.apply(y.transpose(1, 2).flatten(2) @ self.split["joined"].T, self.tp)
        y = CopyToPeers.apply(self.norms[1](x), self.tp)
        y = functional.gelu(y @ self.split["up"].T) @ self.split["down"].T
        return x + SumOverPeers.apply(y, self.tp)


class TinyGPT(nn.Module):
    """The usual decoder, over packed documents that do not see each other."""

    def __init__(self, vocabulary: int, context: int, args: argparse.Namespace, tp) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, args.width)
        self.places = nn.Embedding(context, args.width)
        self.blocks = nn.ModuleList(Block(args.width, args.heads, tp) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.width)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        documents = (positions == 0).cumsum(-1)
        visible = (documents[:, :, None] == documents[:, None, :]).tril()[:, None]
        x = self.words(tokens) + self.places(positions)
        for block in self.blocks:
            x = block(x, visible)
        return self.norm(x) @ self.words.weight.T


class Splitting:
    """Whole tensors and this peer's part of them: a checkpoint knows no mesh."""

    def __init__(self, tp) -> None:
        self.tp = tp

    def axis(self, name: str) -> int | None:
        """The axis along which a parameter is split, if it is."""
        if ".split." not in name:
            return None
        return 1 if name.endswith(("joined", "down")) else 0

    def part(self, name: str, whole: Tensor) -> Tensor:
        axis = self.axis(name)
        return (
            whole if axis is None else whole.chunk(self.tp.size(), axis)[self.tp.get_local_rank()]
        )

    def whole(self, name: str, part: Tensor) -> Tensor:
        axis = self.axis(name)
        if axis is None:
            return part.detach().clone()
        parts = [torch.empty_like(part) for _ in range(self.tp.size())]
        dist.all_gather(parts, part.detach().contiguous(), group=self.tp.get_group())
        return torch.cat(parts, axis)


def initialise(model: TinyGPT, split: Splitting, seed: int) -> None:
    """The same whole weights on every mesh; each peer keeps its part."""
    dice = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() < 2:
                continue  # norms begin as ones and zeros
            shape = list(parameter.shape)
            if (axis := split.axis(name)) is not None:
                shape[axis] *= split.tp.size()
            parameter.copy_(split.part(name, torch.randn(shape, generator=dice) * 0.05))


class Adam:
    """Adam by hand: its moments are tensors by name, as a checkpoint cuts and joins them."""

    def __init__(self, model: nn.Module, rate: float = 3e-3) -> None:
        self.parameters = dict(model.named_parameters())
        self.rate = rate
        self.updates = 0
        self.first = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.second = {name: torch.zeros_like(p) for name, p in self.parameters.items()}

    @torch.no_grad()
    def step(self) -> None:
        self.updates += 1
        rise, fall = 1 - 0.9**self.updates, 1 - 0.999**self.updates
        for name, parameter in self.parameters.items():
            first = self.first[name].lerp_(parameter.grad, 0.1)
            second = self.second[name].lerp_(parameter.grad.square(), 0.001)
            parameter -= self.rate * (first / rise) / ((second / fall).sqrt() + 1e-8)
            parameter.grad = None


def save(path: Path, optimizer: Adam, split: Splitting, loader) -> None:
    """All peers gather; rank 0 writes, and a reader sees the file whole or not at all."""
    tensors = {key: getattr(optimizer, key) for key in ("parameters", "first", "second")}
    saved = {
        key: {name: split.whole(name, part) for name, part in parts.items()}
        for key, parts in tensors.items()
    }
    saved["updates"] = optimizer.updates
    saved["loader"] = loader.state_dict()  # at a step boundary the same on every rank
    if dist.get_rank() == 0:
        torch.save(saved, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)
    dist.barrier()


@torch.no_grad()
def load(path: Path, optimizer: Adam, split: Splitting, loader) -> None:
    """Go on where a checkpoint was saved, on this mesh."""
    saved = torch.load(path, weights_only=True)
    for key in ("parameters", "first", "second"):
        for name, tensor in getattr(optimizer, key).items():
            tensor.copy_(split.part(name, saved[key][name]))
    optimizer.updates = saved["updates"]
    loader.load_state_dict(saved["loader"])


def train_step(batches, model, optimizer, dp) -> float:
    """One optimizer step over this rank's microbatches; gives the loss of the whole step."""
    total = torch.zeros(())
    for batch in batches:
        fields = batch.torch()
        logits = model(fields["tokens"].long(), fields["positions"].long())
        losses = functional.cross_entropy(
            logits.flatten(0, 1), fields["targets"].long().flatten(), reduction="none"
        )
        loss = (losses * fields["loss_weights"].flatten()).sum() / batch.step_target_tokens
        loss.backward()
        total += loss.detach()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad, group=dp.get_group())
    dist.all_reduce(total, group=dp.get_group())
    optimizer.step()
    return float(total)


def prepare_data(folder: Path) -> Path:
    """A small corpus with a config, made once by rank 0."""
    config = folder / "mix.yaml"
    if dist.get_rank() == 0 and not config.exists():
        command = [sys.executable, "-m", "overlord", "init", str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    dist.barrier()
    return config


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("tiny"), help="data and checkpoints")
    parser.add_argument("--tp", type=int, default=2, help="tensor parallel peers")
    parser.add_argument("--steps", type=int, default=40, help="the step to stop before")
    parser.add_argument("--save-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--resume", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--losses", type=Path, metavar="FILE", help="append step and loss as JSON")
    parser.add_argument("--context", type=int, default=128, help="tokens of a sequence")
    parser.add_argument("--bins", type=int, default=8, help="sequences of a step")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    args = read_arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (world // args.tp, args.tp), mesh_dim_names=("dp", "tp"))
    config = prepare_data(args.folder)
    job = ol.job(config, mesh, overrides={"context": args.context, "bins": args.bins})
    loader = job.train()  # one of several ranks of this host: attaches to its node

    model = TinyGPT(job.config.vocabulary, args.context, args, mesh["tp"])
    split = Splitting(mesh["tp"])
    initialise(model, split, seed=1)
    optimizer = Adam(model)
    if args.resume:
        load(args.resume, optimizer, split, loader)

    for batches in loader.steps():
        step = batches[0].step
        loss = train_step(batches, model, optimizer, mesh["dp"])
        done = step + 1
        if dist.get_rank() == 0:
            print(f"step {step:4d}  loss {loss:.4f}", flush=True)
            if args.losses:
                with args.losses.open("a") as file:
                    file.write(json.dumps({"step": step, "loss": loss}) + "\n")
        if done % args.save_every == 0:
            save(args.folder / f"step-{done}.pt", optimizer, split, loader)
        if done >= args.steps:
            break
    loader.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
