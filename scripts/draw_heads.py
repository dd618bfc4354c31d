#!/usr/bin/env python3
"""Draws the attention patterns of a saved pass as one grid of heads, layers downwards, white to dark blue.

    openwork run openwork-8m "When Mary and John ..." --save pass.safetensors --what attention
    scripts/draw_heads.py pass.safetensors heads.png

Needs nothing but Python: safetensors is a JSON header and numbers, PNG is a header and zlib.
"""
import json
import struct
import sys
import zlib

CELL, GAP = 6, 10  # pixels per pair of tokens, between heads


def read_patterns(path):
    """attention.N of the first prompt: [layer][head] -> rows of floats."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    layers = []
    for n in range(sum(name.startswith("attention.") for name in header)):
        entry = header[f"attention.{n}"]
        _, heads, rows, columns = entry["shape"]
        numbers = struct.unpack(f"<{heads * rows * columns}f", body[entry["data_offsets"][0] :][: 4 * heads * rows * columns])
        layers.append([[numbers[(h * rows + i) * columns :][:columns] for i in range(rows)] for h in range(heads)])
    return layers


def colour(weight):
    share = min(max(weight, 0.0), 1.0) ** 0.6  # small weights stay visible
    return tuple(round(255 + share * (dark - 255)) for dark in (8, 48, 107))


def draw(layers):
    tokens, heads = len(layers[0][0]), len(layers[0])
    side = tokens * CELL
    width, height = heads * (side + GAP) + GAP, len(layers) * (side + GAP) + GAP
    pixels = [bytearray(b"\xf2" * 3 * width) for _ in range(height)]
    for layer, row_of_heads in enumerate(layers):
        for head, pattern in enumerate(row_of_heads):
            top, left = GAP + layer * (side + GAP), GAP + head * (side + GAP)
            for i in range(tokens):
                line = b"".join(bytes(colour(pattern[i][j]) if j <= i else (255, 255, 255)) * CELL for j in range(tokens))
                for y in range(top + i * CELL, top + (i + 1) * CELL):
                    pixels[y][3 * left : 3 * (left + side)] = line
    return width, height, pixels


def write_png(path, width, height, pixels):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    raw = b"".join(b"\0" + bytes(row) for row in pixels)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_png(sys.argv[2], *draw(read_patterns(sys.argv[1])))
