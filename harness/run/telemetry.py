"""What the machine did during a visit: load, clocks and memory, sampled while the runner waits."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Collection, Iterable
from functools import reduce
from operator import or_

import psutil

from harness.run.family import descendants, is_marked
from harness.store.canonical import Json

Reading = dict[str, float]
Sampler = Callable[[], Reading]

SHORTEST_S = 0.5
"""Of visits whose foreign load is told; the kernel counts CPU time in steps of 10 ms."""


class Telemetry:
    """Collects from construction to `summary`; `sample` is cheap enough for four times a second.

    `pids` are the run's own workers: what they and their descendants use is not foreign, and
    `workers_mib` is the memory of all of them together. Nothing reads it back; early runs call it
    `worker_mib`.
    """

    def __init__(self, sampler: Sampler | None = None, pids: Collection[int] = ()) -> None:
        self._sampler = sampler
        self._pids = tuple(filter(None, pids))
        self._own: dict[int, _Own] = {os.getpid(): _Own(os.getpid())}
        self._began_ns = time.monotonic_ns()
        self._busy = _busy_s()
        self._find(since_birth=False)
        self.samples: list[Reading] = []
        self.sample()

    def sample(self) -> None:
        """Take one reading; `at_ms` is the time since the start."""
        reading = {"at_ms": round((time.monotonic_ns() - self._began_ns) / 1e6, 3)}
        reading["load_average"] = psutil.getloadavg()[0]
        reading["workers_mib"] = self._memory_mib()
        if self._sampler is not None:
            reading |= self._sampler()
        self.samples.append(reading)

    def summary(self) -> Json:
        """Return one number per name; `roundtrip_ns` is the visit by the runner's own clock."""
        roundtrip = time.monotonic_ns() - self._began_ns
        self.sample()
        names = sorted({name for reading in self.samples for name in reading} - {"at_ms"})
        result: Json = {"roundtrip_ns": roundtrip, "samples": len(self.samples)}
        for name in names:
            result[name] = _summary(name, [r[name] for r in self.samples if name in r])
        return result | self._foreign(roundtrip / 1e9)

    def _foreign(self, seconds: float) -> Json:
        """Cores, on average, that other processes kept busy; left out for visits too short."""
        self._find(since_birth=True)
        busy = _busy_s() - self._busy
        used = math.fsum(own.used_s() for own in self._own.values())
        if seconds < SHORTEST_S:
            return {}
        return {
            "busy_cores": round(busy / seconds, 3),
            "foreign_load": round(max(0.0, busy - used) / seconds, 3),
        }

    def _find(self, *, since_birth: bool) -> None:
        """Look for workers and descendants; those that began meanwhile count from their start."""
        for pid in {*self._pids, *descendants(self._pids)} - self._own.keys():
            self._own[pid] = _Own(pid, since_birth=since_birth)

    def _memory_mib(self) -> float:
        workers = (own for pid, own in self._own.items() if pid != os.getpid())
        return round(sum(own.resident_bytes() for own in workers) / 2**20, 1)


class _Own:
    """A process of the run: its CPU time since it was found, or since it began."""

    def __init__(self, pid: int, *, since_birth: bool = False) -> None:
        self._process = _process(pid)
        self._last = self._first = self._cpu_s()
        if since_birth:
            self._first = 0.0

    def used_s(self) -> float:
        """Return the seconds used; of a process that has ended, those last seen."""
        self._last = max(self._last, self._cpu_s())
        return self._last - self._first

    def resident_bytes(self) -> int:
        """Return its memory, nothing once it has ended."""
        with contextlib.suppress(psutil.Error):
            if self._process is not None:
                return int(self._process.memory_info().rss)
        return 0

    def _cpu_s(self) -> float:
        with contextlib.suppress(psutil.Error):
            if self._process is not None:
                times = self._process.cpu_times()
                return float(times.user + times.system)
        return 0.0


def _summary(name: str, values: list[float]) -> float:
    """Return the lowest clock, the highest memory or heat, all reasons together, else the mean.

    A clock's opening sample is left out: before the engine works, clocks may rest.
    """
    if name.endswith("_mhz"):
        return round(min(values[1:] or values), 3)
    if name.endswith(("_mib", "_c")):
        return round(max(values), 3)
    if name.endswith("_reasons"):
        return reduce(or_, map(int, values))
    return round(math.fsum(values) / len(values), 3)


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def _busy_s() -> float:
    times = psutil.cpu_times()
    names = ("user", "nice", "system", "irq", "softirq", "steal")
    return math.fsum(getattr(times, name, 0.0) for name in names)


def cpu_clock() -> Reading:
    """Return the clock of the fastest core where the system tells it."""
    try:
        cores = psutil.cpu_freq(percpu=True)
    except (OSError, NotImplementedError, AttributeError):
        return {}
    clocks = [float(core.current) for core in cores or [] if core.current]
    return {"cpu_mhz": max(clocks)} if clocks else {}


def gpu_clocks() -> Sampler | None:
    """Return a reader of the first NVIDIA device, or None where there is none."""
    try:
        import pynvml

        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons
    except Exception:  # noqa: BLE001 - no module, no driver and no device all mean: nothing to read
        return None

    def read() -> Reading:
        readings: dict[str, Callable[[], float]] = {
            "gpu_sm_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM),
            "gpu_memory_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_MEM),
            "gpu_power_w": lambda: pynvml.nvmlDeviceGetPowerUsage(device) / 1e3,
            "gpu_temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(device, 0),
            "gpu_throttle_reasons": lambda: reasons(device),
            "gpu_memory_mib": lambda: pynvml.nvmlDeviceGetMemoryInfo(device).used / 2**20,
            "gpu_foreign_processes": lambda: _foreign(
                process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(device)
            ),
        }
        found = {}
        for name, value in readings.items():
            with contextlib.suppress(pynvml.NVMLError):
                found[name] = float(value())
        return found

    return read


def _foreign(pids: Iterable[int]) -> int:
    """Return how many processes are none of a run's workers."""
    return sum(not is_marked(pid) for pid in pids)


def sampler_of(device: str) -> Sampler | None:
    """Return what reads the clocks of a plan's device."""
    return gpu_clocks() if device == "cuda" else cpu_clock
