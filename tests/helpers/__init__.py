"""What tests and programs of the authors share; tests/README.md names the most used."""
