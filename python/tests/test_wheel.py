"""The wheel: it builds, installs beside pyarrow in an empty environment, imports and answers.

The build folder of `make build` is used again when it is there, so that only packing is left to do.
"""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, cwd: Path) -> str:
    """Runs a command away from the source tree and gives its output; a failure shows all of it."""
    clean = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(cwd),
    }
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean, text=True, capture_output=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    finished = (ROOT / "build/CMakeCache.txt").is_file()
    build_folder = ROOT / "build" if finished else folder / "build"
    pip = (sys.executable, "-m", "pip", "wheel", ROOT, "-w", folder)
    run(
        *pip,
        "--no-deps",
        "--no-build-isolation",
        f"--config-settings=build-dir={build_folder}",
        cwd=folder,
    )
    return next(folder.glob("overlord_data-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, and with the dependencies lent by ours."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    lent = Path(sysconfig.get_path("platlib"))
    site_packages = next(folder.glob("lib/python3.*/site-packages"))
    # pyarrow must lie beside the package, where the extension looks for Arrow's libraries. A plain
    # path does not run the .pth files in it, so the source tree stays out of sight.
    (site_packages / "pyarrow").symlink_to(lent / "pyarrow")
    (site_packages / "lent.pth").write_text(f"{lent}\n")
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python", "install")
    run(*pip, "--no-deps", "--no-index", wheel, cwd=folder)
    return folder


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"overlord"}
    assert len([name for name in names if name.endswith(".so")]) == 1
    assert "overlord/py.typed" in names
    assert "overlord/_core.pyi" in names
    assert not [name for name in names if name.endswith((".cc", ".h", ".pyc"))]


def test_wheel_exports_the_entry_point_alone(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (extension,) = (name for name in archive.namelist() if name.endswith(".so"))
        library = archive.extract(extension, tmp_path)
    symbols = run("nm", "-D", "--defined-only", library, cwd=tmp_path).split()
    assert symbols[2::3] == ["PyInit__core"]
    dynamic = run("readelf", "-d", library, cwd=tmp_path)
    assert "[$ORIGIN/../pyarrow]" in dynamic


def test_installed_package_imports(installed: Path) -> None:
    code = "import overlord, overlord._core; print(overlord.__version__, overlord.__file__)"
    version, path = run(installed / "bin/python", "-c", code, cwd=installed).split()
    assert version in (ROOT / "python/overlord/_version.py").read_text()
    assert Path(path).is_relative_to(installed)


def test_installed_command_finds_the_machine_healthy(installed: Path) -> None:
    assert run(installed / "bin/overlord", "doctor", cwd=installed)
