"""Images and text: the encoder's work is balanced over all ranks, the backbone's over its groups.

The first lines are the text case; five more give the images owners of their own, by a metadata
column `image_patches` of the sources. A batch then has `batch.encoder`: what its rank encodes, and
its side of the exchange. What it would do: `overlord plan mix.yaml --mesh dp=8 --strategy
examples/image_text.py:image_text`; before there is any data: `overlord simulate --workload coyo`.
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
