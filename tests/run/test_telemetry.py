"""What is sampled around a visit, and what is left out where nothing can be read."""

from __future__ import annotations

import time

from harness.run.telemetry import Telemetry, cpu_clock, gpu_clocks
from harness.store.canonical import canonical


def test_clocks_are_the_lowest_and_the_rest_are_means() -> None:
    readings = iter([{"cpu_mhz": 3000.0, "power_w": 10.0}, {"cpu_mhz": 1200.0, "power_w": 20.0},
                     {"cpu_mhz": 2000.0}])  # fmt: skip
    telemetry = Telemetry(lambda: next(readings))
    telemetry.sample()
    time.sleep(0.02)
    found = telemetry.summary()
    assert (found["cpu_mhz"], found["power_w"], found["samples"]) == (1200.0, 15.0, 3)
    assert found["roundtrip_ns"] >= 20_000_000
    assert canonical(found)


def test_a_machine_that_tells_nothing_gives_no_fields() -> None:
    assert all(value >= 0 for value in cpu_clock().values())
    sampler = gpu_clocks()
    assert sampler is None or "gpu_sm_mhz" in sampler()
    assert "gpu_sm_mhz" not in Telemetry(None).summary()
