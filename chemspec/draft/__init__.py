"""Drafters propose the tokens after a prefix; a registry names them."""
