"""Multi-step routes from a molecule to things one can buy: Syntheseus searches, our single-step models answer.

`stock` says what can be bought, `expand` what a molecule can be made from, `search` lets Syntheseus' algorithms ask,
`routes` are the values that come out, `draw` their pictures.
"""
