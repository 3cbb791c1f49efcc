"""Puts into a wheel the libraries it needs and the words under which they may be passed on.

Usage: repair_wheel.py WHEEL FOLDER. Arrow's libraries stay those of the installed pyarrow, FFmpeg's
are no part of it (they are opened at run time, where there are any). docs/decisions/0049.
"""

import json
import subprocess
import sys
from pathlib import Path

from auditwheel.wheeltools import InWheel

ARROW = ("libarrow.so.*", "libarrow_*.so.*", "libparquet.so.*")
# Compiled into our own files, so that no library file tells of it.
COMPILED_IN = ("libxxhash-dev",)


def main() -> None:
    """Repair, then add the licences; prints the path of the new wheel."""
    bare, folder = Path(sys.argv[1]), Path(sys.argv[2])
    excluded = [word for name in ARROW for word in ("--exclude", name)]
    options = [*excluded, "-z", "0", "-w", str(folder)]  # it is packed again below
    told = subprocess.run(
        [sys.executable, "-m", "auditwheel", "repair", *options, str(bare)],
        text=True,
        capture_output=True,
    )
    if told.returncode != 0:
        raise SystemExit(f"repair_wheel: {bare.name}: {told.stdout}{told.stderr}")
    (repaired,) = folder.glob("*.whl")
    with InWheel(repaired, repaired):
        add_licences(Path.cwd())
    print(f"{repaired} ({repaired.stat().st_size / 1e6:.1f} MB)")


def add_licences(unpacked: Path) -> None:
    """The copyright file of every package of the distribution that a library was taken from."""
    (dist_info,) = unpacked.glob("*.dist-info")
    components = json.loads((dist_info / "sboms/auditwheel.cdx.json").read_text())["components"]
    packages = {part["name"] for part in components if part["purl"].startswith("pkg:deb/")}
    others = [part["name"] for part in components[1:] if part["name"] not in packages]
    folder = dist_info / "licenses/third-party"
    folder.mkdir(parents=True)
    for package in sorted(packages | set(COMPILED_IN)):
        text = Path("/usr/share/doc") / package / "copyright"
        if text.is_file():
            (folder / f"{package}.txt").write_bytes(text.read_bytes())
        else:
            others.append(package)
    if others:
        raise SystemExit(f"repair_wheel: no copyright file of {', '.join(others)}; is this Debian?")


if __name__ == "__main__":
    main()
