"""The index vectors under SGLang's own triton kernels, interpreted on the CPU.

HARNESS_SGLANG_TRITON_PYTHON names an interpreter with SGLang and real triton, not the stand-in.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

import harness
from harness.backends.sglang.view import make_view
from harness.looped.policies import full, ripe
from harness.looped.weights import find, load
from tests.sglang.agreement_reference import log_probs
from tests.sglang.agreement_runs import Engine, run

PYTHON = os.environ.get("HARNESS_SGLANG_TRITON_PYTHON", "")
SCRIPT = Path(__file__).with_name("ripe_triton_script.py")
INTERPRETED = {"TRITON_INTERPRET": "1", "SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1"}
LOOPS, WINDOW = 4, 4

pytestmark = [
    pytest.mark.sglang,
    pytest.mark.timeout(420),
    pytest.mark.skipif(not PYTHON, reason="HARNESS_SGLANG_TRITON_PYTHON names no interpreter"),
]


def test_the_decode_kernel_reads_what_the_policy_names(tmp_path: Path) -> None:
    (tmp_path / "harness").symlink_to(Path(harness.__file__).parent)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [PYTHON, str(SCRIPT)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **INTERPRETED},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name, found in json.loads(done.stdout.splitlines()[-1]).items():
        print(name, found)
        assert found["from_policy"] < 1e-5, name
        assert found["from_full"] > 0.1, name


def test_an_engine_with_the_triton_backend_agrees(tmp_path: Path) -> None:
    source = find("tiny_ripe")
    make_view(source, tmp_path / "view", loops=LOOPS, planes="shared", dtype="float32")
    generator = torch.Generator().manual_seed(5)
    prompts, answers = (
        [torch.randint(3, 250, (n,), generator=generator).tolist() for n in lengths]
        for lengths in ((5, 17, 40, 3, 9), (8, 8, 8, 6, 7))
    )
    engine = Engine(
        tmp_path / "view",
        ripe={"window": WINDOW, "loops": LOOPS, "requests": 4, "prefill": "full_prompt"},
        python=PYTHON,
        variables=INTERPRETED,
        arguments={"attention_backend": "ripe_triton"},
    )
    found = run(engine, [{"prompts": prompts, "forced": answers}], tmp_path / "run")
    assert found.code == 0, found.stderr[-2000:]
    model, own, others = load(source), [], []
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        rows = torch.from_numpy(found.rows(0, row, model.config.vocab))
        for policy, into in ((ripe(WINDOW), own), (full(), others), (ripe(0), others)):
            expected = log_probs(model, prompt, answer, policy, "full_prompt", LOOPS)
            into.append(float((rows - expected[len(prompt) - 1 : -1]).abs().max()))
    print(f"own {max(own):.1e}, others {min(others):.1e}")
    assert max(own) < 1e-3
    assert min(others) > 0.1
