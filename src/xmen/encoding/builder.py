"""Clauses, and definitions that keep models unique.

Every auxiliary variable is defined in both directions, so that it is a function of the others: models of the
formula then correspond one to one to assignments of the variables that are not auxiliary.
"""

import copy
from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray


class ClauseBuilder:
    """A growing set of clauses; literals are +-1, +-2, ... and `TRUE`, which is variable 1."""

    TRUE = 1
    FALSE = -1

    def __init__(self) -> None:
        self.n_variables = 1
        self._flat = array("i")
        self._once: dict[Hashable, int] = {}
        self.add([self.TRUE])

    def copy(self) -> "ClauseBuilder":
        """An independent builder with the same clauses and definitions."""
        twin = copy.copy(self)
        twin._flat, twin._once = self._flat[:], dict(self._once)
        return twin

    def variable(self) -> int:
        self.n_variables += 1
        return self.n_variables

    def variables(self, n: int) -> list[int]:
        return [self.variable() for _ in range(n)]

    def add(self, clause: Iterable[int]) -> None:
        self._flat.extend(clause)
        self._flat.append(0)

    def once(self, key: Hashable, make: Callable[[], int]) -> int:
        """The literal that was made for this key, or is made now."""
        if key not in self._once:
            self._once[key] = make()
        return self._once[key]

    @property
    def clauses(self) -> NDArray[np.int32]:
        """All clauses, flat, each closed by a 0."""
        return np.array(self._flat, dtype=np.int32)

    def any_of(self, literals: Iterable[int]) -> int:
        """A literal that is true exactly when one of these is."""
        distinct = set(literals) - {self.FALSE}
        if self.TRUE in distinct or any(-part in distinct for part in distinct):
            return self.TRUE
        parts = sorted(distinct)
        if not parts:
            return self.FALSE
        if len(parts) == 1:
            return parts[0]
        return self.once(tuple(parts), lambda: self.fresh_any_of(parts))

    def fresh_any_of(self, literals: Iterable[int], none: Iterable[int] = ()) -> int:
        """A new variable of its own that is true exactly when one of these literals is, and then none of the others."""
        parts, out = list(literals), self.variable()
        for part in parts:
            self.add([out, -part])
        for other in none:
            self.add([-out, -other])
        self.add([-out, *parts])
        return out

    def all_of(self, literals: Iterable[int]) -> int:
        """A literal that is true exactly when all of these are."""
        return -self.any_of(-literal for literal in literals)

    def exclusive(self, a: int, b: int) -> int:
        """A literal for a xor b."""
        if abs(a) == self.TRUE:
            return -b if a == self.TRUE else b
        if abs(b) == self.TRUE:
            return self.exclusive(b, a)
        if abs(a) == abs(b):
            return self.FALSE if a == b else self.TRUE
        out = self.variable()
        for signs in ((-1, a, b), (-1, -a, -b), (1, -a, b), (1, a, -b)):
            self.add([signs[0] * out, signs[1], signs[2]])
        return out

    def at_most_one(self, literals: Sequence[int]) -> None:
        """No two of these are true; sums over prefixes keep it linear in their number."""
        if len(literals) <= 5:
            for i, a in enumerate(literals):
                for b in literals[:i]:
                    self.add([-a, -b])
            return
        before = literals[0]
        for literal in literals[1:]:
            self.add([-before, -literal])
            if literal != literals[-1]:
                before = self.any_of([before, literal])

    def exactly_one_iff(self, active: int, literals: Sequence[int]) -> None:
        """When active is true exactly one of these is; otherwise none."""
        self.add([-active, *literals])
        for literal in literals:
            self.add([-literal, active])
        self.at_most_one(literals)

    def between(self, literals: Sequence[int], least: int, most: int) -> int:
        """A literal that is true exactly when between least and most of these are."""
        n = len(literals)
        least = max(least, 0)
        if least > n or most < least:
            return self.FALSE
        if least == n:
            return self.all_of(literals)
        if most >= n and least <= 1:
            return self.TRUE if least == 0 else self.any_of(literals)
        if most == 0:
            return -self.any_of(literals)
        reached = self.counted(literals, most + 1)
        return self.all_of([reached[least], -reached[most + 1]])

    def counted(self, literals: Sequence[int], most: int) -> list[int]:
        """Literals for "at least j of these are true", j = 0 .. most."""
        reached, last = [self.TRUE] + [self.FALSE] * most, list[int]()
        for n, literal in enumerate(literals, 1):
            last.append(self.all_of([reached[most - 1], literal]))
            for j in range(min(most - 1, n), 0, -1):
                reached[j] = self.any_of([reached[j], self.all_of([reached[j - 1], literal])])
        return [*reached[:most], self.any_of(last)] if most else reached

    def choose(self, condition: int, then: int, otherwise: int) -> int:
        """A literal for `then` where the condition holds, else for `otherwise`."""
        return self.any_of([self.all_of([condition, then]), self.all_of([-condition, otherwise])])

    def require_between(self, literals: Sequence[int], least: int, most: int) -> None:
        """Between least and most of these are true: one clause where that is "not none" or "not all"."""
        n = len(literals)
        if least > 1 or most < n - 1:
            self.add([self.between(literals, least, most)])
            return
        if least == 1:
            self.add(literals)
        if most == n - 1:
            self.add([-literal for literal in literals])

    def sum_of(self, numbers: Sequence[Sequence[int]]) -> list[int]:
        """The binary sum of binary numbers (lists of literals, lowest bit first)."""
        queue = [list(number) for number in numbers if number]
        while len(queue) > 1:
            pairs = zip(queue[::2], queue[1::2], strict=False)
            queue = [self._add_two(a, b) for a, b in pairs] + queue[len(queue) // 2 * 2 :]
        return queue[0] if queue else []

    def _add_two(self, a: Sequence[int], b: Sequence[int]) -> list[int]:
        out, carry = [], self.FALSE
        for x, y in zip_longest(a, b, fillvalue=self.FALSE):
            half = self.exclusive(x, y)
            out.append(self.exclusive(half, carry))
            carry = self.any_of([self.all_of([x, y]), self.all_of([half, carry])])
        if carry != self.FALSE:
            out.append(carry)
        return out

    def at_least_number(self, a: Sequence[int], b: Sequence[int]) -> int:
        """A literal for a >= b, both binary, lowest bit first."""
        out = self.TRUE
        for x, y in zip_longest(a, b, fillvalue=self.FALSE):
            greater, equal = self.all_of([x, -y]), -self.exclusive(x, y)
            out = self.any_of([greater, self.all_of([equal, out])])
        return out

    def number_of(self, values: Iterable[tuple[int, int]]) -> list[int]:
        """In binary, lowest bit first, the value whose literal holds, of which at most one does; below 0 it is 0."""
        shown = [(value, literal) for value, literal in values if value > 0]
        n_bits = max((value.bit_length() for value, _ in shown), default=0)
        return [self.any_of([literal for value, literal in shown if value >> bit & 1]) for bit in range(n_bits)]

    def constant(self, value: int) -> list[int]:
        """A non-negative whole number in binary, lowest bit first."""
        return [self.TRUE if value >> i & 1 else self.FALSE for i in range(value.bit_length())]
