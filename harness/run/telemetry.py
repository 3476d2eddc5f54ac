"""What the machine did during a visit: load and clocks, sampled while the runner waits."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

from harness.store.canonical import Json

Sampler = Callable[[], dict[str, float]]


class Telemetry:
    """Collects from construction to `summary`; `sample` is cheap enough for twice a second."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._sampler = sampler
        self._samples: list[dict[str, float]] = []
        self._began_ns = time.monotonic_ns()
        self._cpu = psutil.cpu_times()
        self.sample()

    def sample(self) -> None:
        """Take one reading."""
        reading = {"load_average": psutil.getloadavg()[0]}
        if self._sampler is not None:
            reading |= self._sampler()
        self._samples.append(reading)

    def summary(self) -> Json:
        """Return means and lowest clocks; `roundtrip_ns` is the visit by the runner's own clock."""
        roundtrip = time.monotonic_ns() - self._began_ns
        self.sample()
        names = sorted({name for reading in self._samples for name in reading})
        result: Json = {"roundtrip_ns": roundtrip, "samples": len(self._samples)}
        for name in names:
            values = [reading[name] for reading in self._samples if name in reading]
            value = min(values) if name.endswith("_mhz") else sum(values) / len(values)
            result[name] = round(value, 3)
        busy = _busy_share(self._cpu, psutil.cpu_times())
        return result if busy is None else {**result, "cpu_busy_share": busy}


def cpu_clock() -> dict[str, float]:
    """Return the mean CPU clock where the system tells it."""
    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError, AttributeError):
        return {}
    return {"cpu_mhz": float(frequency.current)} if frequency else {}


def gpu_clocks() -> Sampler | None:
    """Return a reader of the first NVIDIA device, or None where there is none."""
    try:
        import pynvml

        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
    except Exception:  # noqa: BLE001 - no module, no driver and no device all mean: nothing to read
        return None

    def read() -> dict[str, float]:
        memory = pynvml.nvmlDeviceGetMemoryInfo(device)
        return {
            "gpu_sm_mhz": pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM),
            "gpu_power_w": pynvml.nvmlDeviceGetPowerUsage(device) / 1e3,
            "gpu_temperature_c": pynvml.nvmlDeviceGetTemperature(device, 0),
            "gpu_throttle_reasons": pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(device),
            "gpu_memory_mib": memory.used / 2**20,
        }

    return read


def _busy_share(before: object, after: object) -> float | None:
    spent = {
        name: getattr(after, name) - getattr(before, name)
        for name in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
        if hasattr(after, name)
    }
    total = sum(spent.values())
    idle = spent.get("idle", 0.0) + spent.get("iowait", 0.0)
    return round(1 - idle / total, 3) if total > 0 else None
