"""Your own engine as an arm: answer five requests, one JSON object per line. Standard library only.

arms:
  mine: {role: patched, backend: process, options: {command: [python, examples/own_engine.py]}}
"""

import json
import sys
import time


def answer(request, state):
    """Return the reply to one request; replace `upper` by your engine."""
    if request["op"] == "hello":
        state["patched"] = request["arm"]["role"] == "patched"
        patch = {"claims": state["patched"], "name": "upper"}
        return {"protocol": 1, "backend": "upper", "versions": {}, "device": "cpu", "patch": patch}
    if request["op"] == "probe":
        return {"fingerprint": None, "counters": {"upper": 0}}
    if request["op"] == "reset":
        return {"cache_entries": 0}
    if request["op"] == "close":
        return {}
    results, wall, cpu = [], time.monotonic_ns(), time.thread_time_ns()
    for item in request["items"]:
        text = item["prompt"].upper()
        results.append({"item": item["id"], "status": "ok", "text": text, "finish": "stop",
                        "token_ids": list(text.encode()), "prompt_tokens": len(item["prompt"]),
                        "counters": {"passes": 1}, "cache_bytes": 0})  # fmt: skip
    wall, cpu = time.monotonic_ns() - wall, time.thread_time_ns() - cpu
    timing = {"prefill_ns": 0, "decode_ns": wall, "total_ns": wall,
              "prefill_cpu_ns": 0, "decode_cpu_ns": cpu, "total_cpu_ns": cpu}  # fmt: skip
    return {"id": request["id"], "results": results, "timing": timing,
            "cache": {"entries_before": 0, "hits": 0, "peak_bytes": 0},
            "patch_counters": {"upper": len(results) if state["patched"] else 0}}  # fmt: skip


state = {"patched": False}
for line in sys.stdin.buffer:
    sys.stdout.write(json.dumps({"ok": True, **answer(json.loads(line), state)}) + "\n")
    sys.stdout.flush()
