"""Shared by several pages: engines, the query box, drawings, the shell around a page."""
