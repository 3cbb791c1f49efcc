"""How large a job's loaders are: sizes from what sources cost."""
