"""What a GPU could do at most: the denominator of MFU."""

from __future__ import annotations

import torch

PEAK_BF16 = {
    "B200": 2250e12,
    "GH200": 989e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "RTX 4090": 165e12,
}
"""Part of a device's name -> dense bf16 FLOPs a second, from NVIDIA's data sheets; the first that
matches counts."""


def peak_flops(device_name: str) -> float | None:
    """Return a device's dense bf16 peak, FLOPs a second; None when it is not in the table."""
    return next((peak for part, peak in PEAK_BF16.items() if part in device_name), None)


def device_peak(device: torch.device) -> float | None:
    """Return the peak of the device that computes; None on a CPU."""
    return peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
