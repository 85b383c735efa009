#!/usr/bin/env python3
"""Makes questions.json: what transformers makes of questions about texts, and of their answers.

    make_questions.py > questions.json

offsets: for tokenizers of tests/golden/tokenizers/families, tokens of strings and their places, in
characters. windows: for two of these what prepare_train_features of transformers' run_qa.py makes of
questions (an answer's tokens are looked for in the context alone, where that one, for an answer that
ends a window, goes on to the window's end), and the answers that postprocess_qa_predictions of
utils_qa.py gives, where every question has one and where it may have none, for scores that follow the
formula `score` (and tests/engine/data/question_samples_test.cc). scores: exact matches and F1 as
SQuAD's script for version 2 defines them. Made with tokenizers 0.23.
"""

import collections
import json
import math
import pathlib
import re
import string

import numpy
import tokenizers

FAMILIES = pathlib.Path(__file__).parent / "tokenizers" / "families"
STRINGS = [
    "The quick  brown fox, jumps over the lazy dog.", " Leading and trailing spaces \n", "na\u00efve caf\u00e9 Stra\u00dfe",
    "cafe\u0301 A\u030angstro\u0308m", "\u4f60\u597d world \u4e16\u754c", "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440", "it's 3.14159 (about \u03c0)",
    "x\u200by\u00a0z", "[SEP] a <mask> </s> [MASK].", "\U0001f600 smile", "unbelievablyunknownwordinnovocabulary! \u0e20\u0e32\u0e29\u0e32 end",
    "\u0130stanbul \u1e9e", "tab\tand\u3000wide", "don't \u2014 \u201cquoted\u201d", "a", "",
]
CONTEXT = ("Paris is the capital and the largest city of France. It lies on the river Seine, in the north of the "
           "country. In 1889 Gustave Eiffel\u2019s company built the tower there; it was 312 metres high, and "
           "na\u00efve critics called it useless. The city has 2,102,650 people (2023).")
QUESTIONS = [
    ("1", "What is the capital of France?", "Paris"), ("2", "  On which river does Paris lie?", "the river Seine"),
    ("3", "Who built the tower?", "Gustave Eiffel\u2019s company"), ("4", "How high was it?", "312 metres"),
    ("5", "How many people has the city?", "2,102,650"), ("6", "Who sank the Titanic?", None),
    ("7", "Which critics called it useless?", "na\u00efve critics"), ("8", "When?", "1889"),
]
MOST, OVERLAP, CANDIDATES, LONGEST = 64, 16, 20, 8
SCORES = [
    ("Paris", ["paris", "The Paris"]), ("the  city of Paris!", ["City of paris"]), ("", [""]), ("a cat", [""]),
    ("the", ["a"]), ("red blue blue", ["blue red"]), ("na\u00efve", ["Na\u00cfVE."]), ("1,000", ["1000"]),
    ("\u201cthe\u201d end", ["\u201c\u201d end"]), ("x-ray an\u00e9", ["xray ane", "x ray"]), ("A\u3000B", ["b"]),
    ("\u039f\u0394\u039f\u03a3 \u0130", ["\u03bf\u03b4\u03bf\u03c2 i\u0307"]), ("theory of a", ["theory of"]),
]


