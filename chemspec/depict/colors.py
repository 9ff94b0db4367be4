"""Colours of spans of the query in drawings and texts; colour is never the only distinction."""

# Okabe and Ito's colours, which most people with a colour-vision deficiency can tell apart; for light and dark grounds
# alike. Spans of the query take them in turn.
SPANS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A900", "#8C6BB1")
