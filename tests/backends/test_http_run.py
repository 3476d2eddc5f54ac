"""Whole runs over HTTP: what the runner makes of a server's good and bad days."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.measure.evaluate import Scope, evaluate
from harness.plan.checks import check
from harness.plan.schema import Plan
from harness.plan.visible import unseen
from harness.run.supervisor import execute
from harness.store.canonical import canonical
from harness.store.errors import NotReadyError, UsageError
from tests.backends.http_servers import Server, serving
from tests.run.bench import journal, kinds, new_run, plan_of
from tests.run.drill import check_finished

QUICK = {"aa_blocks": 0, "launches_per_arm": 1, "blocks": 2, "spare_blocks": 1}


def arm(server: Server, role: str, **options: Any) -> dict[str, Any]:
    given = {"url": server.url, "hello_timeout_s": 5.0, **options}
    return {"role": role, "backend": "http", "options": given}


def test_two_servers_are_compared_by_the_wall_clock(tmp_path: Path) -> None:
    with serving(kind="vllm", token_ms=2) as slow, serving(kind="sglang") as fast:
        arms = {
            "pristine": arm(slow, "pristine", fingerprint=False),
            "patched": arm(fast, "patched", api="sglang", attest={"patch": "fast"}),
        }
        plan = plan_of(arms, {"blocks": 3, "aa_blocks": 2}, {"aa_ratio": 100.0})
        context = new_run(tmp_path, plan)
        assert execute(context).finished == 3
    records = journal(context.paths)
    ready = kinds(records, "launch", event="ready", arm="patched")[0]["info"]
    assert ready["engine"]["attested_by_the_user"] == ["patch fast"]
    assert ready["patch"]["name"] == "fast (attested_by_the_user)"
    visit = kinds(records, "visit", phase="scored", arm="patched")[0]
    assert visit["patch_counters"] == {"attested_by_the_user": 2}
    assert kinds(records, "aa")[0]["clock"] == "decode_ns"
    trial = kinds(records, "trial", phase="scored")[0]
    assert trial["score"]["status"] == "right"
    check_finished(context.paths, plan)
    scope = Scope("r", "unregistered", 1, None, "cpu")
    analysis = evaluate(plan, context.order, records, scope)
    assert "tokens_per_cpu_second" not in analysis["arms"]["pristine"]
    assert analysis["arms"]["pristine"]["tokens_per_second"] > 0
    assert "log_ratio_cpu" not in analysis["series"]["pair"][0]
    assert analysis["series"]["pair"][0]["log_ratio_wall"] > 0


def test_a_run_against_no_server_says_where_it_looked(tmp_path: Path) -> None:
    with serving() as server:
        arms = {"pristine": arm(server, "pristine"), "patched": arm(server, "patched")}
    context = new_run(tmp_path, plan_of(arms, QUICK))
    with pytest.raises(NotReadyError) as caught:
        execute(context)
    port = server.url.rpartition(":")[2]
    assert str(caught.value) == (
        f"arms.pristine: worker did not start: 127.0.0.1:{port}: connection refused; no server "
        "listens there"
    )


def test_a_server_that_hangs_in_a_visit_is_a_censored_outcome(tmp_path: Path) -> None:
    with serving() as server:
        arms = {"pristine": arm(server, "pristine"),
                "patched": arm(server, "patched", attest={"patch": "fast"})}  # fmt: skip
        plan = plan_of(arms, QUICK, {"item_timeout_s": 0.5})
        context = new_run(tmp_path, plan)
        server.ways.hang = context.items[0].prompt
        assert execute(context).finished == 2
    records = journal(context.paths)
    late = [t for t in kinds(records, "trial", phase="scored") if t["status"] == "timeout"]
    assert {t["key"]["item"] for t in late} == {context.items[0].id}
    assert {t["score"]["status"] for t in late} == {"no_answer"}
    assert late[0]["error"] == "no answer within 0.5 s"
    visits = [v for v in kinds(records, "visit", phase="scored") if v["status"] == "timeout"]
    assert all(v["timing"]["decode_ns"] >= 5e8 for v in visits)
    check_finished(context.paths, plan)


def test_a_patched_arm_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    from harness.store.errors import RefusedError

    with serving() as server:
        arms = {"pristine": arm(server, "pristine"), "patched": arm(server, "patched")}
        context = new_run(tmp_path, plan_of(arms, QUICK))
        with pytest.raises(RefusedError, match=r"arms\.patched: is patched but shows no patch"):
            execute(context)


@pytest.mark.parametrize("of", ["decode_cpu_seconds", "cache_bytes"])
def test_what_a_client_cannot_see_cannot_be_predicted(of: str) -> None:
    url = {"options": {"url": "http://127.0.0.1:1"}, "backend": "http"}
    arms = {"pristine": {"role": "pristine", **url}, "patched": {"role": "patched", **url}}
    prediction = {
        "id": "P1", "claim": "faster", "region": [1.1, None], "family": "primary",
        "estimand": {"kind": "log_ratio", "of": of, "cluster": "block"},
        "confidence": 0.5, "min_clusters": 2,
    }  # fmt: skip
    values = plan_of(arms, QUICK).model_dump(mode="json", exclude_none=True)
    plan = Plan.model_validate_json(canonical({**values, "predictions": [prediction]}))
    with pytest.raises(UsageError, match=f"predictions.P1.estimand.of: {of} can't be seen of"):
        check(plan)


@pytest.mark.parametrize("metric", ["tokens_per_cpu_second", "cache_bytes"])
def test_nor_can_it_decide_a_selection(metric: str) -> None:
    url = {"options": {"url": "http://127.0.0.1:1"}, "backend": "http"}
    arms = {"pristine": {"role": "pristine", **url}, "patched": {"role": "patched", **url}}
    selection = {"from": "select_x", "candidates": [{"arm": "a"}], "rule": {"maximize": metric}}
    values = plan_of(arms, QUICK).model_dump(mode="json", exclude_none=True)
    plan = Plan.model_validate_json(canonical({**values, "selection": selection}))
    assert any(f"selection.rule: {metric} can't be seen of" in said for said in unseen(plan))
