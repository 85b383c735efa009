#!/usr/bin/env python3
"""Makes text_measures.json from sacrebleu, rouge_score and jiwer: what random texts are worth.

    make_text_measures.py > text_measures.json

Each case has the answers, the targets and the measures of all of them together. More of them than are
checked in, held against the built code:

    make_text_measures.py --cases 1000 --seed 8 > many.json
    SPILLWAY_TEXT_MEASURES=many.json build/release/spillway_engine_test --gtest_filter='TextMeasures.*'

Made with sacrebleu 2.6, rouge_score 0.1.2 and jiwer 4.0.
"""

import argparse
import json
import logging
import random

import jiwer
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

KINDS = ["rouge1", "rouge2", "rougeL"]
SCORER = RougeScorer(KINDS, use_stemmer=False)

WORDS = ("the cat sat on a mat and The dog ran to it is was no Yes U.S. e.g. it's don't well-known x a.b a,b "
         "über naïve café e\u0301t\u00e9 \u00e9t\u00e9 İstanbul \u212aelvin ΑΣ 北京 東京 日本語 مرحبا שלום हिन्दी "
         "\U0001f600 \U0001f468\u200d\U0001f469 ﬁne ① ½ ٣ Ünïcödé").split()
NUMBERS = ["3", "42", "3.14", "1,000", "1,000.50", "2-3", "10-", "-5", ".5", "5.", "1.2.3", "7%", "$9", "2026-11-24"]
MARKS = list(".,;:!?'\"()[]{}<>/\\-_&*+=@#^`~|") + ["...", ",,", "--", "&amp;", "&quot;", "&lt;", "&gt;",
                                                    "&amp;lt;", "<skipped>", "“", "”", "—", "…", "。", "、", "¿"]
SPACES = [" "] * 24 + ["  ", "\t", "\n", "-\n", "\t\t", "\u00a0", "\u2028", "\u3000", "\u001c", "\u0085", "\u200b", " \n "]


def piece(rng, words):
    kind = rng.random()
    if kind < 0.62:
        return rng.choice(words)
    if kind < 0.76:
        return rng.choice(NUMBERS)
    if kind < 0.86:
        return rng.choice(MARKS)
    return rng.choice(words) + rng.choice(MARKS) + (rng.choice(words) if rng.random() < 0.3 else "")


def join(rng, pieces):
    text = "".join(one + rng.choice(SPACES) for one in pieces)
    if rng.random() < 0.7:
        text = text.rstrip()
    return rng.choice(SPACES) + text if rng.random() < 0.1 else text


def changed(rng, pieces, words):
    """The same with some pieces put in, left out, exchanged, said twice or elsewhere."""
    rate = rng.choice([0, 0.1, 0.3, 0.6])
    out = []
    for one in pieces:
        if rng.random() >= rate:
            out.append(one)
            continue
        change = rng.randrange(5)
        out += [[], [piece(rng, words)], [one, one], [piece(rng, words), one], [one.swapcase()]][change]
    if out and rng.random() < 0.15:
        cut = rng.randrange(len(out))
        out = out[cut:] + out[:cut]
    return out


def pair(rng):
    words = rng.sample(WORDS, rng.choice([2, 5, len(WORDS)]))  # of few, many come twice
    target = [piece(rng, words) for _ in range(rng.choice([0, 1, 2, 3, 5, 8, 13, 21, 30]))]
    chance = rng.random()
    if chance < 0.06:
        answer = []
    elif chance < 0.14:
        answer = [piece(rng, words) for _ in range(rng.randrange(1, 20))]
    else:
        answer = changed(rng, target, words)
    return join(rng, answer), join(rng, target)


def case(rng):
    pairs = [pair(rng) for _ in range(rng.choice([1, 1, 2, 3, 6]))]
    answers, targets = [list(side) for side in zip(*pairs)]
    scores = [SCORER.score(target, answer) for answer, target in pairs]
    measures = {"bleu": sacrebleu.corpus_bleu(answers, [targets]).score}
    for kind in KINDS:
        measures[kind] = sum(score[kind].fmeasure for score in scores) / len(scores)
    measures["wer"] = jiwer.wer(targets, answers)
    measures["cer"] = jiwer.cer(targets, answers)
    return [answers, targets, measures]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=80)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    rng = random.Random(args.seed)
    rows = [json.dumps(case(rng), separators=(",", ":")) for _ in range(args.cases)]
    print("[" + ",\n".join(rows) + "]")


if __name__ == "__main__":
    main()
