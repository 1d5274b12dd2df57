"""DeepLoop: depth scaling for looped Transformers, as a program that rebuilds its own tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deeploop.nn.folder import open_model as load
    from deeploop.nn.residual_scaling import apply_residual_scaling

__version__ = "0.1.0"
__all__ = ["__version__", "apply_residual_scaling", "load"]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is asked for: planning must not wait for it."""
    if name == "load":
        from deeploop.nn.folder import open_model

        return open_model
    if name == "apply_residual_scaling":
        from deeploop.nn.residual_scaling import apply_residual_scaling

        return apply_residual_scaling
    raise AttributeError(f"module 'deeploop' has no attribute '{name}'")
