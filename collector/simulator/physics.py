"""The physics of one simulated GPU, on the tick grid.

One number drives everything: the load of a tick, between 0 and 1. Power is affine in it and constant
within a tick, so energy is exactly the integral of power; traffic and activity are proportional to it,
so they are exactly the integral of the load; temperatures follow power with a first-order lag.
"""

from __future__ import annotations

import math
import random
from collections import deque
from typing import Final

from collector.profiles import GpuProfile
from collector.simulator.timekeeper import TICK_SECONDS, TICKS_PER_SECOND
from collector.simulator.timeline import Timeline
from collector.simulator.workloads import Workload

# Temperatures at the power limit where the profile has no figures under load: chosen, between the 52 to
# 65 degrees of H100 and H200 under full load (utkuozdemir/nvidia_gpu_exporter captures).
_FULL_POWER_CELSIUS: Final = 62.0
_FULL_POWER_MEMORY_CELSIUS: Final = 58.0
# Memory power under full load as a multiple of idle where the profile has none: chosen, H100 and H200
# show 2.1 to 2.2 (same captures).
_FULL_MEMORY_POWER_RATIO: Final = 2.2

# Time constants of the temperatures: chosen.
_GPU_LAG_SECONDS: Final = 15.0
_MEMORY_LAG_SECONDS: Final = 20.0
_OVERHEAT_LAG_SECONDS: Final = 5.0
# Where an overheating GPU settles above its limit: past the slowdown margin of -2 or -3, before the
# shutdown margin of -5 or less.
_OVERHEAT_EXCESS_CELSIUS: Final = 4.0
# "Reducing the core clocks by a factor of 2 or more": nvmlClocksEventReasonHwThermalSlowdown, nvml.h.
OVERHEAT_CLOCK_RATIO: Final = 0.5

# Unrest of the power reading at a steady load: chosen.
_POWER_NOISE_RATIO: Final = 0.005
# How much of a tick's random load stays in the next: chosen.
_NOISE_MEMORY: Final = 0.8

# The driver was loaded some time before the simulation began, so counters do not begin at zero.
_UPTIME_SECONDS_RANGE: Final = (3_600.0, 30 * 86_400.0)


