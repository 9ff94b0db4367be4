"""How long a file takes on a cluster, by `dispatch_pieces` itself with simulated engines and a simulated clock.

`python tests/programs/ray_estimate.py --rows 1e7 --engines 160 --row-ms 17 --driver-us 5.6`; rates: measurements.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.simulated_engines import SimulatedEngines, simulate

from chemspec.cluster.shards import fit_shards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e4, 1e5, 1e7])
    parser.add_argument("--engines", type=int, nargs="+", default=[64, 160, 1600])
    parser.add_argument("--row-ms", type=float, default=17.0)
    parser.add_argument("--driver-us", type=float, default=5.6)
    parser.add_argument("--death-rate", type=float, default=0.0)
    given = parser.parse_args()
    print("| rows | engines | rows a shard | hours | engines busy | driver busy |")
    print("|---|---|---|---|---|---|")
    for rows in map(int, given.rows):
        for count in given.engines:
            size, _, _ = fit_shards(map(str, range(min(rows, count * 4 * 1000))), count)
            engines = SimulatedEngines(count, given.row_ms / 1e3, given.driver_us / 1e6, death_rate=given.death_rate)
            assert simulate(rows, engines, size) == rows
            driver = rows * given.driver_us / 1e6 / engines.clock
            hours = engines.clock / 3600
            print(f"| {rows:,} | {count:,} | {size:,} | {hours:.3g} | {engines.utilisation:.0%} | {driver:.0%} |")


if __name__ == "__main__":
    main()
