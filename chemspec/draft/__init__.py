"""Drafters propose the tokens after a prefix; one file each, and a registry that names them."""
