"""`python -m chemspec.cli`."""

from chemspec.cli import main

if __name__ == "__main__":  # worker processes import this file too
    main()
