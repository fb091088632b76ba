"""What the words of the charts mean, for who never read the papers: in the legend and beside the slots."""

MEANINGS = {
    "codes": "tokens behind the frontier, every value rounded to a few bits",
    "parameters": "the scale and zero point that each group of codes is read with",
    "exact": "rows at 16 bits: the newest tokens, until the frontier passes them",
    "sinks": "the first tokens, exact for good: nearly every later one looks back at them",
    "side": "what a slot's codes are read with, kept once: means, orders, bases",
    "foreign": "slots that stay as the model made them",
    "resident": "what the arrays of the cache take in memory",
    "reference": "what the same tokens would take without compression",
    "mark": "where the model began to answer",
}
"""Kind of bytes, or line of a chart -> its meaning, to stand after its name."""
PLACES = {
    "frontier": "where codes end and exact rows begin; it moves on by whole windows",
    "slot": "the keys and values of one layer, in most models",
}
"""Words for where bytes are -> their meaning."""
