"""Tokens held by a KV pool of fixed bytes, and the throughput that follows: SGLang, in one run.

    python benchmarks/sglang.py --python ENGINE_PYTHON [--model tiny_ripe] [--window 16]
        [--pool-mib 34] [--requests 48] [--prompt 64] [--new 48] [--json FILE]

ENGINE_PYTHON is the interpreter of `harness env create sglang`. Three engines are started one after
the other, each with a pool of the same bytes: full (pristine), deepest and RIPE (patched). Each
takes as many requests at once as its pool holds whole, and serves the same workload. Times on a
shared machine mean little; the ratios were taken in one run. On a CPU SGLang's attention goes
request by request, so a larger batch gains little there: the tokens held are the result, and the
throughput says how much of them this machine can use.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
POLICIES = ("full", "deepest", "ripe")
DEADLINE_S = 900


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        inside(Path(sys.argv[2]))
        return
    args = parse()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for policy in POLICIES:
            rows.append(measure(args, policy, Path(folder) / policy))
            print(line(rows[-1], rows[0]), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"arguments": shown(args), "rows": rows}, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", required=True, type=Path)
    parser.add_argument("--model", default="tiny_ripe")
    parser.add_argument("--loops", type=int, default=None, help="default: the model's own")
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--pool-mib", type=float, default=34.0)
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--new", type=int, default=48)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    from harness.looped.config_files import read_config
    from harness.looped.weights import find

    args.folder = find(args.model)
    args.config = read_config(args.folder / "config.json")
    args.loops = args.loops or args.config.loops
    print(
        f"{args.model}, {args.loops} loops, float32, pool of {args.pool_mib} MiB, "
        f"{args.requests} requests of {args.prompt} + {args.new} tokens"
    )
    print(f"{'policy':>10} {'tokens':>8} {'at once':>8} {'batch':>6} {'tok/s':>8} {'ratio':>6} "
          f"{'CPU s':>7} {'ratio':>6} {'pool MiB':>9}")  # fmt: skip
    return args


def shown(args: argparse.Namespace) -> dict[str, Any]:
    return {k: v for k, v in vars(args).items() if isinstance(v, (int, float, str))}


def sizes(args: argparse.Namespace, policy: str) -> tuple[int, int, int]:
    """Requests at once, tokens of the pool, and bytes by formula; requests fit whole."""
    from harness.backends.sglang.pool import padding_bytes, pool_bytes, tokens_within

    same = {
        "policy": policy, "window": args.window, "loops": args.loops, "page_size": 1, "itemsize": 4,
    }  # fmt: skip
    budget = int(args.pool_mib * 2**20)
    length = args.prompt + args.new
    count = 0
    while count < 4096:
        try:
            tokens = tokens_within(args.config, budget, requests=count + 1, **same)
        except ValueError:
            break
        if tokens < (count + 1) * length:
            break
        count += 1
    if not count:
        raise SystemExit(
            f"{policy}: the pool holds no request of {length} tokens; raise --pool-mib"
        )
    tokens = tokens_within(args.config, budget, requests=count, **same)
    total = pool_bytes(args.config, tokens=tokens, requests=count, **same)
    return count, tokens, total + padding_bytes(args.config, **same)


def measure(args: argparse.Namespace, policy: str, folder: Path) -> dict[str, Any]:
    """Start one engine, serve the workload, and check the pool's bytes against the formula."""
    from harness.backends.sglang.report import read_counters, read_facts
    from harness.backends.sglang.view import make_view

    count, tokens, total = sizes(args, policy)
    planes = "full" if policy == "full" else "shared"
    make_view(args.folder, folder / "view", loops=args.loops, planes=planes, dtype="float32")
    window = args.window if policy == "ripe" else 0
    settings = {
        "window": window, "loops": args.loops, "requests": count, "prefill": "full_prompt",
    }  # fmt: skip
    rng = random.Random(1)
    prompts = [[rng.randrange(3, 250) for _ in range(args.prompt)] for _ in range(args.requests)]
    job = {
        "arguments": engine_arguments(folder / "view", policy, tokens, count),
        "prompts": prompts,
        "new": args.new,
    }
    (folder / "job.json").write_text(json.dumps(job))
    start(args, policy, settings, folder)
    found = json.loads((folder / "result.json").read_text())
    counters, facts = read_counters(folder / "report"), read_facts(folder / "report")
    pool = next(f["pool"] for f in facts if f["plugin"] == "harness_observer")
    assert pool["bytes"] == total, f"{policy}: pool {pool['bytes']} bytes, formula {total}"
    assert found["retractions"] == 0, f"{policy}: {found['retractions']} retractions"
    answer = args.requests * args.new
    return {
        "policy": f"ripe({window})" if policy == "ripe" else policy,
        "pool_bytes": total,
        "pool_tokens": pool["size"],
        "requests_at_once": count,
        "mean_batch": counters["decode_rows"] / max(counters["decode_forwards"], 1),
        "seconds": found["seconds"],
        "cpu_seconds": found["cpu_seconds"],
        "tokens_per_second": answer / found["seconds"],
    }


