"""Under the Trainer of transformers and TRL's SFTTrainer: docs/trainers/hf.md."""

from overlord._src.trainers.hf_trainer import TrainerMixin

__all__ = ["TrainerMixin"]
