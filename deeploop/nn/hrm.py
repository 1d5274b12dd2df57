"""The Hierarchical Reasoning Model: two modules of Post-LN blocks, one segment of thought a call.

Parameter and buffer names are the published code's, so that a checkpoint of either is a
checkpoint of the other (without the prefix `model.inner.`). Halting, and what is carried from
segment to segment, is in `deeploop.nn.hrm_halting`.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deeploop.nn.hrm_config import HRMConfig
from deeploop.nn.init import BETA_MATRICES
from deeploop.nn.layers import rotate
from deeploop.scaling import Module

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
TRUNCATED_STD = 0.87962566103423978
"""Standard deviation of a unit normal cut at two standard deviations."""
Q_BIAS = -5.0
"""Start value of both halting logits: near zero after the sigmoid, so the bootstrap starts low."""


class Rotation(NamedTuple):
    """Rotary position tables, `[positions, channels of a head / 2]`."""

    cos: Tensor
    sin: Tensor


class States(NamedTuple):
    """What H and L hold, each `[rows, positions, hidden_size]`."""

    z_h: Tensor
    z_l: Tensor


class Thought(NamedTuple):
    """What one segment returns."""

    states: States
    """With gradient where there is one."""
    embedding: Tensor
    """The input embedding, `[rows, positions, hidden_size]`."""
    logits: Tensor
    """`[rows, sequence_length, vocab_size]`."""
    q_halt: Tensor
    """`[rows]`, at least fp32."""
    q_continue: Tensor


class CastLinear(nn.Linear):
    """A linear map whose weights are cast to its input's type at each use."""

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., in]` to `[..., out]`."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)


class TokenTable(nn.Module):
    """An embedding table, under the published name of its weights."""

    def __init__(self, rows: int, hidden_size: int) -> None:
        super().__init__()
        self.embedding_weight = nn.Parameter(torch.empty(rows, hidden_size))


class PuzzleTable(nn.Module):
    """The puzzle embedding: one large buffer, trained by sparse updates outside autograd."""

    weights: Tensor

    def __init__(self, identifiers: int, size: int) -> None:
        super().__init__()
        self.register_buffer("weights", torch.zeros(identifiers, size))

    def forward(self, identifiers: Tensor) -> Tensor:
        """Return a copy of the rows, `[rows, size]`: a leaf that can be given a gradient."""
        return self.weights.index_select(0, identifiers)


class Attention(nn.Module):
    """Full (not causal) multi-head attention; query, key and value are one matrix."""

    def __init__(self, config: HRMConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv_proj = CastLinear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.o_proj = CastLinear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, rotation: Rotation | None, queries: int | None) -> Tensor:
        """Attend from the first `queries` positions (None: all) to all positions."""
        rows, positions, hidden = x.shape
        parts = self.qkv_proj(x).view(rows, positions, 3, self.heads, hidden // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        query = query[:, :, :queries]
        if rotation is not None:
            query, key = _turn(query, rotation), _turn(key, rotation)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.o_proj(mixed.transpose(1, 2).reshape(rows, -1, hidden))


class SwiGLU(nn.Module):
    """Gated feed-forward network; gate and up are one matrix, the gate first."""

    def __init__(self, config: HRMConfig) -> None:
        super().__init__()
        self.gate_up_proj = CastLinear(config.hidden_size, 2 * config.ffn_hidden, bias=False)
        self.down_proj = CastLinear(config.ffn_hidden, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., hidden_size]` to the same shape."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)


