"""torch's number of threads, where torch may not be there yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TORCH = """
import time
time.sleep(0.3)
threads = 4
def get_num_threads(): return threads
def set_num_threads(count): global threads; threads = count
"""
PROGRAM = """
import importlib, sys, threading
from chemspec.system.threads import set_torch_threads
with set_torch_threads(1): assert "torch" not in sys.modules
other = threading.Thread(target=importlib.import_module, args=["torch"])
other.start()
while "torch" not in sys.modules: pass
with set_torch_threads(1): assert sys.modules["torch"].threads == 1
assert sys.modules["torch"].threads == 4
"""


def test_torch_is_not_imported_and_one_that_another_thread_imports_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(TORCH)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env={**os.environ, "PYTHONPATH": path})