def load(name):
    made = tokenizers.Tokenizer.from_file(str(FAMILIES / f"{name}.json"))
    if name == "roberta":  # as RobertaTokenizerFast has it, whose post-processor trims places
        made.post_processor = tokenizers.processors.RobertaProcessing(
            ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return made


def offsets(name):
    raw = load(name)
    made = []
    for text in STRINGS:
        encoding = raw.encode(text, add_special_tokens=False)
        made.append({"text": text, "ids": encoding.ids, "offsets": encoding.offsets})
    return made


def features(raw, question, context, answer):
    raw.enable_truncation(MOST, stride=OVERLAP, strategy="only_second")
    first = raw.encode(question.lstrip(), context)
    windows = []
    for one in [first, *first.overflowing]:
        places = [tuple(o) if s == 1 else None for o, s in zip(one.offsets, one.sequence_ids)]
        start = end = 0
        if answer is not None:
            begin = context.index(answer)
            stop = begin + len(answer)
            low = one.sequence_ids.index(1)
            high = len(places) - 1
            while places[high] is None:
                high -= 1
            if places[low][0] <= begin and places[high][1] >= stop:
                at = low
                while at <= high and places[at][0] <= begin:
                    at += 1
                start = at - 1
                at = high
                while at >= low and places[at][1] >= stop:
                    at -= 1
                end = at + 1
        windows.append({"ids": one.ids, "types": one.type_ids, "places": places, "start": start, "end": end})
    raw.no_truncation()
    return windows


def score(question, window, token, last):
    """Of every third question the first token's are high."""
    high = 18 if token == 0 and question % 3 == 2 else 0
    wave = math.sin(question * 12.9898 + window * 78.233 + token * (1.7 if last else 2.3))
    return numpy.float32(6 * wave + high)


def answer(question, windows, context, has_none):
    """postprocess_qa_predictions of examples/pytorch/question-answering/utils_qa.py, of one example."""
    prelim, least = [], None
    for w, window in enumerate(windows):
        starts = numpy.array([score(question, w, t, False) for t in range(len(window["ids"]))])
        ends = numpy.array([score(question, w, t, True) for t in range(len(window["ids"]))])
        mapping = window["places"]
        null = starts[0] + ends[0]
        if least is None or least["score"] > null:
            least = {"offsets": (0, 0), "score": null, "start": starts[0], "end": ends[0]}
        for i in numpy.argsort(starts)[-1:-CANDIDATES - 1:-1].tolist():
            for j in numpy.argsort(ends)[-1:-CANDIDATES - 1:-1].tolist():
                if mapping[i] is None or mapping[j] is None or j < i or j - i + 1 > LONGEST:
                    continue
                prelim.append({"offsets": (mapping[i][0], mapping[j][1]), "score": starts[i] + ends[j],
                               "start": starts[i], "end": ends[j]})
    if has_none:
        prelim.append(least)
    found = sorted(prelim, key=lambda x: x["score"], reverse=True)[:CANDIDATES]
    if has_none and not any(p["offsets"] == (0, 0) for p in found):
        found.append(least)
    for p in found:
        p["text"] = context[p["offsets"][0]:p["offsets"][1]]
    scores = numpy.array([p["score"] for p in found])
    exp = numpy.exp(scores - numpy.max(scores))
    for p, probability in zip(found, exp / exp.sum()):
        p["probability"] = float(probability)
    chosen = found[0]
    if has_none:
        best = next(p for p in found if p["text"] != "")
        chosen = best
        if least["score"] - best["start"] - best["end"] > 0.5:  # null_score_diff_threshold
            chosen = next(p for p in found if p["text"] == "")
    return {"text": chosen["text"], "score": float(chosen["score"]), "probability": chosen["probability"]}


def windows(name):
    raw = load(name)
    made = []
    for number, (_, question, right) in enumerate(QUESTIONS):
        of_question = features(raw, question, CONTEXT, right)
        made.append({"windows": of_question, "answer": answer(number, of_question, CONTEXT, False),
                     "answer_or_none": answer(number, of_question, CONTEXT, True)})
    return made


def normalized(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", text).split())


def f1(right, given):
    right, given = normalized(right).split(), normalized(given).split()
    if not right or not given:
        return float(right == given)
    same = sum((collections.Counter(right) & collections.Counter(given)).values())
    return 2 * same / (len(right) + len(given))


if __name__ == "__main__":
    squad = {"data": [{"title": "Paris", "paragraphs": [{"context": CONTEXT, "qas": [
        {"id": i, "question": q, "is_impossible": a is None,
         "answers": [] if a is None else [{"text": a, "answer_start": CONTEXT.index(a)}]}
        for i, q, a in QUESTIONS]}]}]}
    print(json.dumps({
        "offsets": {name: offsets(name) for name in ("bert_uncased", "bert_cased", "bert_accents", "roberta")},
        "squad": squad, "seq_len": MOST, "overlap": OVERLAP, "most_tokens": LONGEST,
        "windows": {name: windows(name) for name in ("bert_uncased", "roberta")},
        "scores": [{"answer": a, "right": r, "exact": max(int(normalized(g) == normalized(a)) for g in r),
                    "f1": max(f1(g, a) for g in r)} for a, r in SCORES],
    }, separators=(",", ":")).replace('},{"', '},\n{"'))
