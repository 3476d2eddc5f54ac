"""Runs in the engine's interpreter: one SGLang engine, a list of calls, results as JSON.

Usage: python agreement_script.py JOB RESULT. A job has `arguments` (of the engine) and `calls`; a
call has `prompts` and either `forced` (tokens for each prompt, dealt out one a step) or `new` (how
many tokens to decode greedily), and `prompt_logprobs`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor


class Forced(CustomLogitProcessor):
    """Deals out given tokens, and writes every row of log-probs to a file before it does."""

    def __call__(self, logits, custom_param_list=None):
        import torch

        rows = torch.log_softmax(logits.float(), -1)
        for row, params in zip(range(len(logits)), custom_param_list, strict=True):
            step = params.setdefault("step", 0)
            with open(params["file"], "ab") as file:  # noqa: PTH123
                file.write(rows[row].contiguous().numpy().tobytes())
            # One more pass may run before the engine sees that the answer is complete.
            token = params["tokens"][min(step, len(params["tokens"]) - 1)]
            logits[row] = -1000.0
            logits[row, token] = 0.0
            params["step"] = step + 1
        return logits


def main(job_file: str, result_file: str) -> None:
    import sglang

    job = json.loads(Path(job_file).read_text())
    engine = sglang.Engine(**job["arguments"])
    results = [
        call(engine, content, f"{result_file}.{n}") for n, content in enumerate(job["calls"])
    ]
    Path(result_file).write_text(json.dumps(results))
    engine.shutdown()


def call(engine, content, stem):
    prompts = content["prompts"]
    more = {}
    if "forced" in content:
        more["custom_logit_processor"] = Forced.to_str()
        params = [
            {
                "max_new_tokens": len(tokens),
                "ignore_eos": True,
                "temperature": 0,
                "custom_params": {"tokens": tokens, "file": f"{stem}.{row}"},
            }
            for row, tokens in enumerate(content["forced"])
        ]
    else:
        params = {"max_new_tokens": content["new"], "ignore_eos": True, "temperature": 0}
    if content.get("prompt_logprobs"):
        more["logprob_start_len"] = [0] * len(prompts)
    found = engine.generate(input_ids=prompts, sampling_params=params, return_logprob=True, **more)
    rows = []
    for row, item in enumerate(found):
        info = item["meta_info"]
        rows.append(
            {
                "tokens": item["output_ids"],
                "logprobs": [entry[0] for entry in info["output_token_logprobs"]],
                "prompt_logprobs": [entry[0] for entry in info.get("input_token_logprobs") or []],
                "cached": info["cached_tokens"],
                "retractions": info.get("num_retractions", 0),
                "file": f"{stem}.{row}" if "forced" in content else None,
            }
        )
    return rows


if __name__ == "__main__":
    main(*sys.argv[1:])
