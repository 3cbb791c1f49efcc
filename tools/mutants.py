"""Measures the invariants of plan and roles: which bugs of tests/mutants.txt end in a check?

Each mutant is compiled with the command of the built tree, linked in front of the libraries into
the tests of plan or the simulation, and run. It is stopped when OVERLORD_CHECK ends the process;
what a test expects does not count. Needs build/bin/overlord_plan_test and
build/bin/overlord_simulation_test. Usage: mutants.py [NAME ...]
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "tests/mutants.txt"
BUILD = ROOT / "build"
LEAST_STOPPED = 0.75
MOST_SECONDS = 300
STORM_SEEDS = "4"
CHECK_FAILED = re.compile(r"^overlord: broken invariant at .*$", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """A bug: text of one file, and what stands there instead."""

    name: str
    file: str
    bug: str
    before: str
    after: str

    def path(self, root: Path = ROOT) -> Path:
        """The one file whose path ends as `file` says."""
        found = [
            path
            for path in (root / "src/overlord").rglob(Path(self.file).name)
            if path.as_posix().endswith("/" + self.file)
        ]
        if len(found) != 1:
            raise ValueError(f"{self.name}: {len(found)} files end in {self.file}")
        return found[0]

    def applied(self, text: str) -> str:
        """The text with the bug in it. Comments at the ends of lines and spaces do not matter."""
        gap = r"\s*(?://[^\n]*\n\s*)*"
        tokens = re.findall(r"\w+|\S", self.before)
        pattern = re.compile(gap.join(re.escape(token) for token in tokens))
        changed, times = pattern.subn(lambda _: self.after, text)
        if times != 1:
            raise ValueError(f"{self.name}: its text is {times} times in {self.file}")
        return changed


def read_catalogue(text: str) -> list[Mutant]:
    """The mutants of a catalogue, in its order."""
    mutants = []
    for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        name, *lines = part.strip().splitlines()
        fields = dict(line.split(": ", 1) for line in lines if line[:5] in {"file:", "bug: "})
        before = "\n".join(line[2:] for line in lines if line.startswith("- "))
        after = "\n".join(line[2:] for line in lines if line.startswith("+ "))
        mutants.append(Mutant(name, fields["file"], fields["bug"], before, after))
    return mutants


def compile_command(source: Path) -> tuple[list[str], Path, Path]:
    """How the built tree compiles a file, where, and in which unit, itself or one that names it."""
    named = f'#include "{source}"'
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        unit = Path(entry["directory"], entry["file"])
        if unit == source or ("Unity" in unit.parts and named in unit.read_text()):
            return shlex.split(entry["command"]), Path(entry["directory"]), unit
    raise ValueError(f"{source} is not compiled in {BUILD}")


def link_command(binary: str) -> list[str]:
    """How the built tree links a binary."""
    listed = subprocess.run(
        ["ninja", "-C", BUILD, "-t", "commands", "-s", f"bin/{binary}"],
        check=True,
        capture_output=True,
        text=True,
    )
    line = listed.stdout.strip().splitlines()[-1]
    return shlex.split(re.sub(r"^: && | && :$", "", line))


def build_mutant(mutant: Mutant, binary: str, folder: Path) -> Path:
    """The binary with the bug in it: its object comes before the library that has the right one."""
    source = mutant.path()
    changed = folder / source.name
    changed.write_text(mutant.applied(source.read_text()))
    command, directory, unit = compile_command(source)
    if unit != source:
        whole = unit.read_text().replace(f'"{source}"', f'"{changed}"')
        changed = folder / unit.name
        changed.write_text(whole)
    command[command.index("-c") + 1] = str(changed)
    at = command.index("-o") + 1
    command[at] = str(folder / "mutant.o")
    # A bug may leave something unused, and need not be fast.
    command = [*command, "-w", "-O1"]
    subprocess.run(command, cwd=directory, check=True)
    link = link_command(binary)
    at = link.index("-o") + 1
    link[at : at + 1] = [str(folder / binary), str(folder / "mutant.o")]
    subprocess.run(link, cwd=BUILD, check=True)
    return folder / binary


def what_ends(binary: Path) -> str | None:
    """The check that ends a run of the tests, if one does."""
    environment = {**os.environ, "OVERLORD_SIM_SEEDS": STORM_SEEDS}
    try:
        run = subprocess.run(
            [binary, "--gtest_brief=1", "--gtest_catch_exceptions=0"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    # A test of a check runs it in a process of its own, whose words come through as well.
    found = CHECK_FAILED.findall(run.stderr.decode(errors="replace"))
    return found[-1] if run.returncode < 0 and found else None


def binary_of(mutant: Mutant) -> str:
    in_plan = "/src/overlord/plan/" in mutant.path().as_posix()
    return "overlord_plan_test" if in_plan else "overlord_simulation_test"


def judge(mutant: Mutant) -> str | None:
    """The check that stops a mutant."""
    with tempfile.TemporaryDirectory(prefix="overlord-mutant-") as folder:
        return what_ends(build_mutant(mutant, binary_of(mutant), Path(folder)))


def main() -> int:
    """Judge the mutants named on the command line, by default all."""
    mutants = read_catalogue(CATALOGUE.read_text())
    if names := set(sys.argv[1:]):
        mutants = [mutant for mutant in mutants if mutant.name in names]
    for binary in sorted({binary_of(mutant) for mutant in mutants}):
        if ended := what_ends(BUILD / "bin" / binary):
            print(f"mutants: {binary} ends without any: {ended}", file=sys.stderr)
            return 1
    stopped = 0
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        for mutant, check in zip(mutants, pool.map(judge, mutants), strict=True):
            stopped += check is not None
            print(f"{'stopped' if check else 'LIVES  '} {mutant.name}: {mutant.bug}", flush=True)
            if check:
                print(f"        {check.removeprefix('overlord: broken invariant at ')}", flush=True)
    print(f"mutants: {stopped} of {len(mutants)} stopped by an invariant")
    return 0 if stopped >= LEAST_STOPPED * len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
