"""What several pages use: the shared engines, the query box, drawings, the shell around a page."""
