"""Networks made of torch's own layers, as plain settings and back: these can be saved without their code."""

from __future__ import annotations

from typing import Any

from xmen.rewards.torch_backend import torch

LAYERS: dict[str, tuple[str, ...]] = {
    "Linear": ("in_features", "out_features", "bias"),
    "Conv2d": (
        *("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias"),
        "padding_mode",
    ),
    "Embedding": (
        *("num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
    ),
    "LayerNorm": ("normalized_shape", "eps", "elementwise_affine"),
    "Dropout": ("p",),
    "Flatten": ("start_dim", "end_dim"),
    "ELU": ("alpha",),
    "GELU": ("approximate",),
    "LeakyReLU": ("negative_slope",),
    "Softplus": ("beta", "threshold"),
    **{name: () for name in ("Identity", "ReLU", "SELU", "SiLU", "Mish", "Sigmoid", "Tanh", "Softsign", "LogSigmoid")},
}
"""The arguments of each layer that can be described: nothing else is ever made from a file."""


def describe(module: torch.nn.Module) -> dict[str, Any] | None:
    """The settings that `build` makes the same layers from; None when one of them is not torch's own."""
    name = type(module).__name__
    if type(module) is torch.nn.Sequential:
        parts = [(key, describe(part)) for key, part in module.named_children()]
        whole = all(part is not None for _, part in parts) and len(parts) == len(module)
        return {"layer": "Sequential", "parts": parts} if whole else None
    if name not in LAYERS or type(module) is not getattr(torch.nn, name, None):
        return None
    settings = {key: getattr(module, key) for key in LAYERS[name] if key != "bias"}
    if "bias" in LAYERS[name]:
        settings["bias"] = module.bias is not None
    return {"layer": name, **{k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}}


def build(description: dict[str, Any]) -> torch.nn.Module:
    """Layers with fresh parameters. ValueError, KeyError or TypeError for what is no description."""
    name = description["layer"]
    if name == "Sequential":
        network = torch.nn.Sequential()
        for key, part in description["parts"]:
            network.add_module(key, build(part))
        return network
    if name not in LAYERS:
        raise ValueError(f"unknown layer {name!r}")
    settings = {key: description[key] for key in LAYERS[name]}
    try:
        layer: torch.nn.Module = getattr(torch.nn, name)(
            **{k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
        )
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"no layer {name} with {settings}: {error}") from None
    return layer
