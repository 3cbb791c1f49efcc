"""Holds the rules of the house over the tree; prints `path:line: rule: message` for each breach.

Which room may lean on which is read from cmake/rooms.cmake, so rule and build cannot differ.
Usage: rooms.py [ROOT]. The exit status is 1 when a rule is broken. No rule can be switched off by a
comment in a file: a rule that is wrong is changed here, in sight of everybody.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import cpp_text
import import_circles

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
MAX_FOLDER_FILES = 40
LEAST_CHECKS = 0.3  # OVERLORD_CHECK per function, over all files of a part of the house
CHECKED_PARTS = ("src/overlord/plan/", "src/overlord/roles/")
SEARCHED = ("src", "python", "tests", "tools", "cmake", "benchmarks", "examples")
BANNED_WORDS = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}

ARROW_ROOMS = {"columnar", "storage", "transport"}
WORLD_ROOMS = {"runtime", "store", "storage", "transport", "workers", "node", "sim"}
BINDING_DEPS = {
    "node",
    "plan",
    "columnar",
    "media",
    "batch",
    "protocol",
    "runtime",
    "model",
    "base",
    "roles/client",
    "roles/keeper",
}
THREAD_HEADERS = {"thread", "mutex", "shared_mutex", "condition_variable", "future", "semaphore"}
IMPURE_HEADERS = THREAD_HEADERS | {
    "chrono",
    "random",
    "filesystem",
    "fstream",
    "iostream",
    "barrier",
    "latch",
    "stop_token",
}

THREAD_NAMES = re.compile(r"\bstd::(?:jthread|thread|(?:\w+_)?mutex|condition_variable\w*)\b")
CLOCK_NAMES = re.compile(
    r"\b(?:(?:system|steady|high_resolution)_clock|sleep_for|sleep_until)\b"
    r"|(?<![\w.>])s?rand\s*\("
)
CHECK = re.compile(r"\bOVERLORD_CHECK\(")
RANDOM_DEVICE = re.compile(r"\brandom_device\b")
SLEEP = re.compile(r"\b(?:u|nano)?sleep(?:_for|_until)?\s*\(")
OWNER_RULE = re.compile(r"%\s*[\w.>()\[\]-]*\bslots\b")  # who reads a window
OWNER_MAP = "src/overlord/model/owner_map.h"
TYPE_NAME = re.compile(
    r"\b(?:class|struct|union|enum(?:\s+class)?)\s+(?:\[\[\w+\]\]\s*)?(\w+)"
    r"(?=\s*(?:final\b)?\s*(?::[^;{]*)?\{)"
    r"|\busing\s+(\w+)\s*="
)
ROOM_LINE = re.compile(r"\boverlord_library\(\s*([\w/]+)([^)]*)\)")


@dataclass(frozen=True, order=True)
class Breach:
    """One broken rule at one place."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass(frozen=True)
class House:
    """The tree under judgement, with its table of rooms."""

    root: Path
    deps: dict[str, set[str]]

    @staticmethod
    def read(root: Path) -> "House":
        table = re.sub(r"#.*", "", (root / "cmake/rooms.cmake").read_text())
        deps: dict[str, set[str]] = {}
        for room, arguments in ROOM_LINE.findall(table):
            listed = re.search(r"\bDEPS\b(.*?)(?:\bLIBS\b|\bTEST_ONLY\b|$)", arguments, re.DOTALL)
            deps[room] = set(listed.group(1).split()) if listed else set()
        return House(root, deps)

    def room_of(self, path: str) -> str | None:
        """The room of a path below src/overlord, with or without the file name."""
        parts = path.split("/")
        return next((r for r in ("/".join(parts[:2]), parts[0]) if r in self.deps), None)

    def allowed_deps(self, file: "CppFile") -> set[str]:
        """The rooms that a file may include."""
        every_room = set(self.deps)
        if file.path.startswith("python/src/"):
            return BINDING_DEPS
        if file.path.startswith("tests/simulation/"):
            return self.deps.get("sim", set()) | {"sim"}
        if file.room is None:
            return every_room - {"sim"}
        extra = {"testing"} if file.is_test or file.is_benchmark else set()
        return self.deps[file.room] | {file.room} | extra


