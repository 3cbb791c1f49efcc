"""`python -m overlord_bench._contenders MODULE WORK`: measures one contender once."""

from __future__ import annotations

import importlib
import json
import sys

from overlord_bench._peers import print_result


def main(module: str, work: str) -> None:
    """Measure and say the figures; a peer that is not there is named."""
    contender = importlib.import_module(f"overlord_bench._contenders.{module}")
    try:
        figures = contender.measure(json.loads(work))
    except ModuleNotFoundError as error:
        figures = {"missing": f"{error}"}
    print_result(figures)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
