"""What the benchmarks run in processes of their own: one module per loader, ours among them.

A module has `measure(work) -> figures`. Modules of peers run in the peers' environment, where only
this package, NumPy, pyarrow and the peers are to be found, and import their peer inside `measure`.
"""
