#!/usr/bin/python3
"""Writes JPEG files with subsampled chroma, Pillow's pixels of them as PNG, and a PNG file resized by Pillow.

The blocks of the discrete cosine transform have one color each, so that all decoders agree on their values, and only
the interpolation and conversion of chroma are compared.
"""
import io
from pathlib import Path

import numpy as np
from PIL import Image

FOLDER = Path(__file__).parent


def write(name, data):
    (FOLDER / f"{name}.jpg").write_bytes(data)
    Image.open(io.BytesIO(data)).convert("RGB").save(FOLDER / f"{name}.png", optimize=True)


def jpeg(height, width, subsampling):
    colors = np.random.default_rng(height).integers(0, 256, (height // 16 + 1, width // 16 + 1, 3), dtype=np.uint8)
    pixels = colors.repeat(16, 0).repeat(16, 1)[:height, :width]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95, subsampling=subsampling)
    return file.getvalue()


write("420", jpeg(75, 53, "4:2:0"))
write("422", jpeg(37, 99, "4:2:2"))
write("narrow", jpeg(35, 4, "4:2:0"))
# Pillow does not write 4:4:0. A file of 64 x 64 pixels in 4:2:2 becomes one by other sampling factors of luma in its
# header, since the order and the number of the blocks remain.
data = bytearray(jpeg(64, 64, "4:2:2"))
factors = data.index(b"\xff\xc0") + 11
assert data[factors] == 0x21
data[factors] = 0x12
write("440", bytes(data))

noise = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)
noise[10:20] = np.where(noise[10:20] < 128, 0, 255)
noise = Image.fromarray(noise)
noise.save(FOLDER / "noise.png", optimize=True)
for height, width in (1, 1), (12, 53), (37, 20), (19, 31), (50, 80), (90, 7):
    noise.resize((width, height), Image.BILINEAR).save(FOLDER / f"noise_{height}x{width}.png", optimize=True)