class GpuPhysics:
    """The moving state of one GPU.

    All accumulations run from the node's start and never restart; what restarts are the bases that are
    subtracted when a counter is read.

    Args:
        gpu: The GPU's figures.
        workload: What it does.
        timeline: The node's faults.
        index: Index of the GPU.
        seed: Seed of this GPU.
        phase: Where in the workload's period the node begins, from 0 to 1; GPUs of a node work in step.

    Attributes:
        tick: The tick that the state describes.
        watts: Power during this tick.
        load: Load during this tick.
        joules: Energy from the node's start to the beginning of this tick.
        load_seconds: Integral of the load over the same time.
        celsius: GPU temperature.
        memory_celsius: Memory temperature.
        base_tick: When the counters last began: a negative tick before the node's start.
        base_joules: Energy at that time.
        base_load_seconds: Integral of the load at that time.
        driver_base_tick: When the driver was last loaded.
        driver_base_joules: Energy at that time.
        driver_base_load_seconds: Integral of the load at that time.
        engine_base_load_seconds: Integral of the load when the serving engine last began.
        restarted: Whether counters have restarted since the node's start.
        down_links: Links that are down during this tick.
    """

    def __init__(
        self, gpu: GpuProfile, workload: Workload, timeline: Timeline, index: int, seed: str, phase: float
    ) -> None:
        self._gpu = gpu
        self._workload = workload
        self._timeline = timeline
        self._index = index
        self._seed = seed
        period_ticks = max(1, round(workload.period_seconds * TICKS_PER_SECOND))
        first = round(phase * period_ticks)
        self._wave = [
            workload.load_level
            + workload.load_swing * math.sin(2 * math.pi * ((first + position) % period_ticks) / period_ticks)
            for position in range(period_ticks)
        ]
        full_watts = gpu.burn.watts if gpu.burn else gpu.power_default_watts
        full_celsius = gpu.burn.celsius if gpu.burn else _FULL_POWER_CELSIUS
        full_memory_celsius = gpu.burn.memory_celsius if gpu.burn else _FULL_POWER_MEMORY_CELSIUS
        span_watts = full_watts - gpu.idle_watts
        self._celsius_per_watt = (full_celsius - gpu.idle_celsius) / span_watts
        self._memory_celsius_per_watt = (full_memory_celsius - gpu.memory_idle_celsius) / span_watts
        self._load_watts = (gpu.power_default_watts - gpu.idle_watts) * workload.power_share
        full_memory_watts = (
            gpu.burn.memory_watts if gpu.burn else gpu.memory_idle_watts * _FULL_MEMORY_POWER_RATIO
        )
        self._memory_span_watts = (full_memory_watts - gpu.memory_idle_watts) * workload.memory_bandwidth
        self.restart()

    def restart(self) -> None:
        """Go back to the node's start."""
        self._random = random.Random(self._seed)
        uptime_seconds = self._random.uniform(*_UPTIME_SECONDS_RANGE)
        self.tick = 0
        self.joules = 0.0
        self.load_seconds = 0.0
        self.base_tick = self.driver_base_tick = -round(uptime_seconds * TICKS_PER_SECOND)
        self.base_joules = self.driver_base_joules = self.base_tick * TICK_SECONDS * self._gpu.idle_watts
        self.base_load_seconds = self.driver_base_load_seconds = self.engine_base_load_seconds = 0.0
        self.restarted = False
        self.down_links: frozenset[int] = frozenset()
        self._gaps: dict[int, float] = {}
        self._down_since: dict[int, float] = {}
        self._changes = iter(self._timeline.change_ticks(self._index))
        self._next_change = next(self._changes, None)
        self._resets = self._timeline.reset_ticks(self._index)
        self._driver_resets = self._timeline.driver_reset_ticks()
        self._engine_resets = self._timeline.engine_reset_ticks()
        self._noise = 0.0
        self._halted = self._overheated = self._engine_away = False
        self.celsius = self._gpu.idle_celsius
        self.memory_celsius = self._gpu.memory_idle_celsius
        if self._next_change == 0:
            self._change(0)
        self._draw()
        # Before the start the GPU drew what it draws in the first tick.
        self._history: deque[tuple[float, float]] = deque(
            (
                (self.watts * back * TICK_SECONDS, self.load * back * TICK_SECONDS)
                for back in range(-TICKS_PER_SECOND, 1)
            ),
            maxlen=TICKS_PER_SECOND + 1,
        )

    def advance(self, tick: int) -> None:
        """Bring the state to a tick; an earlier one than the present is computed again from the start.

        Args:
            tick: The tick.
        """
        if tick < self.tick:
            self.restart()
        gpu_rate = 1 - math.exp(-TICK_SECONDS / _GPU_LAG_SECONDS)
        memory_rate = 1 - math.exp(-TICK_SECONDS / _MEMORY_LAG_SECONDS)
        overheat_rate = 1 - math.exp(-TICK_SECONDS / _OVERHEAT_LAG_SECONDS)
        gpu = self._gpu
        overheat_celsius = gpu.temperature_limit_sum_celsius + _OVERHEAT_EXCESS_CELSIUS
        while self.tick < tick:
            self.joules += self.watts * TICK_SECONDS
            self.load_seconds += self.load * TICK_SECONDS
            self._history.append((self.joules, self.load_seconds))
            excess_watts = self.watts - gpu.idle_watts
            if self._overheated:
                self.celsius += (overheat_celsius - self.celsius) * overheat_rate
            else:
                settled = gpu.idle_celsius + excess_watts * self._celsius_per_watt
                self.celsius += (settled - self.celsius) * gpu_rate
            settled = gpu.memory_idle_celsius + excess_watts * self._memory_celsius_per_watt
            self.memory_celsius += (settled - self.memory_celsius) * memory_rate
            self.tick += 1
            if self.tick == self._next_change:
                self._change(self.tick)
            self._draw()

    def _draw(self) -> None:
        """Draw load and power of the present tick."""
        draw = self._random.random
        workload = self._workload
        self._noise = _NOISE_MEMORY * self._noise + (draw() - 0.5) * 2 * workload.load_noise
        unrest = 1 + (draw() - 0.5) * 2 * _POWER_NOISE_RATIO
        if self._halted or self._engine_away or workload.load_level == 0:
            self.load = 0.0
        else:
            # A GPU cannot do less than nothing or more than it can.
            self.load = min(1.0, max(0.0, self._wave[self.tick % len(self._wave)] + self._noise))
            if self._overheated:
                self.load *= OVERHEAT_CLOCK_RATIO
        self.watts = self._gpu.idle_watts * unrest + self._load_watts * self.load

    def _change(self, tick: int) -> None:
        """Apply what begins or ends at a tick."""
        timeline, index = self._timeline, self._index
        unloaded = timeline.driver_unloaded(tick)
        self._halted = unloaded or timeline.lost(index, tick)
        self._overheated = timeline.overheated(index, tick)
        self._engine_away = timeline.engine_away(tick)
        if tick in self._engine_resets:
            self.engine_base_load_seconds = self.load_seconds
        if tick in self._resets:
            self.base_tick, self.base_joules, self.base_load_seconds = tick, self.joules, self.load_seconds
            self.restarted = True
            self._gaps.clear()
            self._down_since = dict.fromkeys(self._down_since, self.load_seconds)
        if tick in self._driver_resets:
            self.driver_base_tick = tick
            self.driver_base_joules, self.driver_base_load_seconds = self.joules, self.load_seconds
        down = timeline.down_links(index, tick)
        for link in self.down_links - down:
            gap = self.load_seconds - self._down_since.pop(link)
            self._gaps[link] = self._gaps.get(link, 0.0) + gap
        for link in down - self.down_links:
            self._down_since[link] = self.load_seconds
        self.down_links = down
        self._next_change = next(self._changes, None)

    @property
    def overheated(self) -> bool:
        """Whether the GPU is in thermal slowdown."""
        return self._overheated

    @property
    def halted(self) -> bool:
        """Whether the GPU does nothing because it is off the bus or its driver is away."""
        return self._halted

    def joules_at(self, offset_seconds: float) -> float:
        """Return the energy since the node's start, some seconds into this tick."""
        return self.joules + self.watts * offset_seconds

    def load_seconds_at(self, offset_seconds: float) -> float:
        """Return the integral of the load since the node's start, some seconds into this tick."""
        return self.load_seconds + self.load * offset_seconds

    def link_load_seconds_at(self, link: int, offset_seconds: float) -> float:
        """Return the integral of the load that a link has carried since the counters began."""
        carried = self._down_since.get(link)
        if carried is None:
            carried = self.load_seconds_at(offset_seconds)
        return carried - self.base_load_seconds - self._gaps.get(link, 0.0)

    def mean_watts_at(self, offset_seconds: float) -> float:
        """Return the mean power of the second before some seconds into this tick."""
        (joules, _), (later, _) = self._history[0], self._history[1]
        before = joules + (later - joules) * offset_seconds / TICK_SECONDS
        return self.joules_at(offset_seconds) - before

    def mean_load_at(self, offset_seconds: float) -> float:
        """Return the mean load of the second before some seconds into this tick."""
        (_, load_seconds), (_, later) = self._history[0], self._history[1]
        before = load_seconds + (later - load_seconds) * offset_seconds / TICK_SECONDS
        return self.load_seconds_at(offset_seconds) - before

    def mean_memory_watts_at(self, offset_seconds: float) -> float:
        """Return the mean memory power of the second before some seconds into this tick."""
        return self._gpu.memory_idle_watts + self._memory_span_watts * self.mean_load_at(offset_seconds)
