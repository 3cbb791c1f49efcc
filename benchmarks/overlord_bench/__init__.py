"""Benchmarks of `overlord bench NAME`: one module per name.

A module has a docstring whose first line says what is measured, and `run(arguments) -> dict`:
it takes the words after the name and gives the report, with `bench`, `machine`, `figures` and
`contenders`.
"""
