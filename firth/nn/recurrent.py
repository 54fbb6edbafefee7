"""Recurrent layers over a ragged stream: a token's vector depends on all that its row has read.

T tokens in the stream, B rows, L tokens of the longest row, D width, N layers, K states of a cell
(2 of the LSTM: its output and its cell state; else 1). "Finding Structure in Time", Elman, 1990;
"Long Short-Term Memory", Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al.,
2000; "Learning Phrase Representations using RNN Encoder-Decoder", Cho et al., 2014.

The passes are our own. Torch's over rows of unequal length take the product with the inputs, and
the gradients of the weights, once for each step in time; here they are taken once for the whole
stream, which takes half the time. For rows of equal length torch has better ways: ours takes a
fifth less with GRU cells and a tenth more with LSTM cells.

Products inside a recurrence don't go through nn/linear.py: they add to the gates and write to the
slopes in place, which oneDNN's operator can't.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from firth.nn.dropout import drop
from firth.nn.linear import Linear, product

aten = torch.ops.aten


class Packing(NamedTuple):
    """The order of reading: the first token of every row, the longest first, then every second.

    States stand in one array: first those before the rows (B), the longest first, then the one
    after each token (T).
    """

    sizes: list[int]  # (L) how many rows have a first token, a second one and so on
    tokens: Tensor  # (T) where in the stream each token stands
    back: Tensor  # (T) and the reverse: where each token of the stream is read
    before: Tensor  # (T) the state that each token finds
    rows: Tensor  # (B) the rows, longest first
    last: Tensor  # (B) the state that each row ends with, in the order of the rows given


def pack(lengths: Tensor, device: torch.device | None = None) -> Packing:
    """Return how rows (B) of these lengths, in any order and empty ones too, are read."""
    count = len(lengths)
    rows = lengths.argsort(descending=True, stable=True)
    rank = torch.empty_like(rows)
    rank[rows] = torch.arange(count)

    # Of each token (T): its row, that row's rank, and its position in the row.
    owner = torch.arange(count).repeat_interleave(lengths)
    own_rank = rank[owner]
    every = torch.arange(len(owner))
    stop = lengths.cumsum(0)
    start = stop - lengths
    position = every - start[owner]

    # By position and then by rank: a step's rows are the first so many of the step before.
    order = position * count + own_rank
    tokens = order.argsort()
    back = torch.empty_like(tokens)
    back[tokens] = every

    # A row's first token finds the row's own state, the others that of the token before.
    state_before = count + back.roll(1)
    before = torch.where(position > 0, state_before, own_rank)

    # An empty row ends with the state that it began with.
    last = rank.clone()
    some = lengths > 0
    last_token = stop[some] - 1
    last[some] = count + back[last_token]

    sizes = position.bincount().tolist()
    return Packing(
        sizes,
        tokens=tokens.to(device),
        back=back.to(device),
        before=before[tokens].to(device),
        rows=rows.to(device),
        last=last.to(device),
    )


class Tanh(nn.Module):
    """Elman's layer: h' = tanh(A x + W h + b)."""

    gates = 1
    states = 1

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.take = Linear(inputs, self.gates * width)
        self.keep = nn.Linear(width, self.gates * width, bias=False)
        bound = _bound(width)
        for weight in self.parameters():
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, x: Tensor, state: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        """Read a packed stream (T, inputs) after a state (K, B, D).

        Return its vectors (T, D) and the state after.
        """
        gates = self.take(x).to(state.dtype)  # (T, gates D)
        given = (gates, self.keep.weight, state, packing)
        return _Tanh.apply(*given)  # type: ignore[no-untyped-call, no-any-return]

    def explain(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        """Read one row (T, inputs) after a state (K, D), step by step.

        Return all that each step computes by the letters of the papers, (T, D) each: first what the
        cell gives, h.
        """
        steps = []
        for given in self.take(x):
            found = self._step(given, state)
            names = ("h", "c")[: self.states]
            state = torch.stack([found[name] for name in names])
            steps.append(found)
        return {name: torch.stack([step[name] for step in steps]) for name in steps[0]}

    def _step(self, given: Tensor, state: Tensor) -> dict[str, Tensor]:
        """Return what one step computes of an input's part in the gates and a state (K, D)."""
        return {"h": torch.tanh(given + self.keep(state[0]))}