def engine_arguments(view: Path, policy: str, tokens: int, count: int) -> dict[str, Any]:
    return {
        "model_path": str(view),
        "skip_tokenizer_init": True,
        "device": "cpu",
        "attention_backend": "torch_native" if policy == "full" else "ripe_torch_native",
        "sampling_backend": "pytorch",
        "grammar_backend": "none",
        "dtype": "float32",
        "disable_cuda_graph": True,
        "disable_radix_cache": True,
        "max_total_tokens": tokens,
        "max_running_requests": count,
        "chunked_prefill_size": -1,
        "mem_fraction_static": 0.5,
        "skip_server_warmup": True,
        "random_seed": 1,
        "log_level": "error",
    }


def start(args: argparse.Namespace, policy: str, settings: dict[str, Any], folder: Path) -> None:
    """One engine in a session of its own, ended whole whatever happens."""
    plugins = ["observer"] if policy == "full" else ["observer", "ripe"]
    dist = ROOT / "harness" / "backends" / "sglang" / "dist"
    (folder / "wire").mkdir()
    (folder / "report").mkdir()
    (folder / "wire" / "harness").symlink_to(ROOT / "harness")
    paths = [str(folder / "wire"), *(str(dist / name) for name in plugins)]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "SGLANG_USE_CPU_ENGINE": "1",
        "OMP_NUM_THREADS": "1",
        "SGLANG_EXTERNAL_MODEL_PACKAGE": "harness.backends.sglang.models",
        "SGLANG_PLUGINS": ",".join(f"harness_{name}" for name in plugins),
        "HARNESS_ENGINE_REPORT": str(folder / "report"),
        "HARNESS_RIPE": json.dumps(settings),
    }
    with (folder / "stderr").open("w+") as stderr:
        process = subprocess.Popen(
            [str(args.python), __file__, "--inside", str(folder)],
            env=env, stdout=stderr, stderr=stderr, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(DEADLINE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code:
            stderr.seek(0)
            raise SystemExit(f"{policy}: the engine ended with {code}:\n{stderr.read()[-3000:]}")


def inside(folder: Path) -> None:
    """In the engine's interpreter: a short warm-up, then the workload, timed."""
    # The folder of this file holds a module named as the engine is.
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).parent]
    import sglang

    job = json.loads((folder / "job.json").read_text())
    engine = sglang.Engine(**job["arguments"])
    params = {"max_new_tokens": job["new"], "ignore_eos": True, "temperature": 0}
    engine.generate(input_ids=job["prompts"][:1], sampling_params={**params, "max_new_tokens": 4})
    cpu, began = children_cpu(), time.monotonic()
    found = engine.generate(input_ids=job["prompts"], sampling_params=params)
    result = {
        "seconds": time.monotonic() - began,
        "cpu_seconds": children_cpu() - cpu,
        "retractions": sum(item["meta_info"].get("num_retractions", 0) for item in found),
        "tokens": [item["output_ids"] for item in found],
    }
    (folder / "result.json").write_text(json.dumps(result))
    engine.shutdown()


def children_cpu() -> float:
    """CPU seconds of the engine's processes so far."""
    import psutil

    children = psutil.Process().children(recursive=True)
    return sum(sum(child.cpu_times()[:2]) for child in children)


def line(row: dict[str, Any], first: dict[str, Any]) -> str:
    speed = row["tokens_per_second"]
    return (
        f"{row['policy']:>10} {row['pool_tokens']:8d} {row['requests_at_once']:8d} "
        f"{row['mean_batch']:6.1f} {speed:8.1f} {speed / first['tokens_per_second']:6.2f} "
        f"{row['cpu_seconds']:7.1f} {first['cpu_seconds'] / row['cpu_seconds']:6.2f} "
        f"{row['pool_bytes'] / 2**20:9.2f}"
    )


if __name__ == "__main__":
    main()
