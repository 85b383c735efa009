"""Writes moments.json: the 256 values of bitsandbytes' 8-bit moments, signed and unsigned, as bits
of fp32. Made with bitsandbytes 0.50 and torch 2.11:
    python3 tests/golden/make_moments.py
"""

import json
import pathlib
import struct

from bitsandbytes.functional import create_dynamic_map


def bits(signed):
    return [struct.unpack("<I", struct.pack("<f", v))[0] for v in create_dynamic_map(signed=signed).float().tolist()]


pathlib.Path(__file__).with_name("moments.json").write_text(
    json.dumps({"signed": bits(True), "unsigned": bits(False)}) + "\n"
)
