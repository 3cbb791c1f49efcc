"""Images and text: the encoder's work is balanced over all ranks, the backbone's over its groups.

The first lines are the text case; five more give the images owners of their own. Try it before
there is any data: `overlord simulate --workload coyo --strategy examples/image_text.py:image_text`.
"""

import overlord as ol


def image_text(graph, tree):
    text = graph.tokens()
    text.distribute(tree.dp)
    text.cost(ol.cost.preset("llama-12b"))
    text.balance("lpt_search", level="interleaved")
    text.order("search")
    text.broadcast_at(tree.tp)
    images = graph.images()
    images.distribute(tree.world)
    images.cost(ol.cost.preset("vit-1b"))
    images.balance("lpt_search")
    return images.plan(), text.plan()
