"""The wheel: it builds, installs beside pyarrow in an empty environment, imports and answers.

The build folder of `make build` is used again when it is there, so that only packing is left to do.
`make wheel-check` goes further: a Debian with nothing of ours, and the streams compared.
"""

import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


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
    home = tmp_path_factory.mktemp("wheel")
    run(ROOT / "tools/wheel.sh", home / "made", cwd=home)
    (path,) = (home / "made").iterdir()
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in it."""
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


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


def test_wheel_holds_the_package_and_the_libraries(unpacked: Path) -> None:
    tops = {path.name for path in unpacked.iterdir() if path.suffix != ".dist-info"}
    assert tops == {"overlord", "overlord_data.libs"}
    package = [path for path in unpacked.glob("overlord/**/*") if path.is_file()]
    assert [path.name for path in package if ".so" in path.name] == ["_core.abi3.so"]
    assert {unpacked / "overlord/py.typed", unpacked / "overlord/_core.pyi"} < {*package}
    assert not [path for path in package if path.suffix in (".cc", ".h", ".pyc")]
    assert not [path for path in package if "bench" in path.name and path.parent.name != "cli"]


def test_one_wheel_is_for_every_python(wheel: Path) -> None:
    tags = wheel.name.split("-", 2)[2]
    assert re.fullmatch(r"cp310-abi3-manylinux_2_\d+_\w+\.whl", tags)


def test_wheel_exports_the_entry_point_alone(unpacked: Path) -> None:
    library = unpacked / "overlord/_core.abi3.so"
    symbols = run("nm", "-D", "--defined-only", library, cwd=unpacked).split()
    assert symbols[2::3] == ["PyInit__core"]


def needed_by(path: Path) -> set[str]:
    """The libraries that a file is linked with."""
    told = run("readelf", "-d", path, cwd=path.parent)
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", told))


def test_wheel_needs_a_bare_system_and_pyarrow(unpacked: Path) -> None:
    """The program too, which no Python has loaded anything for."""
    inside = {path.name for path in unpacked.glob("overlord_data.libs/*")}
    families = {name.split("-")[0].removeprefix("lib") for name in inside}
    pictures, sounds = (
        {"jpeg", "spng", "webp"},
        {"sndfile", "FLAC", "mpg123", "ogg", "opus", "vorbis"},
    )
    assert pictures | sounds | {"simdjson", "zstd"} <= families
    assert not families & {"arrow", "parquet", "avcodec", "avutil", "stdc++", "z"}
    # Of every Linux, by the rules of manylinux.
    system = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|z))\.so\.\d+")
    arrow = re.compile(r"lib(arrow|arrow_\w+|parquet)\.so\.\d+")
    programs = [unpacked / "overlord/_core.abi3.so", unpacked / "overlord/overlord-node"]
    for file in (*programs, *unpacked.glob("overlord_data.libs/*")):
        foreign = {name for name in needed_by(file) - inside if not system.fullmatch(name)}
        assert {name for name in foreign if not arrow.fullmatch(name)} == set(), file
        assert bool(foreign) == (file in programs)
    for file in programs:
        told = run("readelf", "-d", file, cwd=unpacked)
        (paths,) = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.+)\]", told)
        assert {"$ORIGIN/../pyarrow", "$ORIGIN/../overlord_data.libs"} == {*paths.split(":")}


def test_wheel_names_the_licences_of_what_it_brings(unpacked: Path) -> None:
    names = {path.stem for path in unpacked.glob("*.dist-info/licenses/third-party/*.txt")}
    assert {"libsndfile1", "libspng0", "libxxhash-dev"} <= names
    assert len(names) > len({*unpacked.glob("overlord_data.libs/*")}) / 2  # some share a package


def test_installed_package_imports(installed: Path) -> None:
    code = "import overlord, overlord._core; print(overlord.__version__, overlord.__file__)"
    version, path = run(installed / "bin/python", "-c", code, cwd=installed).split()
    assert version in (ROOT / "python/overlord/_version.py").read_text()
    assert Path(path).is_relative_to(installed)


def test_installed_command_finds_the_machine_healthy(installed: Path) -> None:
    assert run(installed / "bin/overlord", "doctor", cwd=installed)


def test_installed_bench_says_where_the_benchmarks_are(installed: Path) -> None:
    command = [str(installed / "bin/overlord"), "bench", "delivery"]
    done = subprocess.run(command, cwd=installed, text=True, capture_output=True)
    assert done.returncode == 2
    assert "in the repository, folder benchmarks/" in done.stderr
