#!/usr/bin/env python3
"""Makes quality.json from scikit-learn, scipy and seqeval: what random predictions are worth.

    make_quality.py > quality.json

Of each kind [labels, predictions, right ones, measures]. Made with scikit-learn 1.9, scipy 1.17 and seqeval 1.2.
"""

import json
import random
import warnings

import seqeval.metrics
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

CASES = 40


def single(rng):
    labels = rng.choice([2, 2, 3, 7])
    count = rng.randint(1, 30)
    right = [rng.randrange(labels) for _ in range(count)]
    said = [y if rng.random() < 0.6 else rng.randrange(labels) for y in right]
    average = "binary" if labels == 2 else "macro"
    return [labels, said, right, {
        "accuracy": accuracy_score(right, said),
        "f1": f1_score(right, said, average=average, zero_division=0),
        "matthews": matthews_corrcoef(right, said)}]


def multi(rng):
    labels, count = rng.randint(2, 5), rng.randint(2, 12)
    right = [[rng.randrange(2) for _ in range(labels)] for _ in range(count)]
    said = [[y if rng.random() < 0.8 else 1 - y for y in row] for row in right]
    flat = [sum(rows, []) for rows in (said, right)]
    return [labels, *flat, {
        "accuracy": accuracy_score(right, said),
        "f1": f1_score(right, said, average="micro", zero_division=0)}]


def regression(rng):
    count = rng.randint(2, 30)
    right = [rng.randrange(12) / 4 for _ in range(count)]  # some of them equal
    right[0] += 1 / 4
    said = [y + rng.randrange(-6, 7) / 8 for y in right]
    said[0] += 1 / 8
    return [1, said, right, {"pearson": pearsonr(right, said)[0],
                             "spearman": spearmanr(right, said)[0]}]


def tokens(rng):
    """Of some texts' tokens, -1 after each text."""
    names = rng.choice([["O", "B-A", "I-A", "B-B", "I-B"], ["O", "I-A", "I-B"], ["noun", "verb", "O"],
                        ["O", "B-A", "I-A", "E-A", "S-A", "I-B"]])
    entities = "noun" not in names
    right = [[rng.randrange(len(names)) for _ in range(rng.randint(1, 9))] for _ in range(5)]
    said = [[y if rng.random() < 0.8 else rng.randrange(len(names)) for y in row] for row in right]
    flat = [sum(([*row, -1] for row in rows), []) for rows in (said, right)]
    named = [[[names[y] for y in row] for row in rows] for rows in (right, said)]
    measures = {"accuracy": seqeval.metrics.accuracy_score(*named)}
    if entities:
        measures |= {"precision": seqeval.metrics.precision_score(*named, zero_division=0),
                     "recall": seqeval.metrics.recall_score(*named, zero_division=0),
                     "f1": seqeval.metrics.f1_score(*named, zero_division=0)}
    return [names, *flat, {name: float(value) for name, value in measures.items()}]


def main():
    warnings.simplefilter("ignore")
    rng = random.Random(7)
    made = {kind.__name__: [kind(rng) for _ in range(CASES)]
            for kind in (single, multi, regression, tokens)}
    for _, _, _, measures in made["regression"]:
        for name, value in measures.items():
            measures[name] = None if value != value else float(value)
    print(json.dumps(made, separators=(",", ":")).replace("]],", "]],\n").replace("}],[", "}],\n["))


if __name__ == "__main__":
    main()
