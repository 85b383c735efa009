#!/usr/bin/env python3
"""Makes the files of pictures/ and pictures.json: what Pillow decodes and resizes, and what
transformers' image processors make of it.

    make_pictures.py

Made with Pillow 13.0 and transformers 5.24 (its processors over Pillow). The JPEGs' bits are
libjpeg-turbo's, as Debian's are.
"""

import json
import os
import random

import numpy
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pictures")
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PROCESSORS = {
    "convnext": (ConvNextImageProcessorPil,
                 {"size": {"shortest_edge": 14}, "crop_pct": 0.875, "resample": 3,
                  "image_mean": MEAN, "image_std": STD, "do_normalize": True, "do_resize": True,
                  "image_processor_type": "ConvNextImageProcessor"}),
    "vit": (ViTImageProcessorPil,
            {"size": {"height": 12, "width": 10}, "resample": 2, "image_mean": [0.5, 0.5, 0.5],
             "image_std": [0.5, 0.5, 0.5], "image_processor_type": "ViTImageProcessor"}),
    "clip": (CLIPImageProcessorPil,
             {"size": {"shortest_edge": 16}, "crop_size": {"height": 12, "width": 12},
              "do_center_crop": True, "resample": 3, "image_mean": MEAN, "image_std": STD,
              "image_processor_type": "CLIPImageProcessor"}),
}


def colours(width, height):
    draw = random.Random(width * height)
    picture = numpy.zeros((height, width, 3), numpy.uint8)
    for y in range(height):
        for x in range(width):
            picture[y, x] = [x * 255 // width, y * 255 // height, draw.randrange(256)]
    return Image.fromarray(picture)


def save(picture, name, **options):
    path = os.path.join(FOLDER, name)
    picture.save(path, **options)
    return path


def main():
    os.makedirs(FOLDER, exist_ok=True)
    files = {
        "colours.jpg": (colours(30, 21), {"quality": 85}),
        "grey.jpg": (colours(17, 24).convert("L"), {"quality": 90}),
        "progressive.jpg": (colours(26, 18), {"quality": 70, "progressive": True}),
        "colours.png": (colours(22, 31), {}),
        "palette.png": (colours(19, 15).quantize(16), {}),
        "alpha.png": (colours(12, 13).convert("RGBA"), {}),
        "grey.png": (colours(14, 11).convert("L"), {}),
    }
    golden = {"files": {}, "resized": [], "processed": []}
    for name, (picture, options) in files.items():
        path = save(picture, name, **options)
        with Image.open(path) as found:
            rgb = numpy.asarray(found.convert("RGB"))
        golden["files"][name] = {"width": rgb.shape[1], "height": rgb.shape[0],
                                 "points": rgb.flatten().tolist()}
        golden["files"][name]["grey"] = numpy.asarray(
            Image.fromarray(rgb).convert("L")).flatten().tolist()
    # What is refused.
    cmyk = save(colours(8, 8).convert("CMYK"), "cmyk.jpg")
    save(Image.fromarray(numpy.arange(64, dtype=numpy.uint16).reshape(8, 8)), "deep.png")
    assert Image.open(cmyk).mode == "CMYK"
    for name, width, height, filter_ in (("colours.png", 11, 40, 3), ("colours.png", 44, 31, 2),
                                         ("colours.jpg", 7, 5, 2), ("colours.jpg", 60, 9, 3),
                                         ("colours.jpg", 13, 33, 0), ("colours.png", 22, 9, 3)):
        with Image.open(os.path.join(FOLDER, name)) as found:
            picture = found.convert("RGB")
            # Across, then down, as older Pillows do it in one: 13 begins where more is left out.
            across = picture.resize((width, picture.height), filter_)
            made = numpy.asarray(across.resize((width, height), filter_))
        golden["resized"].append({"file": name, "width": width, "height": height,
                                  "filter": filter_, "points": made.flatten().tolist()})
    for kind, (processor, config) in PROCESSORS.items():
        for name in ("colours.jpg", "colours.png"):
            with Image.open(os.path.join(FOLDER, name)) as found:
                made = processor(**{k: v for k, v in config.items()
                                    if k != "image_processor_type"})(found.convert("RGB"),
                                                                     return_tensors="np")
            values = numpy.asarray(made["pixel_values"])[0]
            golden["processed"].append(
                {"file": name, "config": config, "shape": list(values.shape),
                 "values": [round(float(v), 6) for v in values.flatten()]})
    with open(os.path.join(os.path.dirname(FOLDER), "pictures.json"), "w", encoding="utf-8") as out:
        out.write(json.dumps(golden, separators=(",", ":")).replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
