"""Kernels of row operations, in Triton: what `plain` says, without the arrays in between.

`C` is the number of columns, `W` how many entries of a row are read side by side, `R` the number of rows of a program:
all powers of two. A program reads the entries of its rows side by side, so that neighbouring threads read neighbouring
numbers, and goes on along rows that are longer. Every number is written by one program, in one order.

Python's numbers arrive in single precision, so what has to be exact is in an array: `factors` points at the two numbers
gamma^t - gamma^t0 (how far rewards drift from those in the weights) and gamma^t.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

AVAILABLE = find_spec("triton") is not None  # it comes with torch for GPUs, and not with torch for CPUs alone
if AVAILABLE:
    import triton
    import triton.language as tl


def inner(function: Callable[..., Any]) -> Any:
    """The function as a part of kernels, where there is a compiler for them."""
    return triton.jit(function) if AVAILABLE else function


def jit(function: Callable[..., None]) -> Any:
    """The function as a kernel, where there is a compiler for it; one kernel for every number of rows."""
    return triton.jit(do_not_specialize=["n_rows"])(function) if AVAILABLE else function


@inner
def row_ends(rows, inside, indptr):
    """Where the entries of rows begin and end."""
    begin = tl.load(indptr + rows, mask=inside, other=0)
    return begin, tl.load(indptr + rows + 1, mask=inside, other=0)


@inner
def entries(begin, end, offset, other, W: tl.constexpr):
    """The next entries of each row, which of them there are, and the node at the other end of each."""
    e = begin[:, None] + offset + tl.arange(0, W)[None, :]
    valid = e < end[:, None]
    return e.to(tl.int64), valid, tl.load(other + e, mask=valid, other=0).to(tl.int64)


@inner
def places(index, C: tl.constexpr):
    """Where the columns of these rows of an array are."""
    return index[:, :, None] * C + tl.arange(0, C)[None, None, :]


@inner
def weights_at(e, valid, going, edge, weights, reward, factors, DRIFTS: tl.constexpr, C: tl.constexpr):
    """The weights of entries as of this action, in every column that is going; 0 elsewhere."""
    w = tl.load(weights + places(e, C), mask=going, other=0.0)
    if DRIFTS:
        world = tl.load(edge + e, mask=valid, other=0).to(tl.int64)
        r = tl.load(reward + places(world, C), mask=going, other=0.0)
        w = w * tl.exp(tl.load(factors) * r).to(w.dtype)
    return w


@inner
def log_add(largest, total, value):
    """total exp(largest), as its two parts, plus the exp of the values of a row."""
    higher = tl.maximum(largest, tl.max(value, axis=1))
    base = tl.where(higher > -float("inf"), higher, 0.0)
    return higher, total * tl.exp(largest - base) + tl.sum(tl.exp(value - base[:, None, :]), axis=1)


@jit
def relative(
    n_rows,
    indptr,
    other,
    edge,
    log_weight,
    before,
    there,
    out,
    most,
    ENTERING: tl.constexpr,
    C: tl.constexpr,
    W: tl.constexpr,
    R: tl.constexpr,
):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    inside = rows < n_rows
    begin, end = row_ends(rows, inside, indptr)
    if ENTERING:
        of_rows, of_others = there, before
    else:
        of_rows, of_others = before, there
    here = tl.load(of_rows + places(rows.to(tl.int64)[:, None], C), mask=inside[:, None, None], other=0.0)
    for offset in range(0, tl.max(end - begin), W):
        e, valid, node = entries(begin, end, offset, other, W)
        mask = valid[:, :, None]
        step = tl.load(of_others + places(node, C), mask=mask, other=0.0) - here
        if ENTERING:
            step = -step
        world = tl.load(edge + e, mask=valid, other=0).to(tl.int64)
        log = tl.load(log_weight + places(world, C), mask=mask, other=0.0)
        tl.store(out + places(e, C), tl.exp(tl.minimum(log + step, most)), mask=mask)


@jit
def backward(
    n_rows,
    indptr,
    other,
    edge,
    weights,
    reward,
    factors,
    stop,
    after,
    out,
    least,
    largest,
    DRIFTS: tl.constexpr,
    SLOTS: tl.constexpr,
    C: tl.constexpr,
    W: tl.constexpr,
    R: tl.constexpr,
):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    inside = rows < n_rows
    column = tl.arange(0, C)
    begin, end = row_ends(rows, inside, indptr)
    place = rows.to(tl.int64)[:, None] * C + column[None, :]
    total = tl.load(stop + place, mask=inside[:, None], other=0.0)
    fed = tl.zeros_like(total)
    for offset in range(0, tl.max(end - begin), W):
        e, valid, node = entries(begin, end, offset, other, W)
        mask = valid[:, :, None]
        there = tl.load(after + places(node, C), mask=mask, other=0.0)
        w = weights_at(e, valid, mask, edge, weights, reward, factors, DRIFTS, C)
        total += tl.sum(w * there, axis=1)
    tl.store(out + place, total, mask=inside[:, None])
    if tl.min(tl.where(inside[:, None], total, 1.0)) == 0:  # has it to be zero, or was it rounded?
        for offset in range(0, tl.max(end - begin), W):
            e, valid, node = entries(begin, end, offset, other, W)
            there = tl.load(after + places(node, C), mask=valid[:, :, None], other=0.0)
            fed = tl.maximum(fed, tl.max(there, axis=1))
    infinite = tl.full(total.shape, float("inf"), total.dtype)
    low = tl.where(total > 0, total, tl.where((fed > 0) & (total == 0), 0.0, infinite))
    high = tl.where(total < infinite, total, infinite)
    # Positive numbers are ordered as their bits are. Many programs would queue for one address: they have several.
    slot = (tl.program_id(0) % SLOTS) * C + column
    lowest = tl.min(tl.where(inside[:, None], low, infinite), axis=0)
    highest = tl.max(tl.where(inside[:, None], high, 0.0), axis=0)
    tl.atomic_min(least + slot, lowest.to(least.dtype.element_ty, bitcast=True))
    tl.atomic_max(largest + slot, highest.to(largest.dtype.element_ty, bitcast=True))


@jit
def forward(
    n_rows,
    indptr,
    other,
    edge,
    weights,
    reward,
    factors,
    share,
    after,
    out,
    flows,
    discounted,
    DRIFTS: tl.constexpr,
    DISCOUNTS: tl.constexpr,
    C: tl.constexpr,
    W: tl.constexpr,
    R: tl.constexpr,
):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    inside = rows < n_rows
    begin, end = row_ends(rows, inside, indptr)
    place = rows.to(tl.int64)[:, None] * C + tl.arange(0, C)[None, :]
    message = tl.load(after + place, mask=inside[:, None], other=0.0)
    total = tl.zeros_like(message)
    for offset in range(0, tl.max(end - begin), W):
        e, valid, node = entries(begin, end, offset, other, W)
        x = tl.load(share + places(node, C), mask=valid[:, :, None], other=0.0)
        going = valid[:, :, None] & (x > 0) & (message > 0)[:, None, :]
        arriving = weights_at(e, valid, going, edge, weights, reward, factors, DRIFTS, C) * x
        total += tl.sum(arriving, axis=1)
        through, entry = arriving * message[:, None, :], places(e, C)
        tl.store(flows + entry, tl.load(flows + entry, mask=going, other=0.0) + through, mask=going)
        if DISCOUNTS:
            past = tl.load(discounted + entry, mask=going, other=0.0)
            tl.store(discounted + entry, past + (tl.load(factors + 1) * through).to(past.dtype), mask=going)
    tl.store(out + place, total, mask=inside[:, None])


@jit
def log_rows(
    n_rows,
    nodes,
    indptr,
    other,
    edge,
    rank,
    log_dynamics,
    reward,
    discounts,
    factors,
    stop,
    after,
    out,
    LEVEL: tl.constexpr,
    C: tl.constexpr,
    W: tl.constexpr,
    R: tl.constexpr,
):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    inside = rows < n_rows
    if LEVEL:  # some nodes, each with its own discount, over edges to nodes of lower rank
        rows = tl.load(nodes + rows, mask=inside, other=0)
        own = tl.load(rank + rows, mask=inside, other=0)
        factor = tl.load(discounts + rows, mask=inside, other=0.0)
    else:
        own = rows
        factor = tl.full([R], 0.0, tl.float64) + tl.load(factors + 1)
    begin, end = row_ends(rows, inside, indptr)
    place = rows.to(tl.int64)[:, None] * C + tl.arange(0, C)[None, :]
    largest = tl.load(stop + place, mask=inside[:, None], other=-float("inf"))
    total = tl.where(largest > -float("inf"), 1.0, 0.0).to(largest.dtype)
    for offset in range(0, tl.max(end - begin), W):
        e, valid, node = entries(begin, end, offset, other, W)
        if LEVEL:
            valid = valid & (tl.load(rank + node, mask=valid, other=0) < own[:, None])
        mask = valid[:, :, None]
        world = tl.load(edge + e, mask=valid, other=0).to(tl.int64)
        r = tl.load(reward + places(world, C), mask=mask, other=0.0)
        log = tl.load(log_dynamics + world, mask=valid, other=0.0)[:, :, None] + factor[:, None, None] * r
        there = tl.load(after + places(node, C), mask=mask, other=-float("inf"))
        largest, total = log_add(largest, total, tl.where(mask, log + there, -float("inf")))
    base = tl.where(largest > -float("inf"), largest, 0.0)
    tl.store(out + place, tl.where(total > 0, base + tl.log(total), -float("inf")), mask=inside[:, None])


@jit
def products(n_rows, indptr, other, weights, values, plus, out, C: tl.constexpr, W: tl.constexpr, R: tl.constexpr):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    inside = rows < n_rows
    begin, end = row_ends(rows, inside, indptr)
    place = rows.to(tl.int64)[:, None] * C + tl.arange(0, C)[None, :]
    total = tl.load(plus + place, mask=inside[:, None], other=0.0)
    for offset in range(0, tl.max(end - begin), W):
        e, valid, node = entries(begin, end, offset, other, W)
        mask = valid[:, :, None]
        w = tl.load(weights + places(e, C), mask=mask, other=0.0)
        total += tl.sum(w * tl.load(values + places(node, C), mask=mask, other=0.0), axis=1)
    tl.store(out + place, total, mask=inside[:, None])


@inner
def row_places(begin, end, offset, C: tl.constexpr, W: tl.constexpr):
    """Where the next entries of each row are, and which of them there are."""
    e = (begin[:, None] + offset + tl.arange(0, W)[None, :]).to(tl.int64)
    return places(e, C), (e < end[:, None])[:, :, None]


@jit
def best(n_rows, first, odds, near, among, C: tl.constexpr, W: tl.constexpr, R: tl.constexpr):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    inside = rows < n_rows
    begin, end = row_ends(rows, inside, first)
    largest = tl.zeros([R, C], tl.float64)
    for offset in range(0, tl.max(end - begin), W):
        entry, mask = row_places(begin, end, offset, C, W)
        largest = tl.maximum(largest, tl.max(tl.load(odds + entry, mask=mask, other=0.0), axis=1))
    least = largest * tl.load(near)
    for offset in range(0, tl.max(end - begin), W):
        entry, mask = row_places(begin, end, offset, C, W)
        tl.store(among + entry, tl.load(odds + entry, mask=mask, other=0.0) >= least[:, None, :], mask=mask)


@jit
def soften(n_rows, first, logits, ends, value, C: tl.constexpr, W: tl.constexpr, R: tl.constexpr):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    inside = rows < n_rows
    begin, end = row_ends(rows, inside, first)
    largest = tl.full([R, C], -float("inf"), tl.float64)
    total = tl.zeros([R, C], tl.float64)
    for offset in range(0, tl.max(end - begin), W):
        entry, mask = row_places(begin, end, offset, C, W)
        largest, total = log_add(largest, total, tl.load(logits + entry, mask=mask, other=-float("inf")))
    base = tl.where(largest > -float("inf"), largest, 0.0)
    norm = tl.where(total > 0, total, 1.0)
    for offset in range(0, tl.max(end - begin), W):
        entry, mask = row_places(begin, end, offset, C, W)
        x = tl.load(logits + entry, mask=mask, other=-float("inf"))
        tl.store(logits + entry, tl.exp(x - base[:, None, :]) / norm[:, None, :], mask=mask)
    place = rows.to(tl.int64)[:, None] * C + tl.arange(0, C)[None, :]
    found = tl.where(total > 0, base + tl.log(norm), -float("inf"))
    ending = tl.load(ends + place, mask=inside[:, None], other=0.0)
    tl.store(value + place, tl.where((begin < end)[:, None], found, ending), mask=inside[:, None])


@jit
def choose(
    n_rows,
    indptr,
    other,
    edge,
    weights,
    reward,
    factors,
    after,
    column,
    columns,
    uniforms,
    node,
    taken,
    DRIFTS: tl.constexpr,
    R: tl.constexpr,
):
    walker = tl.program_id(0) * R + tl.arange(0, R)
    inside = walker < n_rows
    here = tl.load(node + walker, mask=inside, other=0)
    begin = tl.load(indptr + here, mask=inside, other=0)
    end = tl.load(indptr + here + 1, mask=inside, other=0)
    uniform = tl.load(uniforms + walker, mask=inside, other=0.0)
    longest = tl.max(end - begin)
    total = tl.zeros_like(uniform)
    left = tl.zeros_like(uniform)
    looking = inside
    chosen = tl.full([R], -1, tl.int32)
    for again in range(2):  # first the total of each, then the choice
        left = uniform * total
        for offset in range(0, longest):
            e = begin + offset
            valid = e < end
            there = tl.load(other + e, mask=valid, other=0).to(tl.int64)
            w = tl.load(weights + e.to(tl.int64) * columns + column, mask=valid, other=0.0).to(tl.float64)
            w = w * tl.load(after + there * columns + column, mask=valid, other=0.0)
            if DRIFTS:
                world = tl.load(edge + e, mask=valid, other=0).to(tl.int64)
                w = w * tl.exp(tl.load(factors) * tl.load(reward + world * columns + column, mask=valid, other=0.0))
            if again == 0:
                total += w
            else:
                taking = looking & valid & (w > 0)
                chosen = tl.where(taking, e, chosen)
                left = tl.where(taking, left - w, left)
                looking = looking & ~(taking & (left < 0))
    moved = tl.load(other + chosen, mask=inside & (chosen >= 0), other=0)
    tl.store(taken + walker, chosen, mask=inside)
    tl.store(node + walker, tl.where(chosen >= 0, moved, here), mask=inside)


@jit
def world_totals(flows, order, ends, out, C: tl.constexpr, R: tl.constexpr):
    world = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, C)
    begin = tl.load(ends + world)
    end = tl.load(ends + world + 1)
    total = tl.zeros([R, C], tl.float64)
    for offset in range(begin, end, R):
        i = offset + tl.arange(0, R)
        e = tl.load(order + i, mask=i < end, other=0).to(tl.int64)
        total += tl.load(flows + e[:, None] * C + column[None, :], mask=(i < end)[:, None], other=0.0).to(tl.float64)
    tl.store(out + world * C + column, tl.sum(total, axis=0))
