"""Model FLOPs of HRM: every visit counted, recomputation not."""

from __future__ import annotations

from deeploop.nn.hrm_config import HRMConfig


def segment_flops(config: HRMConfig) -> float:
    """Return the FLOPs of one forward segment of one row; heads and embeddings left out."""
    return blocks_visited(config) * block_flops(config)


def training_flops(config: HRMConfig) -> float:
    """Return the FLOPs of one training segment of one row: forward, target-Q pass, backward."""
    forwards = 2 if config.halt_max_steps > 1 else 1
    backward = 2 * blocks_with_gradient(config)
    return (forwards * blocks_visited(config) + backward) * block_flops(config)


def blocks_visited(config: HRMConfig) -> int:
    """Return the block visits of one forward segment: C (K_H + C_L K_L)."""
    return config.h_cycles * (config.h_layers + config.l_cycles * config.l_layers)


def blocks_with_gradient(config: HRMConfig) -> int:
    """Return the block visits of one segment that the backward pass sees."""
    return config.h_layers + config.visible_l_visits * config.l_layers


def block_flops(config: HRMConfig) -> float:
    """Return the FLOPs of one visit of one block over all positions of a row."""
    positions = config.puzzle_positions + config.sequence_length
    weights = 4 * config.hidden_size**2 + 3 * config.hidden_size * config.ffn_hidden
    return positions * (2.0 * weights + 4.0 * positions * config.hidden_size)
