"""Tokenizers in the shapes that model families ship, trained on a text: what make_tokenizers.py and
tests/tokenizers_check.py hold Spillway against. Needs tokenizers and sentencepiece."""

import base64
import io
import json
import random
import tempfile
import unicodedata

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
META = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# Rules of a small charsmap: what NFKC does to the fragments, and what shows which match is taken.
RULES = {"\ufb01": "fi", "\uff21": "A", "\uff22": "B", "\u212b": "\u00c5", "\u00bd": "1/2", "\u2167": "VIII",
         "\u00b2": "2", "\u2460": "1", "\u3000": " ", "\u00a0": " ", "\u2003": " ", "\t": " ", "\n": " ",
         "\r": " ", "\r\n": "\n", "e\u0301": "\u00e9", "a\u0300": "\u00e0", "\u0344": "\u0308\u0301", "\u200b": "", "\u00ad": "",
         "\x7f": "", "o\u0308": "\u00f6", "\u0308": "x", "\uff76": "\u30ab", "\u2026": "...", "Q": "qu", "Qu": "?",
         "\u0301": "", "\U0001d15e": "J", "\u0600": "", "\u110b": "\u3147"}


def charsmap(rules=None):
    """base64 of a precompiled_charsmap: SentencePiece's nmt_nfkc, or these rules."""
    options = {"normalization_rule_name": "nmt_nfkc"}
    if rules is not None:
        table = tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8")
        for sides in rules.items():
            table.write("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in sides) + "\n")
        table.flush()
        options = {"normalization_rule_tsv": table.name}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c"] * 9), model_writer=model, vocab_size=9,
                                             minloglevel=2, hard_vocab_limit=False, **options)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


def template(single, pair, names, tokenizer):
    return processors.TemplateProcessing(single=single, pair=pair,
                                         special_tokens=[(name, tokenizer.token_to_id(name)) for name in names])


