"""Read the energy that the processor has used, where the machine reports it.

On Linux these are the RAPL counters under /sys/class/powercap.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HOME = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Counter:
    """One package's counter of microjoules, which starts again at 0 beyond `most`."""

    file: Path
    most: int

    def read(self) -> int:
        """Return its microjoules."""
        return int(self.file.read_text())


@dataclass(frozen=True)
class Meter:
    """All packages of a machine."""

    counters: tuple[Counter, ...]

    @classmethod
    def find(cls, home: Path = HOME) -> Meter | None:
        """Return the meter; None where the machine reports no energy to this user, as most virtual machines do not."""
        counters = []
        # Packages are numbered intel-rapl:0, their parts (cores, memory) intel-rapl:0:0.
        for folder in sorted(home.glob("*-rapl:*")):
            if folder.name.count(":") != 1:
                continue
            try:
                most = int((folder / "max_energy_range_uj").read_text())
                counter = Counter(folder / "energy_uj", most)
                counter.read()
            except (OSError, ValueError):
                continue
            counters.append(counter)
        return cls(tuple(counters)) if counters else None

    def read(self) -> tuple[int, ...]:
        """Return the microjoules of every package."""
        return tuple(counter.read() for counter in self.counters)

    def joules(self, before: tuple[int, ...]) -> float:
        """Return the energy since `read` gave `before`, of everything that the machine did.

        It is correct up to one turn of a counter.
        """
        used = (
            now - then if now >= then else now + counter.most - then
            for counter, now, then in zip(self.counters, self.read(), before, strict=True)
        )
        return sum(used) / 1e6
