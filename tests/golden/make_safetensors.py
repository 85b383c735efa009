#!/usr/bin/env python3
"""Writes tests/golden/safetensors/python.safetensors with Python's safetensors.

Needs numpy and safetensors. Run it in tests/golden.
"""
import numpy as np
from safetensors.numpy import save_file

save_file(
    {
        "matrix": (np.arange(6, dtype=np.float32) / 4).reshape(2, 3),
        "half": np.array([1.5, -2.0, 2.0**-24], dtype=np.float16),
        "scalar": np.array(42.0, dtype=np.float32),
        "empty": np.zeros((0, 7), dtype=np.float32),
        "mask": np.array([True, False]),
    },
    "safetensors/python.safetensors",
    metadata={"format": "pt"},
)
