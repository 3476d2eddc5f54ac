from __future__ import annotations

import copy
import re

import pytest

from harness.report.bars import panels
from harness.report.check import html_cells
from harness.report.run_report import render_run_report
from harness.report.verdicts import chance_text
from tests.report import example


def test_the_bars_stand_between_outcome_and_verdicts(page: str, files: dict[str, bytes]) -> None:
    spots = [page.index(text) for text in ('data-cell="outcome"', 'id="bars-time"', "h-verdicts")]
    assert spots == sorted(spots)
    assert page.count('<svg class="bar"') == 8
    cells = html_cells(page)
    assert cells["bars.time.A/B"] == "2.27× [2.24, 2.31]"
    assert cells["bars.accuracy.A/known-bad"].startswith("−34.2")
    text = files["report.md"].decode()
    assert text.index("| A/A: pristine against pristine |") < text.index("## Verdicts")


def test_bars_of_a_measure_share_one_scale() -> None:
    time, accuracy = panels(example.analysis())
    for panel in (time, accuracy):
        zeros = {re.findall(r'class="zero" x1="([^"]+)"', bar.drawing)[0] for bar in panel.bars}
        assert len(zeros) == 1


def test_a_bar_without_an_estimate_says_why() -> None:
    analysis = example.analysis()
    analysis["bars"]["time"][2] = {"label": "A/known-bad", "not_estimable": "no such arm"}
    analysis["bars"]["accuracy"] = []
    files = render_run_report(analysis, example.plan())
    page = files["report.html"].decode()
    assert html_cells(page)["bars.time.A/known-bad"] == "not estimable: no such arm"
    assert "bars-accuracy" not in page
    assert "not estimable: no such arm" in files["report.md"].decode()


def test_a_ratio_of_zero_breaks_no_axis() -> None:
    analysis = example.analysis()
    analysis["bars"]["time"][0] |= {"low": 0.0}
    analysis["bars"]["accuracy"] = [{"label": "A/A", "estimate": 0.0, "low": 0.0, "high": 0.0}]
    assert render_run_report(analysis, example.plan())["report.html"]


def test_chances_stand_by_their_predictions(page: str, files: dict[str, bytes]) -> None:
    cells = html_cells(page)
    assert "if nothing differed: < 1\u202f%" in cells["verdicts.P1.claim"]
    assert "if nothing differed: 83\u202f%" in cells["verdicts.P2.claim"]
    assert "if nothing differed" not in cells["verdicts.P3.claim"]
    assert b'"P2.chance":{"text":"83' in files["numbers.json"]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0"), (0.001, "< 1"), (0.5, "50"), (0.999, "> 99"), (1.0, "100")],
)
def test_only_certainty_is_printed_as_certain(share: float, text: str) -> None:
    assert chance_text(share) == f"{text}\u202f%"


def test_every_prediction_has_a_sentence_that_can_stand_alone(page: str) -> None:
    cells = html_cells(page)
    lines = {name: text for name, text in cells.items() if name.startswith("sentences.")}
    assert len(lines) == 5
    about = (
        "attempt 1 of 2, unanchored; checkpoint tiny_ripe, item source arithmetic, "
        "device class cpu-x86_64-avx2, registered run."
    )
    assert all(text.endswith(about) for text in lines.values())
    assert lines["sentences.P3"].startswith(
        "Prediction P3 (secondary), “at least nine in ten drafted tokens are accepted”, failed: "
        "estimate 86.8\u202f%, 95\u202f% interval [85.7, 87.8], frozen region ≥ 90\u202f%, "
        "40 blocks; "
    )
    assert "is void: not estimable (the wall clock" in lines["sentences.P4"]
    assert "failed, as a control must: " in lines["sentences.C1"]


def test_sentences_are_in_every_format_and_carry_a_warning() -> None:
    analysis = {**example.analysis(), "exit_code": 6, "role": "replication"}
    files = render_run_report(analysis, example.plan())
    for name in ("report.html", "report.md", "report.tex"):
        text = files[name].decode()
        assert "Sentences to paste" in text
        assert text.count(", replication; not to be relied on: the run deviates") == 5


def test_agreement_has_its_floor_beside_it(page: str) -> None:
    cells = html_cells(page)
    assert "own\u00a0A/A\u00a099.5\u202f%" in cells["arms.patched.agreement"]
    assert cells["arms.pristine.agreement"] == "reference own\u00a0A/A\u00a099.5\u202f%"


def test_acceptance_by_place_is_drawn_and_tabled(page: str, files: dict[str, bytes]) -> None:
    assert html_cells(page)["places.1.patched"] == "92.6\u202f% 2890/3120"
    for name in ("places", "positions", "sorted"):
        assert files[f"figure_{name}.svg"].startswith(b"<?xml")
    assert "In 40 of 40 blocks the ratio lies above 1" in page


def test_older_analyses_lose_only_what_they_lack() -> None:
    files = render_run_report(example.older(), example.plan())
    page = files["report.html"].decode()
    assert 'id="bars-' not in page and "own\u00a0A/A" not in page
    assert "if nothing differed" not in page
    assert "not recorded: no arm has acceptance by place" in page
    assert "not recorded: no effect of the position" in page
    assert "figure_places.svg" not in files
    assert html_cells(page)["sentences.P1"]


def test_odd_values_break_nothing() -> None:
    analysis = copy.deepcopy(example.analysis())
    analysis["bars"] = {"time": [{"label": None, "arms": "x", "estimate": "nan"}, 3]}
    analysis["verdicts"][0]["chance_if_no_effect"] = float("nan")
    analysis["arms"]["patched"]["acceptance_by_place"] = [{"tried": 0, "kept": 0}, {}, 1]
    analysis["arms"]["patched"]["agreement_within"] = {"k": 0, "n": 0}
    analysis["series"]["positions"] = [{"position": None}, {"position": 1, "arm": "a"}]
    text = render_run_report(analysis, example.plan())["report.html"].decode()
    assert not re.search(r"\b(nan|None|inf)\b", text)
