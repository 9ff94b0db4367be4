"""The command line: parse, call one function, print.

Exit codes: 0 all went well; 1 something in the input could not be answered (some rows have another status than ok);
2 the command could not be carried out (bad option, missing file, unusable model); 130 interrupted.
"""

import os

# Before numpy and torch are imported: their idle threads would spin, which takes seconds of a machine that is busy with
# something else. The kernel of chemspec has threads of its own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
