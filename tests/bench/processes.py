"""What the processes of a program cost: processor time to the nanosecond, and memory, from /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.errors import BenchError

KIB: Final = 1024
_STOP_SECONDS: Final = 10.0


class Memory(NamedTuple):
    """Memory of a program's processes together, in bytes.

    Attributes:
        pss: Sum of the proportional set sizes (``Pss`` of smaps_rollup, proc(5)).
        alone: What they would take if nobody else on the machine ran Python: the bench itself maps the same
            libraries and so takes over a share of them in ``pss``. Own pages once, and of each file that is
            shared, once the most that one process has of it.
    """

    pss: int
    alone: int


class Program:
    """A program under measurement, with its children; ended by pid when the block is left."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        """Remember what to start.

        Args:
            name: For messages.
            command: Program and arguments.
            log: Where its output goes.
            environment: Variables that are set besides those of the bench.
        """
        self.name = name
        self._command = list(command)
        self._log = log
        self._environment = os.environ | dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Program:
        """Start it."""
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment
            )
        return self

    def __exit__(self, *exception: object) -> None:
        """End the process and whatever is left of its children."""
        if self._process is None:
            return
        family = {pid: _start_ticks(pid) for pid in self.pids()} if self._process.poll() is None else {}
        family.pop(self._process.pid, None)
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_SECONDS)
        for pid, started in family.items():
            if started and _start_ticks(pid) == started:  # else its number may be somebody else's by now
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def check_alive(self) -> None:
        """Raise BenchError, with the end of the program's output, if it is not running."""
        if self._process is None or self._process.poll() is not None:
            raise BenchError(f"{self.name} has ended; it said:\n{self.output()}")

    def output(self) -> str:
        """Give the last lines that the program wrote."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-20:])

    def pids(self) -> list[int]:
        """Give the pid of the program and of all its descendants, parents first."""
        self_pid = self._process.pid if self._process is not None else -1
        children = defaultdict(list)
        for entry in Path("/proc").iterdir():
            fields = _stat(int(entry.name)) if entry.name.isdigit() else []
            if fields:
                children[int(fields[4 - 3])].append(int(entry.name))
        family = [self_pid]
        for pid in family:  # grows while it is walked
            family.extend(sorted(children[pid]))
        return family


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third, the state, on (proc(5)); none if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


def _start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 if there is no such process."""
    fields = _stat(pid)
    return int(fields[22 - 3]) if fields else 0


def cpu_nanoseconds(pid: int) -> int:
    """Processor time, user and system, that all threads of a process have used, ended ones included.

    Linux gives every process a clock for it: ``CPUCLOCK_SCHED`` (2) under the complement of the pid, as
    glibc's clock_getcpuclockid makes it.

    Raises:
        BenchError: There is no such process.
    """
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError as error:
        raise BenchError(f"cannot read the processor time of process {pid}: {error.strerror}") from error


def reaped_nanoseconds(pid: int) -> int:
    """Processor time of a process's ended children, to the clock tick: cutime and cstime of proc(5)."""
    fields = _stat(pid)
    ticks = sum(map(int, fields[16 - 3 : 18 - 3]))
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def family_cpu_nanoseconds(pids: Iterable[int]) -> int:
    """Processor time of several processes and of their ended children."""
    return sum(cpu_nanoseconds(pid) + reaped_nanoseconds(pid) for pid in pids)


def memory(pids: Sequence[int]) -> Memory:
    """Measure the memory of processes that belong together.

    Raises:
        BenchError: One of them is gone, or its memory may not be looked at.
    """
    pss = 0
    own = 0
    most_shared: dict[str, int] = defaultdict(int)
    for pid in pids:
        shared_here: dict[str, int] = defaultdict(int)
        for name, sizes in _mappings(pid):
            pss += sizes["Pss"]
            own += sizes["Private_Clean"] + sizes["Private_Dirty"]
            shared_here[name] += sizes["Shared_Clean"] + sizes["Shared_Dirty"]
        for name, size in shared_here.items():
            most_shared[name] = max(most_shared[name], size)
    return Memory(pss * KIB, (own + sum(most_shared.values())) * KIB)


def _mappings(pid: int) -> list[tuple[str, dict[str, int]]]:
    """Name and sizes in KiB of each mapping of a process (smaps, proc(5))."""
    try:
        text = Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BenchError(f"cannot read the memory of process {pid}: {error.strerror}") from error
    mappings: list[tuple[str, dict[str, int]]] = []
    for line in text.splitlines():
        head, _, rest = line.partition(" ")
        if head.endswith(":"):
            number = rest.split()[0] if rest.split() else ""
            if number.isdigit():
                mappings[-1][1][head[:-1]] = int(number)
        else:
            parts = line.split(maxsplit=5)  # address perms offset dev inode path
            mappings.append((parts[5] if len(parts) == 6 else f"anonymous of {pid}", defaultdict(int)))
    return mappings