class Block(nn.Module):
    """Two Post-LN sublayers: x <- RMSNorm(alpha x + f(x)), the norm without gains."""

    def __init__(self, config: HRMConfig, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.norm_epsilon = config.norm_epsilon
        self.self_attn = Attention(config)
        self.mlp = SwiGLU(config)

    def forward(self, x: Tensor, rotation: Rotation | None, queries: int | None = None) -> Tensor:
        """Return the block's output at the first `queries` positions (None: at all)."""
        x = self._join(x[:, :queries], self.self_attn(x, rotation, queries))
        return self._join(x, self.mlp(x))

    def _join(self, x: Tensor, branch: Tensor) -> Tensor:
        # With alpha = 1 this is x + branch to the bit: vanilla HRM takes the same path.
        return rms_norm(torch.add(branch, x, alpha=self.alpha), self.norm_epsilon)


class Reasoner(nn.Module):
    """One module, H or L: adds what is injected to its state, then applies its blocks."""

    def __init__(self, config: HRMConfig, module: Module) -> None:
        super().__init__()
        layers = config.h_layers if module == "H" else config.l_layers
        alpha = config.alpha(module)
        self.layers = nn.ModuleList(Block(config, alpha) for _ in range(layers))

    def forward(
        self, state: Tensor, injected: Tensor, rotation: Rotation | None, queries: int | None = None
    ) -> Tensor:
        """Return the next state, only of the first `queries` positions where that is asked."""
        x = state + injected
        for layer in self.layers[:-1]:
            x = layer(x, rotation)
        return self.layers[-1](x, rotation, queries)


class HRM(nn.Module):
    """One segment of HRM, its embeddings and its two heads."""

    H_init: Tensor
    L_init: Tensor

    def __init__(self, config: HRMConfig) -> None:
        """Build with uninitialised weights; `initialise` or `load_state_dict` fills them."""
        super().__init__()
        self.config = config
        self.dtype = DTYPES[config.precision]
        size = config.hidden_size
        self.embed_tokens = TokenTable(config.vocab_size, size)
        self.lm_head = CastLinear(size, config.vocab_size, bias=False)
        self.q_head = CastLinear(size, 2, bias=True)
        if config.puzzle_embedding_size:
            self.puzzle_emb = PuzzleTable(config.identifiers, config.puzzle_embedding_size)
        if config.positions == "learned":
            self.embed_pos = TokenTable(self.positions, size)
        self.H_level = Reasoner(config, "H")
        self.L_level = Reasoner(config, "L")
        self.to(torch.promote_types(self.dtype, torch.float32))
        self.register_buffer("H_init", torch.empty(size, dtype=self.dtype))
        self.register_buffer("L_init", torch.empty(size, dtype=self.dtype))
        for name, table in zip(
            ("cos", "sin"), rotation_tables(config, self.positions), strict=True
        ):
            self.register_buffer(name, table, persistent=False)

    @property
    def positions(self) -> int:
        """Positions of a row: the puzzle's and the grid's."""
        return self.config.puzzle_positions + self.config.sequence_length

    @property
    def rotation(self) -> Rotation | None:
        """Rotary tables, or None with learned positions."""
        if self.config.positions == "learned":
            return None
        return Rotation(self.get_buffer("cos"), self.get_buffer("sin"))

    def embed(self, inputs: Tensor, puzzle: Tensor | None) -> Tensor:
        """Return the input embedding, `[rows, positions, hidden_size]`.

        Args:
            inputs: token numbers, `[rows, sequence_length]`.
            puzzle: rows of the puzzle embedding, `[rows, puzzle_embedding_size]`, if there is one.
        """
        config = self.config
        embedding = F.embedding(inputs, self.embed_tokens.embedding_weight.to(self.dtype))
        if puzzle is not None:
            spare = config.puzzle_positions * config.hidden_size - puzzle.shape[-1]
            padded = F.pad(puzzle.to(self.dtype), (0, spare))
            shape = (len(puzzle), config.puzzle_positions, config.hidden_size)
            embedding = torch.cat((padded.view(shape), embedding), dim=1)
        if config.positions == "learned":
            # Two unit-variance terms: keep the sum's variance at one.
            offsets = self.embed_pos.embedding_weight.to(self.dtype)
            embedding = math.sqrt(0.5) * (embedding + offsets)
        embedding = math.sqrt(config.hidden_size) * embedding
        return rms_norm(embedding, config.norm_epsilon) if config.entry_norm else embedding

    def puzzle_rows(self, identifiers: Tensor) -> Tensor | None:
        """Return the puzzle embeddings of `identifiers`, `[rows, size]`, or None without one."""
        return self.puzzle_emb(identifiers) if self.config.puzzle_embedding_size else None

    def forward(self, states: States, inputs: Tensor, puzzle: Tensor | None) -> Thought:
        """Think for one segment; gradient flows through its last visits only.

        Args:
            states: what was carried here.
            inputs: token numbers, `[rows, sequence_length]`.
            puzzle: what `puzzle_rows` returned; a leaf that requires gradient in training.
        """
        embedding = self.embed(inputs, puzzle)
        z_h, z_l = self.think(states, embedding)
        logits = self.lm_head(z_h[:, self.config.puzzle_positions :])
        return Thought(States(z_h, z_l), embedding, logits, *self._halting(z_h))

    def halting(self, states: States, embedding: Tensor) -> tuple[Tensor, Tensor]:
        """Return only the halting logits of one segment, each `[rows]`.

        They are read at position 0, so the last block is computed there alone.
        """
        return self._halting(self.think(states, embedding, queries=1)[0])

    def think(self, states: States, embedding: Tensor, queries: int | None = None) -> States:
        """Return the states after one segment: C outer cycles of C_L visits of L and one of H.

        With `queries`, H's state is returned for the first so many positions only.
        """
        config, (z_h, z_l) = self.config, states
        visible = config.visible_l_visits
        with torch.no_grad():
            for _ in range(config.h_cycles - 1):
                z_l = self._think_low(z_h, z_l, embedding, config.l_cycles)
                z_h = self.H_level(z_h, z_l, self.rotation)
            z_l = self._think_low(z_h, z_l, embedding, config.l_cycles - visible)
        z_l = self._think_low(z_h, z_l, embedding, visible)
        return States(self.H_level(z_h, z_l, self.rotation, queries), z_l)

    def compile_as(self, what: str) -> None:
        """Compile each block once (`block`), the forward as a whole (`model`), or nothing."""
        if what == "model":
            self.compile()
        elif what == "block":
            for level in (self.H_level, self.L_level):
                for block in level.layers:
                    block.compile()

    def _think_low(self, z_h: Tensor, z_l: Tensor, embedding: Tensor, visits: int) -> Tensor:
        if not visits:
            return z_l
        injected = z_h + embedding
        for _ in range(visits):
            z_l = self.L_level(z_l, injected, self.rotation)
        return z_l

    def _halting(self, z_h: Tensor) -> tuple[Tensor, Tensor]:
        q = self.q_head(z_h[:, 0])
        halt, proceed = q.to(torch.promote_types(q.dtype, torch.float32)).unbind(-1)
        return halt, proceed


def initialise(model: HRM, seed: int) -> None:
    """Fill a model's weights: the published start values, then beta on the residual branches.

    Draws are made on the CPU in a fixed order, so every device and every scaling rule starts from
    the same base values.
    """
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        # Fan-in of a linear map; hidden_size for the tables.
        _truncated_normal(parameter, parameter.shape[-1] ** -0.5, generator)
    _truncated_normal(model.H_init, 1.0, generator)
    _truncated_normal(model.L_init, 1.0, generator)
    with torch.no_grad():
        model.q_head.weight.zero_()
        model.q_head.bias.fill_(Q_BIAS)
        if model.config.puzzle_embedding_size:
            model.puzzle_emb.weights.zero_()
        for branch, beta in residual_branches(model):
            branch.mul_(beta)


def residual_branches(model: HRM) -> list[tuple[Tensor, float]]:
    """Return the matrices that beta scales, as views into the fused ones, each with its beta.

    Which they are is `scaling.beta_targets`. Empty where beta is 1.
    """
    config = model.config
    targets = BETA_MATRICES[config.scaling.beta_targets]
    levels = ((model.H_level, config.beta("H")), (model.L_level, config.beta("L")))
    return [
        (matrix, beta)
        for level, beta in levels
        if beta != 1.0
        for block in level.layers
        for name, matrix in block_matrices(cast(Block, block)).items()
        if name in targets
    ]


def block_matrices(block: Block) -> dict[str, Tensor]:
    """Return the matrices of one block by name, those of the fused ones as views."""
    q, k, v = block.self_attn.qkv_proj.weight.data.chunk(3)
    gate, up = block.mlp.gate_up_proj.weight.data.chunk(2)
    output, down = block.self_attn.o_proj.weight.data, block.mlp.down_proj.weight.data
    return {"q": q, "k": k, "v": v, "o": output, "gate": gate, "up": up, "down": down}


def rms_norm(x: Tensor, epsilon: float) -> Tensor:
    """Return x / RMS(x) over the last axis, without gains; computed in fp32 for bf16."""
    return F.rms_norm(x, x.shape[-1:], eps=epsilon)


def rotation_tables(config: HRMConfig, positions: int) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the rotary angles, `[positions, channels of a head / 2]`.

    Angles are computed in fp32 (fp64 in fp64) because the published code does: over 900
    positions its angles differ visibly from exact ones.
    """
    dtype = torch.promote_types(DTYPES[config.precision], torch.float32)
    channels = config.hidden_size // config.heads
    frequencies = 1.0 / config.rope_base ** (torch.arange(0, channels, 2, dtype=dtype) / channels)
    angles = torch.outer(torch.arange(positions, dtype=dtype), frequencies)
    return angles.cos(), angles.sin()


def _turn(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn `[rows, heads, positions, channels]` by its positions, in the tables' precision."""
    cos, sin = (table[: x.shape[2]] for table in rotation)
    return rotate(x.to(cos.dtype), cos, sin).to(x.dtype)


def _truncated_normal(tensor: Tensor, std: float, generator: torch.Generator) -> None:
    """Fill with a normal cut at two of its standard deviations, and of deviation `std` after it."""
    wide = std / TRUNCATED_STD
    values = torch.empty(tensor.shape, dtype=torch.float32)
    nn.init.trunc_normal_(values, std=wide, a=-2 * wide, b=2 * wide, generator=generator)
    with torch.no_grad():
        tensor.copy_(values)
