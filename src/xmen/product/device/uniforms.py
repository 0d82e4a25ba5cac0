"""The uniform numbers that a numpy generator gives next, worked out on a device: the same bits, nothing to move.

numpy's default generator is PCG64: s <- a s + c modulo 2^128, and a number is made from the bits of s alone (O'Neill,
HMC-CS-2014-0905). So the i-th state from here is a^i s + c (1 + a + ... + a^(i-1)), and all of them can be worked out
side by side. Numbers of 128 bits are pairs of 64, high and low.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import torch

Tensor = torch.Tensor
Wide: TypeAlias = tuple[Tensor, Tensor]

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
ALL = (1 << 128) - 1
LOW = 0xFFFFFFFF
SIGN = -(1 << 63)


def uniforms(rng: np.random.Generator, n: int, device: torch.device) -> Tensor:
    """`rng.random(n)` as a tensor on the device; the generator goes on after it."""
    generator = rng.bit_generator
    if not isinstance(generator, np.random.PCG64):
        return torch.as_tensor(rng.random(n), device=device)
    with generator.lock:  # two threads must not begin with the same state
        found = generator.state
        state, step = found["state"]["state"], found["state"]["inc"]
        found["state"]["state"] = _after(state, step, n)
        generator.state = found
    size = 1 << max(0, n - 1).bit_length()
    powers, offsets = _jumps(size, step, device)
    first = _wide(state, device)
    high, low = _add(_times((powers[0][:n], powers[1][:n]), first), (offsets[0][:n], offsets[1][:n]))
    mixed, turn = high ^ low, (high >> 58) & 63
    back = (64 - turn) & 63
    bits = ((mixed >> turn) & ((torch.ones_like(back) << back) - 1)) | (mixed << back)  # rotated to the right
    return ((bits >> 11) & ((1 << 53) - 1)).double() * 2.0**-53


def _after(state: int, step: int, n: int) -> int:
    """The state n numbers on."""
    power, total, a, c = 1, 0, MULTIPLIER, step
    while n:
        if n & 1:
            power, total = power * a & ALL, (total * a + c) & ALL
        a, c = a * a & ALL, (a + 1) * c & ALL
        n >>= 1
    return (power * state + total) & ALL


@lru_cache(maxsize=2)
def _jumps(size: int, step: int, device: torch.device) -> tuple[Wide, Wide]:
    """a^i and c (1 + a + ... + a^(i-1)) for i = 1 .. size, by doubling."""
    powers, offsets = _wide(MULTIPLIER, device), _wide(step, device)
    power, n = MULTIPLIER, 1
    while n < size:
        total = _wide(_after(0, step, n), device)
        more = _times(powers, _wide(power, device)), _add(_times(powers, total), offsets)
        powers, offsets = (_joined(old, new) for old, new in zip((powers, offsets), more, strict=True))
        power, n = power * power & ALL, 2 * n
    return powers, offsets


def _joined(one: Wide, other: Wide) -> Wide:
    return torch.cat([one[0], other[0]]), torch.cat([one[1], other[1]])


def _wide(number: int, device: torch.device) -> Wide:
    high, low = (torch.tensor([_signed(part & (2 * -SIGN - 1))], device=device) for part in (number >> 64, number))
    return high, low


def _signed(bits: int) -> int:
    return bits - 2 * -SIGN if bits >= -SIGN else bits


def _half(x: Tensor) -> Tensor:
    return (x >> 32) & LOW


def _add(x: Wide, y: Wide) -> Wide:
    low = x[1] + y[1]
    carried = (low ^ SIGN) < (x[1] ^ SIGN)  # as numbers without a sign
    return x[0] + y[0] + carried, low


def _times(x: Wide, y: Wide) -> Wide:
    """The lower 128 bits of a product, by halves of 32 bits."""
    (x1, x0), (y1, y0) = ((_half(low), low & LOW) for low in (x[1], y[1]))
    cross = x1 * y0, x0 * y1
    middle = _half(x0 * y0) + (cross[0] & LOW) + (cross[1] & LOW)
    high = x1 * y1 + _half(cross[0]) + _half(cross[1]) + _half(middle)
    return high + x[0] * y[1] + x[1] * y[0], x[1] * y[1]
