"""The depth Step through of the page How it works."""
