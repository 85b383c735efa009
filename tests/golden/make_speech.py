#!/usr/bin/env python3
"""Makes speech.json from transformers: what WhisperFeatureExtractor hears of sounds, and which tokens
WhisperTimeStampLogitsProcessor lets come.

    make_speech.py > speech.json

The sounds are those of `sound` below (and tests/engine/media/log_mel_test.cc): half a second that
follows a formula, silent behind. Of one second's frames every seventh band and frame is kept.
Scores follow a formula, too; tokens from ZERO on are times, and the one before says that there are
none. Made with transformers 5.23.
"""

import json
import math
import random

import numpy
import torch
import transformers

BANDS, SAMPLES = (80, 128), 8000


def sound(i: int):
    return numpy.array([
        (0.4 * math.sin(0.02 * (i + 1) * t) + 0.3 * math.sin(0.31 * t + i) +
         0.05 * math.sin(1.7 * t * t / SAMPLES)) * (1 if i < 2 else 1e-3)
        for t in range(SAMPLES)], dtype=numpy.float32)


CLASSES, ZERO, END = 24, 12, 10


def scores(i: int) -> list:
    return [3 * math.sin(1.3 * i + 2.1 * c * c + 0.7 * c) - (1.5 if c >= ZERO else 0)
            for c in range(CLASSES)]


def times():
    """Of texts behind two given tokens: what may come next."""
    settings = transformers.GenerationConfig(eos_token_id=END)
    settings.no_timestamps_token_id = ZERO - 1
    settings.max_initial_timestamp_index = 4
    keep = transformers.WhisperTimeStampLogitsProcessor(settings, begin_index=2)
    draw = random.Random(1)
    texts = [[]] + [[draw.randrange(CLASSES) if draw.random() < 0.5 else draw.randrange(ZERO, CLASSES)
                     for _ in range(1 + i % 4)] for i in range(59)]
    found = []
    for i, text in enumerate(texts):
        made = keep(torch.tensor([[1, 2] + text]), torch.tensor([scores(i)]))[0].tolist()
        found.append({"text": text, "may": [c for c, x in enumerate(made) if x > -math.inf]})
    return found


def main():
    found = []
    for bands in BANDS:
        extract = transformers.WhisperFeatureExtractor(feature_size=bands, chunk_length=1)
        for i in range(3):
            made = extract(sound(i), sampling_rate=16000, return_tensors="np").input_features[0]
            found.append({"bands": bands, "sound": i, "shape": list(made.shape),
                          "kept": [[round(float(x), 6) for x in row[::7]] for row in made[::7]]})
    print(json.dumps({"heard": found, "times": times()}, separators=(",", ":")).replace('},{', '},\n{'))


if __name__ == "__main__":
    main()
