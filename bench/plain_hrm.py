"""HRM as a straightforward reimplementation of the published code's structure, to compare with.

Eager blocks, rotary tables applied to query and key apart, hand-written norm, a loop over
parameters in the optimizer, logits kept for every evaluated row. It shares no code with
`deeploop.nn.hrm` but its configuration; weights have the same names. Tests use it as a second
opinion, `bench/hrm_step.py` as the thing to beat.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deeploop.nn.hrm_config import HRMConfig

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
Batch = dict[str, Tensor]
Carry = dict[str, Tensor]


class PlainBlock(nn.Module):
    def __init__(self, config: HRMConfig) -> None:
        super().__init__()
        size, width = config.hidden_size, config.ffn_hidden
        self.heads, self.epsilon = config.heads, config.norm_epsilon
        self.self_attn = nn.Module()
        self.self_attn.qkv_proj = nn.Linear(size, 3 * size, bias=False)
        self.self_attn.o_proj = nn.Linear(size, size, bias=False)
        self.mlp = nn.Module()
        self.mlp.gate_up_proj = nn.Linear(size, 2 * width, bias=False)
        self.mlp.down_proj = nn.Linear(width, size, bias=False)

    def forward(self, x: Tensor, alpha: float, tables: tuple[Tensor, Tensor] | None) -> Tensor:
        x = plain_norm(alpha * x + self.attend(x, tables), self.epsilon)
        return plain_norm(alpha * x + self.feed(x), self.epsilon)

    def attend(self, x: Tensor, tables: tuple[Tensor, Tensor] | None) -> Tensor:
        rows, length, size = x.shape
        qkv = linear(x, self.self_attn.qkv_proj)
        qkv = qkv.view(rows, length, 3 * self.heads, size // self.heads)
        q, k, v = qkv.split(self.heads, dim=2)
        if tables is not None:
            q, k = plain_rotate(q, *tables), plain_rotate(k, *tables)
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        )
        return linear(out.transpose(1, 2).reshape(rows, length, size), self.self_attn.o_proj)

    def feed(self, x: Tensor) -> Tensor:
        gate, up = linear(x, self.mlp.gate_up_proj).chunk(2, dim=-1)
        return linear(F.silu(gate) * up, self.mlp.down_proj)


class PlainLevel(nn.Module):
    def __init__(self, config: HRMConfig, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([PlainBlock(config) for _ in range(layers)])

    def forward(self, state: Tensor, injected: Tensor, alpha: float, tables: object) -> Tensor:
        x = state + injected
        for layer in self.layers:
            x = layer(x, alpha, tables)
        return x


class PlainHRM(nn.Module):
    def __init__(self, config: HRMConfig) -> None:
        super().__init__()
        self.config, size = config, config.hidden_size
        self.dtype = DTYPES[config.precision]
        self.length = config.sequence_length + config.puzzle_positions
        self.embed_tokens = nn.Module()
        self.embed_tokens.embedding_weight = nn.Parameter(torch.empty(config.vocab_size, size))
        self.lm_head = nn.Linear(size, config.vocab_size, bias=False)
        self.q_head = nn.Linear(size, 2)
        if config.puzzle_embedding_size:
            self.puzzle_emb = nn.Module()
            table = torch.empty(config.identifiers, config.puzzle_embedding_size)
            self.puzzle_emb.register_buffer("weights", table)
        if config.positions == "learned":
            self.embed_pos = nn.Module()
            self.embed_pos.embedding_weight = nn.Parameter(torch.empty(self.length, size))
        self.H_level = PlainLevel(config, config.h_layers)
        self.L_level = PlainLevel(config, config.l_layers)
        if config.precision == "fp64":
            self.double()
        self.register_buffer("H_init", torch.empty(size, dtype=self.dtype))
        self.register_buffer("L_init", torch.empty(size, dtype=self.dtype))

    def tables(self) -> tuple[Tensor, Tensor] | None:
        if self.config.positions == "learned":
            return None
        wide = torch.promote_types(self.dtype, torch.float32)
        channels = self.config.hidden_size // self.config.heads
        speeds = 1.0 / (
            self.config.rope_base ** (torch.arange(0, channels, 2, dtype=wide) / channels)
        )
        angles = torch.outer(torch.arange(self.length, dtype=wide), speeds)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    def embed(self, inputs: Tensor, puzzle: Tensor | None) -> Tensor:
        config = self.config
        x = F.embedding(inputs, self.embed_tokens.embedding_weight.to(self.dtype))
        if puzzle is not None:
            missing = config.puzzle_positions * config.hidden_size - puzzle.shape[1]
            first = F.pad(puzzle.to(self.dtype), (0, missing))
            x = torch.cat((first.view(len(x), -1, config.hidden_size), x), dim=1)
        if config.positions == "learned":
            x = 0.7071067811865476 * (x + self.embed_pos.embedding_weight.to(self.dtype))
        x = math.sqrt(config.hidden_size) * x
        return plain_norm(x, config.norm_epsilon) if config.entry_norm else x

    def forward(
        self, z_h: Tensor, z_l: Tensor, inputs: Tensor, puzzle: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        config, tables = self.config, self.tables()
        alpha_h, alpha_l = config.alpha("H"), config.alpha("L")
        x = self.embed(inputs, puzzle)
        visits = [
            (
                module,
                cycle == config.h_cycles - 1 and (module == "H" or inner >= first_seen(config)),
            )
            for cycle in range(config.h_cycles)
            for inner, module in enumerate("L" * config.l_cycles + "H")
        ]
        for module, seen in visits:
            with torch.set_grad_enabled(seen and torch.is_grad_enabled()):
                if module == "L":
                    z_l = self.L_level(z_l, z_h + x, alpha_l, tables)
                else:
                    z_h = self.H_level(z_h, z_l, alpha_h, tables)
        logits = linear(z_h, self.lm_head)[:, config.puzzle_positions :]
        q = linear(z_h[:, 0], self.q_head)
        q = q.to(torch.promote_types(q.dtype, torch.float32))
        return z_h, z_l, logits, q[:, 0], q[:, 1]


def first_seen(config: HRMConfig) -> int:
    return config.l_cycles - 1 if config.gradient == "last_step" else 0


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    bias = None if layer.bias is None else layer.bias.to(x.dtype)
    return F.linear(x, layer.weight.to(x.dtype), bias)


def plain_norm(x: Tensor, epsilon: float) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(x.dtype)


def plain_rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    wide = x.to(cos.dtype)
    left, right = wide.chunk(2, dim=-1)
    turned = torch.cat((-right, left), dim=-1)
    return (wide * cos[:, None] + turned * sin[:, None]).to(x.dtype)


def first_carry(model: PlainHRM, batch: Batch) -> Carry:
    rows = len(batch["inputs"])
    shape = (rows, model.length, model.config.hidden_size)
    carry = {
        "z_H": torch.zeros(shape, dtype=model.dtype),
        "z_L": torch.zeros(shape, dtype=model.dtype),
        "steps": torch.zeros(rows, dtype=torch.int32),
        "halted": torch.ones(rows, dtype=torch.bool),
    }
    return carry | {f"current.{name}": tensor for name, tensor in batch.items()}


def train_step(
    model: PlainHRM, carry: Carry, batch: Batch, uniform: Tensor, least: Tensor
) -> tuple[Tensor, Carry, dict[str, Tensor], Tensor | None]:
    """One training segment: returns the summed loss, the carry, outputs, and puzzle rows."""
    config, halted = model.config, carry["halted"]
    current = {
        name: torch.where(
            halted if new.ndim == 1 else halted[:, None], new, carry[f"current.{name}"]
        )
        for name, new in batch.items()
    }
    z_h = torch.where(halted[:, None, None], model.H_init, carry["z_H"])
    z_l = torch.where(halted[:, None, None], model.L_init, carry["z_L"])
    puzzle = None
    if config.puzzle_embedding_size:
        puzzle = model.puzzle_emb.weights[current["puzzle_identifiers"]].clone().requires_grad_()
    z_h, z_l, logits, q_halt, q_continue = model(z_h, z_l, current["inputs"], puzzle)
    steps = torch.where(halted, 0, carry["steps"]) + 1
    outputs = {"logits": logits, "q_halt_logits": q_halt, "q_continue_logits": q_continue}
    with torch.no_grad():
        last = steps >= config.halt_max_steps
        stop = last.clone()
        if config.halt_max_steps > 1:
            stop |= q_halt > q_continue
            stop &= steps >= (uniform < config.halt_exploration) * least
            following = model(z_h, z_l, current["inputs"], puzzle)[3:]
            best = torch.where(last, following[0], torch.maximum(*following))
            outputs["target_q_continue"] = torch.sigmoid(best)
    loss, metrics = plain_loss(model, outputs, current["labels"], stop, steps)
    carry = {"z_H": z_h.detach(), "z_L": z_l.detach(), "steps": steps, "halted": stop}
    carry |= {f"current.{name}": tensor for name, tensor in current.items()}
    return loss, carry, outputs | metrics, puzzle


def plain_loss(
    model: PlainHRM, outputs: dict[str, Tensor], labels: Tensor, stop: Tensor, steps: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    logits, asked = outputs["logits"], labels != -100
    number = asked.sum(1)
    right = ((logits.argmax(-1) == labels) & asked).sum(1)
    solved = right == number
    if model.config.loss == "stablemax":
        wide = logits.double()
        s = torch.where(wide < 0, 1 / (1 - wide.clamp(max=0.5)), wide + 1)
        log_p = torch.log(s / s.sum(-1, keepdim=True))
    else:
        log_p = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
    picked = log_p.gather(-1, labels.clamp(min=0).long()[..., None])[..., 0]
    lm_loss = -((picked * asked).sum(1) / number.clamp(min=1)).sum()
    bce = F.binary_cross_entropy_with_logits
    q_halt = outputs["q_halt_logits"]
    q_loss = bce(q_halt, solved.to(q_halt.dtype), reduction="sum")
    counted = stop & (number > 0)
    metrics = {
        "metric.count": counted.sum(),
        "metric.accuracy": ((right / number.clamp(min=1)) * counted).sum(),
        "metric.exact_accuracy": (solved & counted).sum(),
        "metric.q_halt_accuracy": (((q_halt >= 0) == solved) & counted).sum(),
        "metric.steps": (steps * counted).sum(),
        "metric.lm_loss": lm_loss.detach(),
        "metric.q_halt_loss": q_loss.detach(),
    }
    if "target_q_continue" in outputs:
        extra = bce(outputs["q_continue_logits"], outputs["target_q_continue"], reduction="sum")
        metrics["metric.q_continue_loss"] = extra.detach()
        q_loss = q_loss + extra
    return lm_loss + 0.5 * q_loss, metrics


@torch.no_grad()
def evaluate(model: PlainHRM, batch: Batch) -> dict[str, Tensor]:
    """All segments, the head at each of them, as the published evaluation does."""
    carry = first_carry(model, batch)
    z_h, z_l = (init.expand_as(carry["z_H"]) for init in (model.H_init, model.L_init))
    puzzle = None
    if model.config.puzzle_embedding_size:
        puzzle = model.puzzle_emb.weights[batch["puzzle_identifiers"]]
    for _ in range(model.config.halt_max_steps):
        z_h, z_l, logits, q_halt, q_continue = model(z_h, z_l, batch["inputs"], puzzle)
    return {"logits": logits, "q_halt_logits": q_halt, "q_continue_logits": q_continue}


class PlainAdamATan2:
    """The optimizer's formula, a parameter at a time."""

    def __init__(
        self, params: list[Tensor], lr: float, betas: tuple[float, float], wd: float
    ) -> None:
        self.params, self.lr, self.betas, self.wd, self.t = params, lr, betas, wd, 0
        self.m = [torch.zeros_like(p) for p in params]
        self.v = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self) -> None:
        self.t += 1
        b1, b2 = self.betas
        for p, m, v in zip(self.params, self.m, self.v, strict=True):
            m.copy_(m + (1 - b1) * (p.grad - m))
            v.copy_(v + (1 - b2) * (p.grad * p.grad - v))
            p.mul_(1 - self.lr * self.wd)
            spread = v.sqrt() / math.sqrt(1 - b2**self.t)
            p.sub_(self.lr / (1 - b1**self.t) * torch.atan2(m, spread))


@torch.no_grad()
def plain_sign_sgd(table: Tensor, ids: Tensor, grad: Tensor, lr: float, wd: float) -> None:
    for identifier in ids.unique().tolist():
        total = grad[ids == identifier].sum(0)
        table[identifier] = table[identifier] * (1 - lr * wd) - lr * total.sign()
