"""Precedents: an index opened, 57 look-ups in the shipped one, and an index of 1,000 reactions without maps built."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from chemspec.precedents import installed

LOOKED_UP, BUILT = 57, 1_000


def main(reactions: str) -> None:
    steps = [line.split(">>") for line in Path(reactions).read_text().split()]
    began = time.process_time()
    index = installed()
    assert index is not None
    texts = [f"opened in {1000 * (time.process_time() - began):.0f} ms"]
    for reactants, product in steps[:10]:
        index.find(reactants, product)
    times = []
    for reactants, product in steps[10 : 10 + LOOKED_UP]:
        began = time.process_time()
        index.find(reactants, product)
        times.append(1000 * (time.process_time() - began))
    texts.append(f"a look-up {sum(times) / len(times):.1f} ms, at most {max(times):.0f}")
    with tempfile.TemporaryDirectory() as folder:
        rows = "".join(f"{reactants},{product}\n" for reactants, product in steps[:BUILT])
        (Path(folder) / "reactions.csv").write_text(f"reactants,product\n{rows}")
        command = [sys.executable, "-m", "chemspec.cli", "precedents", "build", "--source", folder]
        command += ["--file", "reactions.csv"]
        children = os.times().children_user
        subprocess.run([*command, "--workers", "1", "--out", str(Path(folder) / "index")], check=True)
        seconds = os.times().children_user - children
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    print("; ".join([*texts, f"{BUILT} reactions built in {seconds:.1f} s, {memory:.0f} MB"]))


if __name__ == "__main__":
    main(sys.argv[1])
