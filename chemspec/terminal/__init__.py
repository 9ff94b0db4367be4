"""What every command line of this project shares: printing, errors as messages, and options from documentation."""
