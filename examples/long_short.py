"""Long and short documents on a 4D mesh: even work for every pipeline of every data-parallel group.

Attention is quadratic, so sequences of equal length hold unequal work. Seven lines say what to do
about it; `overlord plan CONFIG --strategy examples/long_short.py:long_short` shows the result.
"""

import overlord as ol


def long_short(graph, tree):
    text = graph.tokens()
    text.distribute(tree.dp)
    text.cost(ol.cost.preset("llama-12b"))
    text.balance("lpt_search", level="interleaved")
    text.order("search")
    text.broadcast_at(tree.tp)
    return text.plan()