@dataclass(frozen=True)
class CppFile:
    """A C++ file with the views of it that rules need."""

    house: House
    path: str
    text: str

    @cached_property
    def code(self) -> str:
        return cpp_text.code_only(self.text)

    @cached_property
    def functions(self) -> list[cpp_text.Function]:
        return cpp_text.functions(self.text)

    @cached_property
    def includes(self) -> list[tuple[int, str]]:
        return cpp_text.includes(self.text)

    @cached_property
    def room(self) -> str | None:
        below = self.path.removeprefix("src/overlord/")
        return None if below == self.path else self.house.room_of(below)

    @property
    def stem(self) -> str:
        return PurePosixPath(self.path).stem

    @property
    def is_header(self) -> bool:
        return self.path.endswith(".h")

    @property
    def is_test(self) -> bool:
        return self.stem.endswith(("_test", "_fuzz")) or self.path.startswith("tests/")

    @property
    def is_benchmark(self) -> bool:
        return self.stem.endswith("_benchmark")

    @property
    def is_pure(self) -> bool:
        """Whether the file decides or remembers, and so must not touch the world."""
        if self.is_test or self.is_benchmark or self.room is None:
            return False
        named_so = re.search(r"(?:^|_)(?:state|logic)$", self.stem)
        return self.room == "plan" or (self.room.startswith("roles/") and bool(named_so))

    def matches(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
        """Line and text of each match in the code, leaving comments and literals out."""
        for match in pattern.finditer(self.code):
            yield cpp_text.line_of(self.code, match.start()), match.group().strip()

    def breach(self, line: int, rule: str, message: str) -> Breach:
        return Breach(self.path, line, rule, message)


# --- C++ rules ------------------------------------------------------------------------------------


def check_room_includes(file: CppFile) -> Iterator[Breach]:
    """Includes go down only, never to a neighbour."""
    if file.path.startswith("src/overlord/") and file.room is None:
        yield file.breach(1, "room", "this folder is no room of cmake/rooms.cmake")
        return
    allowed = file.house.allowed_deps(file)
    for line, path in file.includes:
        if not path.startswith("overlord/"):
            continue
        target = file.house.room_of(path.removeprefix("overlord/"))
        if target is None:
            yield file.breach(line, "include", f"{path} is in no room")
        elif target not in allowed:
            yield file.breach(line, "include", f"{file.room or file.path} may not include {path}")


def check_engine_includes(file: CppFile) -> Iterator[Breach]:
    """Arrow and Parquet stay in the rooms that touch bytes, nanobind in the bindings."""
    in_bindings = file.path.startswith(("python/src/", "benchmarks/native/"))
    arrow_allowed = file.room in ARROW_ROOMS or file.path.startswith("tests/integration/")
    for line, path in file.includes:
        if path.startswith("nanobind/") and not in_bindings:
            yield file.breach(line, "engine", f"{path} belongs to bindings alone")
        if not path.startswith(("arrow/", "parquet/")) or arrow_allowed:
            continue
        if not (in_bindings and path.startswith("arrow/c/")):
            yield file.breach(line, "engine", f"{path} may not be named here")


def check_purity(file: CppFile) -> Iterator[Breach]:
    """`plan`, `state` and `logic` see no clock, chance, thread, file or engine."""
    if not file.is_pure:
        return
    for line, path in file.includes:
        engine = path.startswith(("arrow/", "parquet/", "nanobind/", "overlord/columnar/"))
        if path in IMPURE_HEADERS or engine or _brings_threads(file.house, path):
            yield file.breach(line, "purity", f"{file.stem} is pure and may not include {path}")


def _brings_threads(house: House, path: str) -> bool:
    header = house.root / "src" / path
    if not path.startswith("overlord/runtime/") or not header.is_file():
        return False
    return any(name in THREAD_HEADERS for _, name in cpp_text.includes(header.read_text()))


def check_world_calls(file: CppFile) -> Iterator[Breach]:
    """Threads, clocks and chance come through the seams of `runtime`."""
    for line, name in file.matches(RANDOM_DEVICE):
        yield file.breach(line, "world", f"{name}: seeds are given, never found")
    in_world = file.room in WORLD_ROOMS or not file.path.startswith(("src/", "python/src/"))
    if in_world or file.is_benchmark:
        return
    for line, name in file.matches(CLOCK_NAMES):
        yield file.breach(line, "world", f"{name}: time and chance come through a seam")
    if not file.is_test:
        for line, name in file.matches(THREAD_NAMES):
            yield file.breach(line, "world", f"{name}: threads and locks live in runtime")


def check_cpp_sleep(file: CppFile) -> Iterator[Breach]:
    """A test waits for an event, never for a while."""
    if file.is_test:
        for line, name in file.matches(SLEEP):
            yield file.breach(line, "sleep", f"{name}) in a test")


def check_owner_rule(file: CppFile) -> Iterator[Breach]:
    """Which slot reads a window is said in one place."""
    if file.path != OWNER_MAP:
        for line, found in file.matches(OWNER_RULE):
            yield file.breach(line, "owner", f"{found!r}: ask owner_of() in {OWNER_MAP}")


def check_header_comment(file: CppFile) -> Iterator[Breach]:
    """A header starts by telling what it is."""
    if file.is_header and not file.text.lstrip().startswith(("//", "/*")):
        yield file.breach(1, "comment", "a header starts with a comment of what it is")


def check_own_header_first(file: CppFile) -> Iterator[Breach]:
    """x.cc includes x.h first, which proves that x.h stands alone."""
    twin = file.house.root / PurePosixPath(file.path).with_suffix(".h")
    if file.is_header or file.room is None or not twin.is_file():
        return
    own = str(PurePosixPath(file.path).with_suffix(".h")).removeprefix("src/")
    first = file.includes[0] if file.includes else (1, "nothing")
    if first[1] != own:
        yield file.breach(first[0], "own-header", f"{own} must be included first")


def check_cpp_functions(file: CppFile) -> Iterator[Breach]:
    """A function fits on a screen."""
    for function in file.functions:
        if function.line_count > MAX_FUNCTION_LINES:
            yield file.breach(
                function.first_line, "size", f"{function.name} has {function.line_count} lines"
            )


def check_cpp_type_names(file: CppFile) -> Iterator[Breach]:
    """A type's name says what it is."""
    for match in TYPE_NAME.finditer(file.code):
        name = match.group(1) or match.group(2)
        line = cpp_text.line_of(file.code, match.start())
        yield from _banned_words(file.path, line, name)


CPP_RULES = (
    check_room_includes,
    check_engine_includes,
    check_purity,
    check_world_calls,
    check_cpp_sleep,
    check_owner_rule,
    check_header_comment,
    check_own_header_first,
    check_cpp_functions,
    check_cpp_type_names,
)


def check_invariants(files: Iterable[CppFile]) -> Iterator[Breach]:
    """Code that decides or remembers says what must hold, and dies where it does not."""
    product = [file for file in files if not file.is_test and not file.is_benchmark]
    for part in CHECKED_PARTS:
        own = [file for file in product if file.path.startswith(part)]
        functions = sum(len(file.functions) for file in own)
        checks = sum(len(CHECK.findall(file.code)) for file in own)
        if checks < LEAST_CHECKS * functions:
            yield Breach(part, 1, "invariants", f"{checks} checks in {functions} functions")


# --- Python rules ---------------------------------------------------------------------------------


def check_python(path: str, text: str) -> Iterator[Breach]:
    """Function sizes, type names and, in tests, calls of sleep."""
    in_tests = path.startswith(("tests/", "python/tests/"))
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            line_count = (node.end_lineno or node.lineno) - node.lineno + 1
            if line_count > MAX_FUNCTION_LINES:
                yield Breach(path, node.lineno, "size", f"{node.name} has {line_count} lines")
        elif isinstance(node, ast.ClassDef):
            yield from _banned_words(path, node.lineno, node.name)
        elif in_tests and isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name == "sleep":
                yield Breach(path, node.lineno, "sleep", "sleep() in a test")


def check_import_circles(root: Path) -> Iterator[Breach]:
    """No module of the package imports, at any hour, one that imports it."""
    circle = [
        path.relative_to(root).as_posix()
        for path in import_circles.find_circle(root / "python/overlord")
    ]
    if circle:
        yield Breach(circle[0], 1, "circle", "imports in a circle: " + " -> ".join(circle))


# --- Rules of every file --------------------------------------------------------------------------


def _banned_words(path: str, line: int, name: str) -> Iterator[Breach]:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    for word in words:
        if word.lower() in BANNED_WORDS:
            yield Breach(path, line, "name", f"{name}: '{word}' does not say what it is")


def check_file_name(path: str) -> Iterator[Breach]:
    """Folders and files have names that say what they hold."""
    yield from _banned_words(path, 1, path)


def check_file_size(path: str, text: str) -> Iterator[Breach]:
    """A file that outgrows the limit holds two things."""
    line_count = len(text.splitlines())
    if line_count > MAX_FILE_LINES and not path.endswith(".pyi"):
        yield Breach(path, 1, "size", f"{line_count} lines, more than {MAX_FILE_LINES}")


def check_folder_sizes(paths: Iterable[str]) -> Iterator[Breach]:
    """A stranger finds a file by its folder."""
    counts = Counter(path.rpartition("/")[0] for path in paths)
    for folder, count in counts.items():
        if count > MAX_FOLDER_FILES:
            yield Breach(folder, 1, "size", f"{count} files, more than {MAX_FOLDER_FILES}")


def check_subroom_circles(files: Iterable["CppFile"]) -> Iterator[Breach]:
    """The subrooms of `plan` lean on each other one way."""
    leans: dict[str, dict[str, CppFile]] = {}
    for file in files:
        if file.room != "plan" or file.is_test or file.is_benchmark:
            continue
        own = file.path.split("/")[3]
        for _, path in file.includes:
            parts = path.split("/")
            if parts[:2] == ["overlord", "plan"] and parts[2] != own:
                leans.setdefault(own, {})[parts[2]] = file

    def reaches(start: str, goal: str, seen: set[str]) -> bool:
        seen.add(start)
        ways = leans.get(start, {})
        return goal in ways or any(reaches(n, goal, seen) for n in ways if n not in seen)

    for own, others in leans.items():
        for other, file in others.items():
            if reaches(other, own, set()):
                yield file.breach(1, "circle", f"plan/{own} and plan/{other} lean on each other")


def _source_files(root: Path) -> Iterable[Path]:
    for folder in SEARCHED:
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root).parts
            hidden = any(part.startswith((".", "__pycache__")) for part in parts)
            if path.suffix in {".cc", ".h", ".py"} and path.is_file() and not hidden:
                yield path


def check_tree(root: Path) -> list[Breach]:
    """Every breach in the tree below root, in order of path and line."""
    house = House.read(root)
    breaches: list[Breach] = []
    cpp_files: list[CppFile] = []
    paths: list[str] = []
    for full_path in _source_files(root):
        path, text = full_path.relative_to(root).as_posix(), full_path.read_text()
        paths.append(path)
        breaches += check_file_name(path)
        breaches += check_file_size(path, text)
        if path.endswith(".py"):
            breaches += check_python(path, text)
        else:
            file = CppFile(house, path, text)
            cpp_files.append(file)
            for rule in CPP_RULES:
                breaches += rule(file)
    breaches += check_folder_sizes(paths)
    breaches += check_subroom_circles(cpp_files)
    breaches += check_import_circles(root)
    breaches += check_invariants(cpp_files)
    return sorted(breaches)


def main() -> int:
    """Judge the tree named on the command line, by default the one around this file."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    breaches = check_tree(root)
    for breach in breaches:
        print(breach)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
