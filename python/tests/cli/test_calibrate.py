"""`overlord calibrate`: recovers coefficients, tells errors, refuses files that cannot tell."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import fit_presets
import numpy as np
import pytest
import yaml
from overlord._src.cost.fitting import fit, non_negative_least_squares
from overlord._src.cost.measurements import read_measurements
from overlord._src.errors import ConfigError
from overlord.cli import main

import overlord as ol


def csv_of(rows: list[list[Any]], *header: str) -> str:
    return "\n".join(",".join(map(str, row)) for row in [list(header), *rows]) + "\n"


def made_up(noise: float = 0.0) -> str:
    """30 microbatches of several documents: 0.5 ms + 2 us per token + 0.1 ns per squared length."""
    random = np.random.default_rng(5)
    rows: list[list[Any]] = []
    for i in range(30):
        lengths = random.integers(1, 20_000, size=1 + i % 7)
        squares = int((lengths**2).sum())
        time = 0.5 + 2e-3 * int(lengths.sum()) + 1e-7 * squares
        time *= 1 + noise * random.uniform(-1, 1)
        rows.append([int(lengths.sum()), " ".join(map(str, lengths)), repr(float(time))])
    return csv_of(rows, "tokens", "lengths", "time_ms")


def test_exact_times_give_their_coefficients(write: Any) -> None:
    found = fit(read_measurements(write(made_up(), "times.csv"))[0])
    assert found.bin_ns == pytest.approx(0.5e6, rel=1e-6)
    assert found.linear_ns["tokens"] == pytest.approx(2000, rel=1e-6)
    assert found.quadratic_ns["tokens"] == pytest.approx(0.1, rel=1e-6)
    assert found.held_out.maximum < 1e-6 and found.folds == 5
    model = found.model()
    assert model.of(tokens=1000)[0] == pytest.approx(2_100_000, rel=1e-6)
    assert found.model(layers=4).of(tokens=1000)[0] == pytest.approx(8_400_000, rel=1e-6)


def test_two_columns(write: Any) -> None:
    random = np.random.default_rng(6)
    rows = []
    for _ in range(40):
        tokens, patches = (int(n) for n in random.integers(0, 4000, size=2))
        time = 0.25 + 1e-3 * tokens + 4e-3 * patches + 3e-7 * patches**2
        rows.append([patches, tokens, time])
    path = write(csv_of(rows, "image_patches", "tokens", "time_ms"), "times.csv")
    found = fit(read_measurements(path)[0])
    assert found.linear_ns["image_patches"] == pytest.approx(4000, rel=1e-6)
    assert found.quadratic_ns["image_patches"] == pytest.approx(0.3, rel=1e-5)
    assert found.quadratic_ns["tokens"] == pytest.approx(0, abs=1e-6)
    assert found.model().kind == "sum" and found.model().columns == ("image_patches", "tokens")
    only = read_measurements(path, ["tokens"])[0]
    assert only.columns == ("tokens",)


def test_least_squares_are_the_best_of_all_active_sets() -> None:
    random = np.random.default_rng(7)
    for _ in range(200):
        matrix = random.normal(size=(12, 5)) + 0.3
        wanted = random.normal(size=12) + 0.5
        found = non_negative_least_squares(matrix, wanted)
        assert (found >= 0).all()
        best = float(wanted @ wanted)
        for count in range(1, 6):
            for chosen in itertools.combinations(range(5), count):
                part = matrix[:, list(chosen)]
                solution = np.linalg.lstsq(part, wanted, rcond=None)[0]
                if (solution >= 0).all():
                    best = min(best, float(((part @ solution - wanted) ** 2).sum()))
        assert float(((matrix @ found - wanted) ** 2).sum()) <= best * (1 + 1e-9)


def test_nothing_fits_when_every_column_points_away() -> None:
    found = non_negative_least_squares(np.ones((4, 2)), -np.ones(4))
    assert found.tolist() == [0, 0]


def test_report_and_yaml(write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, report = write(made_up(0.02), "times.csv"), tmp_path / "report.json"
    assert main(["calibrate", str(path), "--json", str(report), "--rows", "2"]) == 0
    text = capsys.readouterr().out
    assert "of held-out rows (5 folds)" in text and "and 28 more rows" in text
    (data,) = json.loads(report.read_text())
    assert len(data["rows"]) == 30 and data["rows"][0]["line"] == 2
    row = data["rows"][3]
    assert row["predicted_ms"] / row["measured_ms"] - 1 == pytest.approx(row["error"])
    errors = sorted(abs(row["error"]) for row in data["rows"])
    assert data["errors"]["max"] == errors[-1]
    assert 0 < data["held_out_errors"]["median"] < data["held_out_errors"]["max"] < 0.05
    snippet = yaml.safe_load(text[text.index("# fitted") :])
    assert snippet == {"cost": data["cost"]}
    model = ol.cost.from_dict(snippet["cost"])
    assert isinstance(model, ol.cost.CostModel)
    assert model.of(tokens=10_000)[0] == pytest.approx(2e7 + 1e7, rel=0.02)


def test_the_measured_file(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(fit_presets.MEASURED)
    assert main(["calibrate", path]) == 0
    text = capsys.readouterr().out
    assert text.count("cost:") == 5 and "model llama12b: 46 rows" in text
    assert main(["calibrate", path, "--model", "llama12b", "--layers", "45"]) == 0
    text = capsys.readouterr().out
    model = ol.cost.from_dict(yaml.safe_load(text[text.index("# fitted") :])["cost"])
    assert isinstance(model, ol.cost.CostModel)
    expected = ol.cost.preset("llama-12b").of(tokens=8192)[0]
    assert model.of(tokens=8192)[0] == pytest.approx(expected, rel=1e-5)
    assert main(["calibrate", path, "--model", "llama"]) == 2
    assert "allowed: llama12b, mixtral8x7b_active" in capsys.readouterr().err


GOOD = [[100 * i, 1 + i * i] for i in range(1, 9)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("tokens,time_ms\n", "wrong number of rows; got 0"),
        (csv_of(GOOD, "length", "time_ms"), "no column of lengths; got 'length, time_ms'"),
        (csv_of(GOOD, "tokens", "time"), "no column of times"),
        (csv_of(GOOD, "tokens", "forward_ms"), "allowed: time_ms, or forward_ms and backward_ms"),
        (csv_of(GOOD, "tokens", "tokens"), "a column is named twice"),
        (csv_of([*GOOD, [1]], "tokens", "time_ms"), "line 10: wrong number of cells; got 1"),
        (csv_of([*GOOD, ["x", 1]], "tokens", "time_ms"), "line 10, column 'tokens': wrong value"),
        (csv_of([*GOOD, ["nan", 1]], "tokens", "time_ms"), "got 'nan'; allowed: a whole number"),
        (csv_of([*GOOD, [1.5, 1]], "tokens", "time_ms"), "got '1.5'"),
        (csv_of([*GOOD, [-3, 1]], "tokens", "time_ms"), "got '-3'"),
        (csv_of([*GOOD, [2**32, 1]], "tokens", "time_ms"), "got '4294967296'"),
        (csv_of([*GOOD, [9, "nan"]], "tokens", "time_ms"), "column 'time_ms': wrong value"),
        (csv_of([*GOOD, [9, "inf"]], "tokens", "time_ms"), "got 'inf'; allowed: milliseconds"),
        (csv_of([*GOOD, [9, -1]], "tokens", "time_ms"), "got '-1'; allowed: milliseconds above 0"),
        (csv_of([*GOOD, [9, 0]], "tokens", "time_ms"), "got '0'"),
        (csv_of([*GOOD, [9, ""]], "tokens", "time_ms"), "got ''"),
        (csv_of(GOOD[:1], "tokens", "time_ms"), "too few rows; got 1; allowed: 4 or more"),
        (csv_of(GOOD[:3], "tokens", "time_ms"), "too few rows; got 3"),
        (csv_of([[64, 1]] * 9, "tokens", "time_ms"), "all lengths are equal in column 'tokens'"),
        (
            csv_of([[64, 1], [128, 2]] * 5, "tokens", "time_ms"),
            "do not tell the coefficients apart; got '2 independent shapes'; allowed: 3",
        ),
        (
            csv_of([[8, "3 4", 1]], "tokens", "lengths", "time_ms"),
            "line 2, column 'lengths': their sum is not the row's tokens; got 7; allowed: 8",
        ),
        (csv_of([[8, "3 b", 1]], "tokens", "lengths", "time_ms"), "not a list of lengths"),
        (csv_of([[8, 65, 1]], "tokens", "sum_squares", "time_ms"), "impossible for tokens 8"),
        (csv_of([[8, "x", 1]], "tokens", "sum_squares", "time_ms"), "'sum_squares': wrong value"),
        ('tokens,time_ms\n"1,2\n3,4\n', "wrong number of cells"),
    ],
)
def test_bad_files(text: str, message: str, write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(text, "times.csv")
    assert main(["calibrate", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error and str(path) in error and "Traceback" not in error


def test_bad_options(write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(made_up(), "times.csv")
    for words, message in [
        (["--columns", "tokens,pages"], "no column 'pages'"),
        (["--model", "m"], "none: there is no column `model`"),
        (["--layers", "0"], "--layers: out of range"),
        (["--rows", "-1"], "--rows: too small"),
    ]:
        assert main(["calibrate", str(path), *words]) == 2
        assert message in capsys.readouterr().err
    assert main(["calibrate", str(tmp_path / "none.csv")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    binary = write(b"tokens,time_ms\n\xff\xfe,1\n", "binary.csv")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_measurements(binary)


def test_blank_lines_a_byte_order_mark_and_spaces_are_accepted(write: Any) -> None:
    text = "\ufefftokens, time_ms\r\n" + "\r\n\r\n".join(f"{a}, {b}" for a, b in GOOD) + "\r\n"
    assert len(read_measurements(write(text, "times.csv"))[0].lines) == 8
