from __future__ import annotations

import pytest

from harness.report.run_report import render_run_report
from tests.report import example


def render() -> dict[str, bytes]:
    return render_run_report(
        example.analysis(),
        example.plan(),
        lock=example.lock(),
        ledger_head=example.head(),
        model_card={"parameters": "1.31 M", "license": "Apache-2.0"},
    )


@pytest.fixture(scope="session")
def files() -> dict[str, bytes]:
    return render()


@pytest.fixture(scope="session")
def page(files: dict[str, bytes]) -> str:
    return files["report.html"].decode()
