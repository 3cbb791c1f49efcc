"""Inputs of models, one module per form of `Microbatch.model_inputs`."""
