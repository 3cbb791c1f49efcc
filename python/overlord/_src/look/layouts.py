"""The layouts that a look knows, one function each: adding one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from overlord._src.look.arrow_files import arrow_files, saved_datasets
from overlord._src.look.csv_files import csv_files
from overlord._src.look.found import Found
from overlord._src.look.json_files import json_files
from overlord._src.look.media_folders import media_folders
from overlord._src.look.megatron import megatron_files
from overlord._src.look.parquet_files import parquet_files
from overlord._src.look.places import Listing
from overlord._src.look.tars import webdatasets

# Given what nobody before it has claimed. It claims the files of each thing it finds, and what
# lies beside them for them.
Layout = Callable[[Listing], Iterator[Found]]

# By what people call them, in this order: what several files tell together comes before what a
# suffix tells.
LAYOUTS: dict[str, Layout] = {
    "folders of save_to_disk": saved_datasets,
    "Megatron's .bin with .idx": megatron_files,
    "JSON lines and arrays (.gz, .zst)": json_files,
    "CSV (.gz, .zst)": csv_files,
    "Parquet": parquet_files,
    "Arrow": arrow_files,
    "WebDataset tars": webdatasets,
    "folders of pictures, sounds or clips": media_folders,
}
