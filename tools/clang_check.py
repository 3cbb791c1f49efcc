"""Clang's thread-safety analysis over the rooms that lock: is what a lock guards touched under it?

Takes the commands of build-clang/compile_commands.json and compiles nothing: clang reads each file
with its own standard library, whose mutexes the analysis knows (src/overlord/base/guarded_by.h).
Prints what it finds; the exit status is 1 when there is anything. CLANG names the compiler
(clang++-14), JOBS how many run at once. Usage: clang_check.py [PATH-ENDING ...]
"""

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKING_ROOMS = re.compile(r"src/overlord/(?:runtime|store|storage|transport|workers|host|node)/")
NO_PRODUCT = re.compile(r"_(?:test|benchmark|fuzz)\.cc$")
OF_THE_COMPILER = ("-W", "-O", "-g", "-f")
ANALYSIS = [
    "-fsyntax-only",
    "-stdlib=libc++",
    "-D_LIBCPP_ENABLE_THREAD_SAFETY_ANNOTATIONS",
    "-Wno-everything",
    "-Werror=thread-safety",
]


def analysis_of(command: str) -> list[str]:
    """A compiler's command as clang's, without what is for another compiler or for its output."""
    words = shlex.split(command)
    kept = [os.environ.get("CLANG", "clang++-14"), *ANALYSIS]
    at = next(i for i, word in enumerate(words) if "++" in word) + 1
    while at < len(words):
        if words[at] == "-o":
            at += 1
        elif words[at] != "-c" and not words[at].startswith(OF_THE_COMPILER):
            kept.append(words[at])
        at += 1
    return kept


def judge(entry: dict[str, str]) -> str:
    run = subprocess.run(
        analysis_of(entry["command"]),
        cwd=entry["directory"],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stderr if run.returncode != 0 else ""


def main() -> int:
    """Judge the files whose paths end as the arguments say, by default all that may lock."""
    endings = tuple(sys.argv[1:]) or ("",)
    entries = [
        entry
        for entry in json.loads((ROOT / "build-clang/compile_commands.json").read_text())
        if LOCKING_ROOMS.search(entry["file"])
        and not NO_PRODUCT.search(entry["file"])
        and entry["file"].endswith(endings)
    ]
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        found = [text for text in pool.map(judge, entries) if text]
    print("".join(found), end="")
    print(f"clang: {len(entries)} files read, {len(found)} with something to say")
    return 1 if found or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