def byte_level(texts, size, pre_tokenizer, normalizer=None, specials=(), model=None):
    tokenizer = Tokenizer(models.BPE(**(model or {})))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    suffix = {"end_of_word_suffix": model["end_of_word_suffix"]} if model and "end_of_word_suffix" in model else {}
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=list(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **suffix))
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated", invert=False),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama2(texts, size, form):
    """SentencePiece's BPE. `form`: legacy (normalizers), metaspace, gemma."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    spaces = normalizers.Replace(" ", META)
    tokenizer.normalizer = spaces if form == "gemma" else normalizers.Sequence([normalizers.Prepend(META), spaces])
    # As SentencePiece trains: no piece goes across a space.
    tokenizer.pre_tokenizer = pre_tokenizers.Split(META, "merged_with_next")
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + BYTES, limit_alphabet=150))
    steps = [decoders.Replace(META, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps[:3] if form == "gemma" else steps)
    tokenizer.post_processor = template("<s> $A", "<s> $A <s>:1 $B:1", ["<s>"], tokenizer)
    made = json.loads(tokenizer.to_str())
    made["added_tokens"] = made["added_tokens"][:3]
    made["pre_tokenizer"] = None
    if form == "metaspace":
        made["normalizer"] = None
        made["pre_tokenizer"] = {"type": "Metaspace", "replacement": META, "prepend_scheme": "first", "split": False}
    if form == "gemma":
        made["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                                 "invert": False}
    return made


def bert(texts, size, lowercase):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=size, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        limit_alphabet=120))
    tokenizer.decoder = decoders.WordPiece()
    if lowercase:
        tokenizer.post_processor = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ["[CLS]", "[SEP]"], tokenizer)
    else:
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def unigram(texts, size, normalizer, pre_tokenizer, map_of_characters, byte_fallback=False):
    """T5's, XLM-RoBERTa's, ALBERT's. `normalizer` holds None where the charsmap goes."""
    trained = Tokenizer(models.Unigram())
    trained.normalizer = normalizers.NFKC()
    trained.pre_tokenizer = pre_tokenizer
    specials = ["<pad>", "</s>", "<unk>", "<s>"] + (BYTES if byte_fallback else [])
    trained.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=size - len(specials), show_progress=False, special_tokens=["<unk>"], unk_token="<unk>"))
    pieces = json.loads(trained.to_str())["model"]["vocab"]
    # Fewer characters than the text has, so that some are unknown.
    dropped = {piece for piece, _ in [entry for entry in pieces if len(entry[0]) == 1 and ord(entry[0]) > 0x600][::2]}
    pieces = [(piece, score) for piece, score in pieces if piece not in dropped | {"<unk>"}]
    tokenizer = Tokenizer(models.Unigram([(name, 0.0) for name in specials] + pieces, unk_id=2,
                                         byte_fallback=byte_fallback))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = template("$A </s>", "$A </s> $B:1 </s>:1", ["</s>"], tokenizer)
    tokenizer.add_special_tokens(specials[:4])
    made = json.loads(tokenizer.to_str())
    compiled = {"type": "Precompiled", "precompiled_charsmap": map_of_characters}
    parts = [compiled if part is None else part for part in normalizer]
    made["normalizer"] = parts[0] if len(parts) == 1 else {"type": "Sequence", "normalizers": parts}
    if byte_fallback:
        made["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, made["decoder"]]}
    return made


def replace(pattern, content, regex=False):
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": pattern}, "content": content}


def families(texts, size, map_of_characters):
    """By name: tokenizer.json as a dictionary."""
    made = {}

    def put(name, tokenizer):
        made[name] = tokenizer if isinstance(tokenizer, dict) else json.loads(tokenizer.to_str())

    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    prefixed = pre_tokenizers.ByteLevel(add_prefix_space=True)
    for form in ("legacy", "metaspace", "gemma"):
        put("llama2_" + form, llama2(texts, size + 256, form))

    mistral = byte_level(texts, size + 256, split(TEKKEN), specials=["<unk>", "<s>", "</s>", "[INST]", "[/INST]"],
                         model={"ignore_merges": True})
    mistral.post_processor = template("<s> $A", "<s> $A <s>:1 $B:1", ["<s>"], mistral)
    put("mistral", mistral)

    neox = byte_level(texts, size + 256, plain, normalizers.NFC(), ["<|endoftext|>", "<|padding|>"])
    neox.add_tokens([tokenizers.AddedToken(" " * n, normalized=True) for n in range(12, 1, -1)])
    neox.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
    put("gpt_neox", neox)

    names = ["<s>", "<pad>", "</s>", "<unk>"]
    mask = tokenizers.AddedToken("<mask>", lstrip=True, normalized=True, special=True)
    for name, pre in (("roberta", plain), ("blenderbot", prefixed)):
        roberta = byte_level(texts, size + 256, pre, specials=names + [mask])
        roberta.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
        put(name, roberta)
    opt = byte_level(texts, size + 256, plain, specials=names)
    opt.post_processor = template("</s> $A", "</s> $A </s>:1 $B:1", ["</s>"], opt)
    put("opt", opt)

    whisper = byte_level(texts, size + 256, plain)
    starts = ["<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]
    whisper.add_special_tokens(["<|endoftext|>"] + starts)
    whisper.post_processor = template(" ".join(starts) + " $A <|endoftext|>",
                                      " ".join(starts) + " $A $B <|endoftext|>", starts + ["<|endoftext|>"], whisper)
    whisper.post_processor = processors.Sequence([processors.ByteLevel(), whisper.post_processor])
    put("whisper", whisper)

    put("bert_uncased", bert(texts, size, True))
    put("bert_cased", bert(texts, size, False))
    accents = json.loads(json.dumps(made["bert_cased"]))
    accents["normalizer"].update(strip_accents=True, handle_chinese_chars=False)
    accents["model"]["max_input_chars_per_word"] = 7
    put("bert_accents", accents)

    metaspace = pre_tokenizers.Metaspace()
    put("t5", unigram(texts, size, [None], metaspace, map_of_characters))
    put("t5_stripped", unigram(texts, size, [None, {"type": "Strip", "strip_left": False, "strip_right": True},
                                             replace(" {2,}", META, True)], metaspace, map_of_characters))
    put("xlm_roberta", unigram(texts, size, [None], pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]), map_of_characters))
    put("albert", unigram(texts, size, [replace("``", '"'), replace("''", '"'), {"type": "NFKD"},
                                        {"type": "StripAccents"}, {"type": "Lowercase"}, None],
                          metaspace, map_of_characters))
    fallback = unigram(texts, size + 256, [{"type": "Nmt"}, {"type": "NFKC"}], metaspace, map_of_characters, True)
    fallback["pre_tokenizer"] = {"type": "Metaspace", "replacement": META, "str_rep": META, "add_prefix_space": True,
                                 "split": False}
    put("unigram_bytes", fallback)

    clip = byte_level(texts, size + 512, pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), prefixed]),
        normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
        ["<|startoftext|>", "<|endoftext|>"], {"end_of_word_suffix": "</w>", "unk_token": "<|endoftext|>"})
    made["clip"] = json.loads(clip.to_str())
    made["clip"]["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = False

    gpt = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True))
    gpt.normalizer = normalizers.BertNormalizer(lowercase=True)
    gpt.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    gpt.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=["<unk>"],
                                                       end_of_word_suffix="</w>", limit_alphabet=100))
    gpt.decoder = decoders.BPEDecoder(suffix="</w>")
    put("openai_gpt", gpt)
    prefixes = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    prefixes.pre_tokenizer = pre_tokenizers.Whitespace()
    prefixes.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Strip()])
    prefixes.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=["<unk>"], continuing_subword_prefix="##", limit_alphabet=100))
    prefixes.decoder = decoders.WordPiece(cleanup=False)
    put("bpe_prefix", prefixes)

    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(),
                                                   pre_tokenizers.Digits(individual_digits=True)])
    words.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=size, show_progress=False,
                                                               special_tokens=["[UNK]"]))
    put("word_level", words)

    # Every way to cut, seen through the space that ByteLevel puts before each word.
    falcon = byte_level(texts, 300, pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation("contiguous"), plain, pre_tokenizers.Digits(),
         pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))
    put("falcon", falcon)
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            cut = json.loads(json.dumps(made["falcon"]))
            pattern = {"String": " "} if behavior == "Removed" else {"Regex": r"[aeiou]|\p{N}"}
            cut["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert},
                {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}]}
            made[f"split_{behavior}{'_inverted' if invert else ''}"] = cut
    return made


