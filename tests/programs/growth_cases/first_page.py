"""The app's first page in a fresh process: processor time with imports, of the next run, and modules imported."""

import sys
import time
from pathlib import Path

from streamlit.testing.v1 import AppTest


def main() -> None:
    imported = time.process_time()
    page = AppTest.from_file(str(Path.cwd() / "app.py"), default_timeout=300).run()
    assert not page.exception
    first = time.process_time()
    page.run()
    again = time.process_time() - first
    print(f"first page {first - imported:.2f} s, again {again:.2f} s, {len(sys.modules)} modules")


if __name__ == "__main__":
    main()
