"""Choosing the schedule of the dynamic program."""

from __future__ import annotations

from xmen.product.graph import Product
from xmen.product.horizon_free import HorizonFree
from xmen.product.host_layers import HostLayers
from xmen.product.layered import Layered
from xmen.product.messages import Messages
from xmen.product.single_pass import SinglePass
from xmen.worlds.edge_weights import EdgeWeights


def pass_messages(product: Product, weights: EdgeWeights) -> Messages:
    """Run the backward pass with the cheapest schedule that is exact for this product and discount."""
    if product.timeless(weights.discount):
        return SinglePass(product, weights)
    if product.world.unbounded:
        return HorizonFree(product, weights)
    return Layered(product, weights, HostLayers(product, weights))