# The characters of Unicode 3.2, and emoji: what every library knows alike.
OLD = unicodedata.ucd_3_2_0
POOL = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF
        and (OLD.category(chr(c)) != "Cn" or 0x1F300 <= c <= 0x1F64F)]
BLOCKS = [(0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF),
          (0x1100, 0x11FF), (0x1E00, 0x20FF), (0x2100, 0x2BFF), (0x3000, 0x31FF), (0xAC00, 0xAD00),
          (0xF900, 0xFFFF), (0x1F300, 0x1F64F)]


def strings(count, seed, words, fragments):
    """Random ones: words, fragments, runs of one script, single characters, what tokenizers treat specially."""
    choose = random.Random(seed)
    pool = set(POOL)
    blocks = [[c for c in range(low, high + 1) if c in pool] for low, high in BLOCKS]
    special = [" ", "  ", "\n", META, "'", "``", "<unk>", "</s>", "[MASK]", "<0x41>", "##a", "<s>", " <mask>"]
    out = []
    for _ in range(count):
        parts = []
        for _ in range(choose.randrange(12)):
            kind = choose.random()
            if kind < .35:
                parts.append(choose.choice(fragments))
            elif kind < .6:
                parts.append(choose.choice(words) + choose.choice([" ", "", " ", ".", META]))
            elif kind < .85:
                block = choose.choice(blocks)
                parts.append("".join(chr(choose.choice(block)) for _ in range(choose.randrange(1, 5))))
            elif kind < .95:
                parts.append(chr(choose.choice(POOL)))
            else:
                parts.append(choose.choice(special))
        out.append("".join(parts))
    return out
