"""Neural rewards in saved models: the numbers of the network as arrays, its layers as settings where they are torch's.

The code of a network of one's own is not saved: `xm.load(path, module=network)` gives it again.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from xmen.errors import RewardError, StorageError
from xmen.rewards.conv import ConvReward
from xmen.rewards.layers import build, describe
from xmen.rewards.neural import FeatureReward, NeuralReward
from xmen.rewards.torch_backend import as_array, require_torch, seeded, torch

if TYPE_CHECKING:
    from xmen.storage.codec import Decoder, Encoder


DTYPES = {name: name for name in ("float16", "float32", "float64")}
KINDS: dict[str, type[NeuralReward]] = {kind.__name__: kind for kind in (NeuralReward, ConvReward, FeatureReward)}


def encode_reward(encoder: Encoder, reward: NeuralReward, name: str) -> dict[str, Any]:
    """A neural reward as JSON, its arrays in the encoder."""
    kind = type(reward).__name__
    if KINDS.get(kind) is not type(reward):
        raise StorageError(f"{name} is a {kind}, which cannot be saved: of neural rewards, {', '.join(KINDS)} can.")
    part = _given(reward)
    parameters = list(reward.module.named_parameters())
    try:
        inputs = encoder.encode(as_array(reward.inputs), f"{name}.inputs")
        state = {key: encoder.encode(array, f"{name}.{key}") for key, array in reward.state().items()}
    except RewardError as error:
        raise StorageError(f"{name} cannot be saved: {error}") from None
    fields = {
        "is": "NeuralReward",
        "kind": kind,
        "network": repr(part),
        "layers": _layers(reward, part),
        "dtype": next((str(p.dtype).removeprefix("torch.") for _, p in parameters if p.is_floating_point()), None),
        "frozen": [key for key, parameter in parameters if not parameter.requires_grad],
        "inputs": inputs,
        "n_actions": reward.n_actions,
        "state": state,
    }
    if isinstance(reward, ConvReward):
        fields["grid"] = encoder.encode(reward.grid, f"{name}.grid")
    return fields


def decode_reward(decoder: Decoder, fields: dict[str, Any]) -> NeuralReward:
    """The reward, with the module that the decoder was given, or with layers made from settings."""
    require_torch("a model with a neural reward")
    part = decoder.take_module()
    if part is None and fields["layers"] is None:
        raise StorageError(
            "the model has a network of your own, whose numbers are saved and whose code is not. Make the same network "
            f"again and call xm.load(path, module=network). It was {fields['network']}"
        )
    given = part is not None
    state = {key: decoder.decode(value) for key, value in fields["state"].items()}
    module = copy.deepcopy(part) if given else _made(fields, sum(np.size(array) for array in state.values()))
    frozen = set(fields["frozen"])
    try:
        with seeded(0):  # nobody else's random numbers are used up
            reward = _around(module, decoder, fields)
        reward.load_state(state)
        reward.table()
    except RewardError as error:
        if given:
            raise StorageError(
                f"module={type(part).__name__} is not the network of this model: {error}\nIt was {fields['network']}"
            ) from None
        raise
    except (IndexError, RuntimeError) as error:
        raise ValueError(f"no {fields['kind']}: {error}") from None
    parameters = dict(reward.module.named_parameters())
    for key, parameter in parameters.items():
        parameter.requires_grad_(key not in frozen)
    if not frozen <= set(parameters):
        raise ValueError(f"the network has no {sorted(frozen - set(parameters))}")
    return reward


def _given(reward: NeuralReward) -> torch.nn.Module:
    """The part of the network that the user gave."""
    return reward.body if isinstance(reward, FeatureReward) else reward.module


def _around(module: torch.nn.Module, decoder: Decoder, fields: dict[str, Any]) -> NeuralReward:
    inputs = torch.as_tensor(np.array(decoder.decode(fields["inputs"])))
    kind, n_actions = KINDS[fields["kind"]], fields["n_actions"]
    if kind is ConvReward:
        # The last map is the one of open cells, which a ConvReward adds.
        return ConvReward(decoder.decode(fields["grid"]), inputs[0, :-1], module=module)
    return kind(module, inputs, n_actions)


def _made(fields: dict[str, Any], n_saved: int) -> torch.nn.Module:
    """Fresh layers, if as many numbers as they have were saved: a line of settings can ask for any number of them."""
    with torch.device("meta"):  # shapes without memory
        n_numbers = sum(parameter.numel() for parameter in build(fields["layers"]).parameters())
    if n_numbers > n_saved:
        raise ValueError(f"its layers have {n_numbers:,} numbers, and {n_saved:,} were saved")
    with seeded(0):  # nobody else's random numbers are used up
        module = build(fields["layers"])
    return module if fields["dtype"] is None else module.to(getattr(torch, DTYPES[fields["dtype"]]))


def _layers(reward: NeuralReward, part: torch.nn.Module) -> dict[str, Any] | None:
    """The settings of the layers, if a network made from them is the same network."""
    described = describe(part)
    if described is None:
        return None
    dtypes = [p.dtype for p in part.parameters() if p.is_floating_point()]
    with seeded(0):
        again = build(described)
    again = again.to(device=reward.device, dtype=dtypes[0]) if dtypes else again
    same_parts = [name for name, _ in again.named_parameters()] == [name for name, _ in part.named_parameters()]
    if not same_parts or len(set(dtypes)) > 1:
        return None
    again.load_state_dict(part.state_dict())
    with torch.no_grad():
        same = torch.equal(again.eval()(reward.inputs), part.eval()(reward.inputs))
    return described if same else None
