"""The public face: every name is there, errors derive from built-in ones, torch meshes work."""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from pathlib import Path

import pytest
from overlord._src.arrow_match import check_arrow, explain_failed_import

import overlord as ol

ERRORS = Path(ol.__file__).parent / "_src/engine_errors.pyi"


def test_every_public_name_is_there() -> None:
    for name in ol.__all__:
        assert getattr(ol, name) is not None
        assert name in dir(ol)
    with pytest.raises(AttributeError, match="no attribute 'jobs'"):
        ol.jobs  # noqa: B018


def test_errors_are_what_type_checkers_are_told() -> None:
    classes = [
        node for node in ast.parse(ERRORS.read_text()).body if isinstance(node, ast.ClassDef)
    ]
    assert len(classes) == 15
    for node in classes:
        bases = [ast.unparse(base) for base in node.bases]
        expected = tuple(getattr(ol, base, None) or getattr(builtins, base) for base in bases)
        assert getattr(ol, node.name).__bases__ == expected


def test_arrow_must_match() -> None:
    check_arrow("25.0.1", "25.0.9")
    with pytest.raises(ImportError, match=r"built with Arrow 25\.0\.1, but pyarrow 26\.1\.0"):
        check_arrow("25.0.1", "26.1.0")


def test_a_native_module_that_cannot_be_loaded_says_what_to_do() -> None:
    absent = ImportError("libarrow_flight.so.2500: cannot open shared object file: No such file")
    told = str(explain_failed_import(absent, "26.0.1"))
    assert "built with Arrow 25.0, but pyarrow 26.0.1 is installed" in told
    assert "`pip install 'pyarrow==25.0.*'`" in told
    for error, running in [(absent, "25.0.1"), (ImportError("no module overlord._core"), "26.0.1")]:
        told = str(explain_failed_import(error, running))
        assert str(error) in told and "`make build`" in told and "built with" not in told


DEVICE_MESH = """
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
import overlord as ol
dist.init_process_group("fake", store=FakeStore(), rank=5, world_size=16)
names = ("pp", "dp_replicate", "dp_shard", "tp")
mesh = ol.mesh.from_device_mesh(init_device_mesh("cpu", (2, 2, 2, 2), mesh_dim_names=names))
assert mesh.axes == tuple((name, 2) for name in names), mesh
assert mesh.rank == 5 and mesh.data_size == 4, mesh
"""


def test_a_real_device_mesh() -> None:
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-c", DEVICE_MESH], check=True)
