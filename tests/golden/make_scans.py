#!/usr/bin/env python3
"""Makes the files of scans/ and scans.json: pictures that are decoded in several passes, large enough
for a decoder to give memory back on its way, and the digests of what Pillow makes of them.

    make_scans.py

Made with Pillow 13.0. A digest is FNV-1a (64 bits) of all points.
"""

import io
import json
import os
import struct
import zlib

import numpy
from PIL import Image

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scans")
WIDTH, HEIGHT = 264, 520


def waves(width, height):
    """Smooth, so that few coefficients are not zero."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float64)
    planes = [numpy.sin(x / 17 + y / 29) * 90 + 128, numpy.cos(x / 41 - y / 13) * 110 + 128,
              (x * 3 + y) % 251]
    return Image.fromarray(numpy.stack(planes, axis=2).astype(numpy.uint8))


def digest(points):
    value = 0xcbf29ce484222325
    for byte in points:
        value = (value ^ byte) * 0x100000001b3 % (1 << 64)
    return f"{value:016x}"


def scans(jpeg):
    """Where each scan begins, by its marker, and where the last one ends."""
    at, found = 2, []
    while jpeg[at + 1] != 0xd9:
        length = struct.unpack(">H", jpeg[at + 2:at + 4])[0]
        if jpeg[at + 1] == 0xda:
            found.append(at)
            at += 2 + length
            while jpeg[at] != 0xff or jpeg[at + 1] == 0 or 0xd0 <= jpeg[at + 1] <= 0xd7:
                at += 1
        else:
            at += 2 + length
    return found + [at]


def interlaced(picture):
    """A PNG of Adam7's seven passes, which Pillow reads and does not write."""
    points = numpy.asarray(picture)
    height, width, _ = points.shape
    data = b""
    for x, y, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                         (1, 0, 2, 2), (0, 1, 1, 2)):
        for row in points[y::dy, x::dx]:
            data += b"\0" + row.tobytes()
    return png(width, height, data, interlace=1)


def chunk(kind, content):
    return (struct.pack(">I", len(content)) + kind + content
            + struct.pack(">I", zlib.crc32(kind + content)))


def png(width, height, rows, interlace=0, before=b""):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0,
                                                              interlace))
            + before + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    golden = {}

    def add(name, content, same_as=None):
        path = os.path.join(FOLDER, name)
        with open(path, "wb") as out:
            out.write(content)
        with Image.open(io.BytesIO(same_as or content)) as found:
            golden[name] = digest(found.convert("RGB").tobytes())

    path = os.path.join(FOLDER, "new.jpg")
    for name, subsampling in (("even", 0), ("wide", 1), ("photo", 2)):
        waves(WIDTH, HEIGHT).save(path, quality=40, progressive=True, subsampling=subsampling)
        with open(path, "rb") as made:
            jpeg = made.read()
        add(f"{name}.jpg", jpeg)
    # The first scan alone, of which a decoder makes smooth blocks, each version of libjpeg-turbo its
    # own: it has no digest. And the first scan at the end again.
    places = scans(jpeg)
    first = jpeg[jpeg.index(b"\xff\xc4"):places[1]]  # with its tables
    add("coarse.jpg", jpeg[:places[1]] + b"\xff\xd9")
    del golden["coarse.jpg"]
    add("again.jpg", jpeg[:places[-1]] + 12 * first + b"\xff\xd9")
    # All of its blocks have the same few bits.
    Image.new("RGB", (2000, 1600), (30, 160, 90)).save(path, progressive=True, subsampling=0)
    with open(path, "rb") as made:
        add("flat.jpg", made.read())
    os.remove(path)
    add("interlaced.png", interlaced(waves(61, 47)))
    rows = b"".join(b"\0" + row.tobytes() for row in numpy.asarray(waves(19, 23)))
    # 32 MiB each, which Pillow refuses to inflate.
    zeros = zlib.compress(bytes(32 << 20), 9)
    add("profile.png", png(19, 23, rows, before=chunk(b"iCCP", b"p\0\0" + zeros)
                           + chunk(b"zTXt", b"t\0\0" + zeros)
                           + chunk(b"iTXt", b"i\0\1\0\0\0" + zeros)), same_as=png(19, 23, rows))
    with open(FOLDER + ".json", "w", encoding="utf-8") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