class Gru(Tanh):
    """Gates r and z = sigmoid(A x + W h + b), n = tanh(A x + b + r (W h + c)).

    h' = (1 - z) n + z h; matrices hold r, z, n.
    """

    gates = 3

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        bound = _bound(width)
        bias = torch.empty(width).uniform_(-bound, bound)
        self.bias = nn.Parameter(bias)

    def forward(self, x: Tensor, state: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        """Read a packed stream."""
        gates = self.take(x).to(state.dtype)
        given = (gates, self.keep.weight, self.bias, state, packing)
        return _Gru.apply(*given)  # type: ignore[no-untyped-call, no-any-return]

    def _step(self, given: Tensor, state: Tensor) -> dict[str, Tensor]:
        (h,) = state
        of_r, of_z, of_n = given.chunk(3)
        by_r, by_z, by_n = self.keep(h).chunk(3)
        r = torch.sigmoid(of_r + by_r)
        z = torch.sigmoid(of_z + by_z)
        n = torch.tanh(of_n + r * (by_n + self.bias))
        return {"h": torch.lerp(n, h, z), "r": r, "z": z, "n": n}


class Lstm(Tanh):
    """Gates i, f, o = sigmoid(A x + W h + b), g = tanh of the same.

    c' = f c + i g, h' = o tanh(c'); matrices hold g, i, f, o.
    """

    gates = 4
    states = 2

    def forward(self, x: Tensor, state: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        """Read a packed stream; the first state is the output h, the second the cell state c."""
        gates = self.take(x).to(state.dtype)
        given = (gates, self.keep.weight, state, packing)
        return _Lstm.apply(*given)  # type: ignore[no-untyped-call, no-any-return]

    def _step(self, given: Tensor, state: Tensor) -> dict[str, Tensor]:
        h, c = state
        of_g, of_i, of_f, of_o = (given + self.keep(h)).chunk(4)
        g = torch.tanh(of_g)
        i = torch.sigmoid(of_i)
        f = torch.sigmoid(of_f)
        o = torch.sigmoid(of_o)
        c = f * c + i * g
        return {"h": o * torch.tanh(c), "c": c, "f": f, "i": i, "g": g, "o": o}


CELLS: dict[str, type[Tanh]] = {"tanh": Tanh, "gru": Gru, "lstm": Lstm}


class Recurrent(nn.Module):
    """Layers one above the other, with dropout between two."""

    def __init__(
        self, cell: str, inputs: int, width: int, depth: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        kind = CELLS[cell]
        below = [inputs, *[width] * (depth - 1)]  # the width of what each layer reads
        self.layers = nn.ModuleList(kind(size, width) for size in below)
        self.shape = depth, kind.states, width
        self.dropout = dropout

    def start(self, rows: int) -> Tensor:
        """Return the memory of rows that have read nothing, (N, K, B, D)."""
        depth, states, width = self.shape
        weight = next(self.parameters())
        return weight.new_zeros(depth, states, rows, width)

    def forward(self, x: Tensor, lengths: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Read a stream (T, inputs) after the memory of its rows.

        Return the top layer's vectors (T, D) and the memory after.
        """
        every, after = self.every_layer(x, lengths, memory)
        return every[-1], after

    def every_layer(
        self, x: Tensor, lengths: Tensor, memory: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """Return the vectors of every layer, (T, D) each, and the memory after."""
        packing = pack(lengths, x.device)
        x = x[packing.tokens]
        every: list[Tensor] = []
        after: list[Tensor] = []
        for layer, before in zip(self.layers, memory.unbind(), strict=True):
            if every:
                x = drop(x, self.dropout, self.training)
            x, state = layer(x, before, packing)
            every.append(x[packing.back])
            after.append(state)
        return every, torch.stack(after)

    def last(self, count: int) -> list[nn.Module]:
        """Return the last layers."""
        return list(self.layers[-count:])


class BidirectionalRecurrent(nn.Module):
    """Layers that read every row both ways; a layer gives the vectors of both side by side."""

    def __init__(
        self, cell: str, inputs: int, width: int, depth: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        kind = CELLS[cell]
        below = [inputs, *[2 * width] * (depth - 1)]  # the width of what each layer reads
        self.forwards = nn.ModuleList(kind(size, width) for size in below)
        self.backwards = nn.ModuleList(kind(size, width) for size in below)
        self.shape = kind.states, width
        self.dropout = dropout

    def forward(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        """Read a stream (T, inputs); return the vectors of every layer, (T, 2 D) each."""
        packing = pack(lengths, x.device)
        turn = reversal(lengths).to(x.device)
        states, width = self.shape
        nothing = x.new_zeros(states, len(lengths), width)
        every: list[Tensor] = []
        for ahead, behind in zip(self.forwards, self.backwards, strict=True):
            if every:
                x = drop(x, self.dropout, self.training)
            after, _ = ahead(x[packing.tokens], nothing, packing)
            before, _ = behind(x[turn[packing.tokens]], nothing, packing)
            x = torch.cat([after[packing.back], before[packing.back][turn]], 1)
            every.append(x)
        return every

    def last(self, count: int) -> list[nn.Module]:
        """Return the last layers, of both directions."""
        return [*self.forwards[-count:], *self.backwards[-count:]]


def reversal(lengths: Tensor) -> Tensor:
    """Return where the tokens (T) of rows (B) stand that are read from the last to the first.

    It is its own reverse.
    """
    stop = lengths.cumsum(0)
    ends = (stop + (stop - lengths) - 1).repeat_interleave(lengths)  # first and last place, added
    return ends - torch.arange(len(ends))


class _Tanh(torch.autograd.Function):
    """The passes of Elman's layer; like the others, they work in place on gates of their own."""

    @staticmethod
    def forward(
        context: Any, gates: Tensor, weight: Tensor, state: Tensor, packing: Packing
    ) -> tuple[Tensor, Tensor]:
        states = _room(gates, state, packing)
        h, outputs = states[0].tensor_split([len(packing.rows)])
        for size, gate, after in _forwards(packing, gates, outputs):
            gate.addmm_(h[:size], weight.t())
            h = torch.tanh(gate, out=after)
        context.save_for_backward(weight, states)
        return _keep(context, packing, states)

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor, last: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, states = context.saved_tensors
        packing = context.packing
        slope = last[:, packing.rows]
        outputs = states[0, len(packing.rows) :]  # (T, D)
        gates = torch.empty_like(above)
        for size, gate, d, y in _backwards(packing, gates, above, outputs):
            dh = slope[0, :size].add_(d)
            aten.tanh_backward.grad_input(dh, y, grad_input=gate)
            # Into the slope's own memory: it is that of the step before from here on.
            torch.mm(gate, weight, out=dh)

        # All steps in one product, which is what makes these passes fast.
        before = states[0, packing.before]  # (T, D)
        dweight = product(gates.t(), before.t())
        dstate = _unsorted(slope, packing)
        return gates, dweight, dstate, None


class _Gru(torch.autograd.Function):
    """The passes of the gated recurrent unit."""

    @staticmethod
    def forward(
        context: Any, gates: Tensor, weight: Tensor, bias: Tensor, state: Tensor, packing: Packing
    ) -> tuple[Tensor, Tensor]:
        width = state.shape[2]
        states = _room(gates, state, packing)
        h, outputs = states[0].tensor_split([len(packing.rows)])

        proposed = bias.repeat(len(gates), 1)  # (T, D) what memory proposes, before r
        # r and z stand side by side, so that one product and one sigmoid do for both.
        both = gates[:, : 2 * width]
        r, z, n = gates.split(width, 1)
        weight_both = weight[: 2 * width].t()
        weight_proposed = weight[2 * width :].t()
        steps = _forwards(packing, both, r, z, n, proposed, outputs)
        for size, both_, r_, z_, n_, proposed_, after in steps:
            before = h[:size]
            both_.addmm_(before, weight_both).sigmoid_()
            proposed_.addmm_(before, weight_proposed)
            n_.addcmul_(r_, proposed_).tanh_()
            h = torch.lerp(n_, before, z_, out=after)
        context.save_for_backward(weight, states, gates, proposed)
        return _keep(context, packing, states)

    @staticmethod
    @once_differentiable
    def backward(
        context: Any, above: Tensor, last: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        weight, states, gates, proposed = context.saved_tensors
        packing = context.packing
        width = states.shape[2]
        slope = last[:, packing.rows]
        before = states[0, packing.before]  # (T, D)
        r, z, n = gates.split(width, 1)

        # The slopes of r, z, what memory proposes, and n: first as shares of the output's.
        slopes = gates.new_empty(len(gates), 4, width)
        dr, dz, dproposed, dn = slopes.unbind(1)
        share = aten.tanh_backward(1 - z, n)
        torch.mul(aten.sigmoid_backward(proposed, r), share, out=dr)
        aten.sigmoid_backward.grad_input(before - n, z, grad_input=dz)
        torch.mul(share, r, out=dproposed)
        dn.copy_(share)

        # The first three reach the state before by way of its weight.
        kept = slopes.flatten(1)[:, : 3 * width]
        for size, all_, kept_, z_, d in _backwards(packing, slopes, kept, z, above):
            dh = slope[0, :size].add_(d)
            all_.mul_(dh[:, None])
            dh.mul_(z_).addmm_(kept_, weight)

        dgates = slopes[:, [0, 1, 3]].flatten(1)
        dweight = product(kept.t(), before.t())
        dbias = dproposed.sum(0)
        dstate = _unsorted(slope, packing)
        return dgates, dweight, dbias, dstate, None


class _Lstm(torch.autograd.Function):
    """The passes of the long short-term memory."""

    @staticmethod
    def forward(
        context: Any, gates: Tensor, weight: Tensor, state: Tensor, packing: Packing
    ) -> tuple[Tensor, Tensor]:
        rows = len(packing.rows)
        width = state.shape[2]
        states = _room(gates, state, packing)
        h, c = states[:, :rows]
        outputs, cells = states[:, rows:]  # (T, D) each
        bent = gates.new_empty(len(gates), width)  # tanh of c

        # i, f and o stand side by side, so that one sigmoid does for all.
        ifo = gates[:, width:]
        g, i, f, o = gates.split(width, 1)
        steps = _forwards(packing, gates, ifo, g, i, f, o, bent, outputs, cells)
        for size, gates_, ifo_, g_, i_, f_, o_, bent_, h_, c_ in steps:
            gates_.addmm_(h[:size], weight.t())
            ifo_.sigmoid_()
            g_.tanh_()
            c = torch.mul(f_, c[:size], out=c_)
            c.addcmul_(i_, g_)
            torch.tanh(c, out=bent_)
            h = torch.mul(o_, bent_, out=h_)
        context.save_for_backward(weight, states, gates, bent)
        return _keep(context, packing, states)

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor, last: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, states, gates, bent = context.saved_tensors
        packing = context.packing
        width = states.shape[2]
        slope = last[:, packing.rows]
        h_before, c_before = states[:, packing.before]  # (T, D) each
        g, i, f, o = gates.split(width, 1)

        # The slopes of g, i and f, first as shares of that of c, and of o, as a share of that of h.
        slopes = gates.new_empty(len(gates), 4, width)
        dg, di, df, do = slopes.unbind(1)
        aten.tanh_backward.grad_input(i, g, grad_input=dg)
        aten.sigmoid_backward.grad_input(g, i, grad_input=di)
        aten.sigmoid_backward.grad_input(c_before, f, grad_input=df)
        aten.sigmoid_backward.grad_input(bent, o, grad_input=do)
        through = aten.tanh_backward(o, bent)  # what of the slope of h reaches c

        dgates = slopes.flatten(1)  # (T, 4 D)
        dgif = slopes[:, :3]
        steps = _backwards(packing, dgates, dgif, do, through, f, above)
        for size, dgates_, dgif_, do_, through_, f_, d in steps:
            dh, dc = slope[:, :size]
            dh.add_(d)
            dc.addcmul_(dh, through_)
            dgif_.mul_(dc[:, None])
            do_.mul_(dh)
            dc.mul_(f_)
            torch.mm(dgates_, weight, out=dh)
        dweight = product(dgates.t(), h_before.t())
        dstate = _unsorted(slope, packing)
        return dgates, dweight, dstate, None


def _bound(width: int) -> float:
    """Return how far initial weights lie from 0 at most, as torch's recurrent layers have it."""
    bound: float = width**-0.5
    return bound


def _room(gates: Tensor, state: Tensor, packing: Packing) -> Tensor:
    """Make room for the states before the rows and after every token, (K, B + T, D)."""
    kinds, rows, width = state.shape
    states = state.new_empty(kinds, rows + len(gates), width)
    states[:, :rows] = state[:, packing.rows]
    return states


def _keep(context: Any, packing: Packing, states: Tensor) -> tuple[Tensor, Tensor]:
    """Keep the packing, and return the vectors of the tokens and the states after the rows."""
    context.packing = packing
    vectors = states[0, len(packing.rows) :]
    after = states[:, packing.last]
    return vectors, after


def _forwards(packing: Packing, *parts: Tensor) -> Iterator[tuple[Any, ...]]:
    """Return each step in time: its rows and its share of each part (T, ...)."""
    sizes = packing.sizes
    steps = (part.split(sizes) for part in parts)
    return zip(sizes, *steps, strict=True)


def _backwards(packing: Packing, *parts: Tensor) -> Iterator[tuple[Any, ...]]:
    """Return each step in time, the last first: its rows and its share of each part (T, ...)."""
    steps = (reversed(part.split(packing.sizes)) for part in parts)
    return zip(reversed(packing.sizes), *steps, strict=True)


def _unsorted(slope: Tensor, packing: Packing) -> Tensor:
    """Return slopes of states (K, B, D), longest row first, in the order of the rows given."""
    result = torch.empty_like(slope)
    result[:, packing.rows] = slope
    return result
