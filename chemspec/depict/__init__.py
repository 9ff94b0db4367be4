"""Drawings of molecules and reaction schemes as SVG, PNG and CDXML."""
