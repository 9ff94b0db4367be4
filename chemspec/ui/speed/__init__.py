"""The depth Speed of the page How it works."""
