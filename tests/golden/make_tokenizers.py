#!/usr/bin/env python3
"""Makes tests/golden/tokenizers: small tokenizers and what Hugging Face's library makes of a text.

    pip install tokenizers==0.23.3 sentencepiece protobuf
    tests/golden/make_tokenizers.py [families]

snippets.json holds pieces of text. Whoever reads it makes the same text of five megabytes from
them, chunk by chunk (text_chunk below; TokenizerGolden in tests/engine/data/bpe_golden_test.cc does
the same), so that the text itself need not be kept. Each tokenizer is trained on it.
expected.json has, for each tokenizer and chunk, how many tokens there are and their hash.

families/ holds a tokenizer of every shape in tokenizer_families.py, some hundred strings, and for each of
both the hash of all that is made of it (case_hash). With the argument only these are made again.
"""

import json
import pathlib
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import tokenizer_families

HERE = pathlib.Path(__file__).parent / "tokenizers"
CHUNKS = 84
CHUNK_BYTES = 64 << 10
VOCABULARY = 2000

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

WORDS = """the of and to in that he for it was his with as is not be at by which had her on from this but
have they are all or were my you one so there been their would when who them said will no if more
out up into do any your what has man could other than our some very time upon about may its only now
little then can made should did us such great before must two these see know over much down after first
Mr good men own never most old shall day where those came come himself way work life without go make well
through being long say might how am too even def again many back here think every people went same last
thought away under take found hand eyes still place while just also young yet though against things get
ever give God years off face nothing right once another left part saw house world head three took new love
always Mrs put night each king between tell mind heart few because thing whom far seemed looked called
whole de set both got find done heard look name days told let lord country asked going seen better having
home knew side something moment father among course hands woman enough words mother soon full end gave
room almost small thou cannot water want however light quite brought nor word whose given door best turned
taken does use morning myself felt until since power themselves used rather began present voice others
white works less money next poor death stood form within together till thy large matter kind often
certain herself year friend half order round true anything keep sent wife means believe passed feet near
public state son hundred children thus hope alone above case dear thee says person high read city already
received fact gone girl known hear times least perhaps sure indeed english open body itself along land
return leave air nature answered either law help lay point child letter four wish fire cried women speak
number therefore hour friends held free war during several business whether er manner second reason
replied united call general why behind became john dead earth boy lost forth thousand looking I'll family
soul feel coming england question care truth ground really rest mean different making possible fell
towards human kept short town following need cause met evening returned five strong able french live lady
subject sn answer sea fear understand hard terms doubt around ask arms turn sense seems black bring
followed beautiful close dark hold character sight ten show party fine ye ready story common book
electronic talk account mark interest written can't bed necessary age else force idea longer art spoke
across brother early ought sometimes line saying table appeared river continued eye ety sun information
later everything reached suddenly past hours strange deep change miles feeling act meet paid further
purpose happy added seem taking blood rose south beyond cold neither forward view I've position sound
none entered clear road late stand suppose la daughter real nearly mine laws knowledge comes toward
cut husband bad pleasure I'm steps""".split()

FRAGMENTS = [
    " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", "\t\t", " \n", "\n    ", "\n        ",
    "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\u180e", "\u200b", "\u202f", "\x0b", "\x0c", "\x1c",
    ", ", ". ", "; ", ": ", "!", "?!", "...", " -- ", "\u2014", " \u2013 ", "\"", "\u201c", "\u201d", "\u2019",
    "'s", "'S", "'t", "n't", "N'T", "'re", "'RE", "'ve", "'VE ", "'m", "'M", "'ll", "'LL", "'d", "'D",
    "\u2019s", "'\u017f", "I'M", "WE'LL", "they'd've", "o'clock",
    "0", "7", "42", "100", "1984", "31415", "1234567890", "3.14159", "1,000,000", "0x7fff", "1e-05",
    "\u0660\u0661\u0662", "\u096a\u0968", "\u00bd", "\u2167", "\u00b2", "\u2460",
    "na\u00efve", "caf\u00e9", "cafe\u0301", "Stra\u00dfe", "\u00c5ngstr\u00f6m", "A\u030angstro\u0308m",
    "\u212bngstr\u00f6m", "q\u0307\u0323", "q\u0323\u0307", "\u1e69", "s\u0323\u0307", "s\u0307\u0323", "\u0344",
    "a\u0300\u0301\u0302\u0303", "\u0301", " \u0308", "\ufb01n", "\uff21\uff22", "\u2126", "\u03a9",
    "\u041f\u0440\u0438\u0432\u0435\u0442", " \u043c\u0438\u0440", "\u0432\u043e\u0439\u043d\u0430 \u0438 \u043c\u0438\u0440",
    "\u0451\u043b\u043a\u0430", "\u0435\u0308\u043b\u043a\u0430", "\u0387", "\u03ba\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1",
    "\u1f00\u03c1\u03c7\u1fc7", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd", "\ufb2a",
    "\u0645\u0631\u062d\u0628\u0627", " \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u0645\u064e\u0631\u0652", "\u0622", "\u0627\u0653",
    "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0915\u094d\u0937", "\u0958", "\u0995\u09cb", "\u0995\u09c7\u09be",
    "\u0ba8\u0bca", "\u0ba8\u0bc6\u0bbe", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0e99\u0ecd\u0eb2", "\u0f40\u0f0b\u0f81",
    "\u4f60\u597d", "\u4e16\u754c", "\u6211\u4eec\u7684\u65f6\u4ee3\uff0c\u5f88\u597d\u3002", "\u8c48", "\uf900", "\U00020000\u6c49\u5b57",
    "\u3053\u3093\u306b\u3061\u306f", "\u30ab\u3099", "\u30ac", "\uff76\uff9e", "\u6f22\u5b57\u304b\u306a\u4ea4\u3058\u308a",
    "\uc548\ub155", "\u110b\u1161\u11ab\u1102\u1167\u11bc", "\ud55c\u11a8", "\u1112\u1161", "\uac00\u11a8",
    "\U0001f600", "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\u2764\ufe0f", "\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3", "\U0001f468\U0001f3ff\u200d\U0001f680", "\u263a",
    "\U0001d15e", "\U0001d4d0\U0001d4d1", "\U00010400", "\U0001f130", "\u24b6", "\ufeff", "\ufffd", "\u00ad", "\x00", "\x7f", "\u0600",
    "def f(x):\n    return x ** 2\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n", "#include <vector>\n",
    "if __name__ == \"__main__\":\r\n    main()\r\n", "std::unordered_map<std::string, int>", "x->y", "&&", "||", "!==", "=>",
    "// TODO: ...\n", "/* comment */", "<div class=\"a\">", "</div>\n", "{\"key\": [1, 2.5, null]}", "SELECT * FROM t;", "$HOME/.bashrc",
    "https://example.org/a?b=c&d=%20#e", "user@example.org", "camelCaseName", "snake_case_name", "CONSTANT_NAME", "#hashtag", "C:\\dir\\",
    "======", "------", "~~~", "____", "\\\\\\\\", "(((", "))))", "*****", "aaaaaaaaaa", "ZZZZ", "!!!!!!!!", "        ", "\n\n\n\n",
    "<|endoftext|>", "<|im_start|>user", "<|im_end|>", "<|endof", "<|", "<mask>", " <mask> ", "\t<mask>", "<pad>", "<pad>  \n", "<pad>x",
    "HELLO", " HELLO ", "xHELLO", "HELLO_", "HELLO.", "\u0301HELLO", "r\u00e9sum\u00e9", "re\u0301sume\u0301", "    \n", "<<SYS>>", "<<SYS>><",
]


class Lcg:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        return (self.state >> 33) % n


def text_chunk(snippets, chunk):
    """At least CHUNK_BYTES of UTF-8: words with a space, fragments, now and then repeated."""
    random = Lcg(chunk + 1)
    out, size = [], 0
    while size < CHUNK_BYTES:
        if random.below(100) < 55:
            piece = snippets["words"][random.below(len(snippets["words"]))] + " "
        else:
            piece = snippets["fragments"][random.below(len(snippets["fragments"]))]
        repeat = random.below(512)
        piece *= 400 if repeat == 0 else 7 if repeat < 8 else 2 if repeat < 32 else 1
        out.append(piece)
        size += len(piece.encode())
    return "".join(out)


def token_hash(ids):
    value = 0xCBF29CE484222325
    for token in ids:
        value = (value ^ token) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def train(kind, texts):
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    if kind == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3 if kind == "llama3" else QWEN2), "isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ])
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([
        AddedToken("<|endoftext|>", special=True, normalized=False),
        AddedToken("<|im_start|>", special=True, normalized=False),
        AddedToken("<|im_end|>", special=True, normalized=False),
        AddedToken("<mask>", special=True, lstrip=True, normalized=False),
    ])
    tokenizer.add_tokens([
        AddedToken("<pad>", rstrip=True, normalized=True),
        AddedToken("HELLO", single_word=True),
        AddedToken("re\u0301sume\u0301", normalized=True),
        AddedToken("    \n", normalized=False),
        AddedToken("<<", normalized=False),
        AddedToken("<<SYS>>", normalized=False),
    ])
    return json.loads(tokenizer.to_str())


def edit(kind, tokenizer):
    """What training does not give but files in the world have."""
    model = tokenizer["model"]
    if kind == "gpt2":  # as of 2019: merges are strings, and the model has no type
        model["merges"] = [" ".join(merge) for merge in model["merges"]]
        del model["type"]
    if kind == "llama3":  # words that only ignore_merges finds
        used = {part for merge in model["merges"] for part in merge}
        leaves = [merge for merge in model["merges"] if "".join(merge) not in used]
        dropped = {tuple(merge) for merge in leaves[::5]}
        model["merges"] = [merge for merge in model["merges"] if tuple(merge) not in dropped]
    return tokenizer


def case_hash(tokenizer, text):
    """Of its tokens, what is put around them and around two of it, and the text that they are."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    pair = tokenizer.encode(text, text)
    decoded = tokenizer.decode(ids, skip_special_tokens=False)
    return token_hash([*ids, *tokenizer.encode(text).ids, *pair.ids, *pair.type_ids, *decoded.encode()])


def make_families():
    folder = HERE / "families"
    folder.mkdir(exist_ok=True)
    snippets = {"words": WORDS, "fragments": FRAGMENTS}
    texts = [text_chunk(snippets, chunk) for chunk in range(12)]
    made = tokenizer_families.families(texts, 500, tokenizer_families.charsmap(tokenizer_families.RULES))
    cases = tokenizer_families.strings(300, 20261123, WORDS, FRAGMENTS)
    expected = {"tokenizers": tokenizers.__version__, "cases": cases, "hashes": {}}
    for name, parts in made.items():
        (folder / f"{name}.json").write_text(json.dumps(parts, ensure_ascii=False) + "\n", encoding="utf-8")
        tokenizer = Tokenizer.from_str(json.dumps(parts))
        expected["hashes"][name] = [case_hash(tokenizer, case) for case in cases]
    (folder / "expected.json").write_text(json.dumps(expected).replace('], "', '],\n"') + "\n", encoding="utf-8")


def main():
    HERE.mkdir(exist_ok=True)
    make_families()
    if sys.argv[1:] == ["families"]:
        return
    snippets = {"words": WORDS, "fragments": FRAGMENTS}
    with open(HERE / "snippets.json", "w", encoding="utf-8") as f:
        json.dump(snippets, f, indent=0)
        f.write("\n")
    texts = [text_chunk(snippets, chunk) for chunk in range(CHUNKS)]
    expected = {"tokenizers": tokenizers.__version__, "chunk_bytes": CHUNK_BYTES}
    for kind in ("gpt2", "llama3", "qwen2"):
        made = edit(kind, train(kind, texts))
        folder = HERE / kind
        folder.mkdir(exist_ok=True)
        (folder / "tokenizer.json").write_text(json.dumps(made, ensure_ascii=False) + "\n", encoding="utf-8")
        variants = {kind: made}
        if kind == "gpt2":
            prefixed = json.loads(json.dumps(made))
            prefixed["pre_tokenizer"]["add_prefix_space"] = True
            variants["gpt2_prefix_space"] = prefixed
        for name, variant in variants.items():
            tokenizer = Tokenizer.from_str(json.dumps(variant))
            expected[name] = []
            for text in texts:
                ids = tokenizer.encode(text, add_special_tokens=False).ids
                expected[name].append([len(ids), token_hash(ids)])
    with open(HERE / "expected.json", "w", encoding="utf-8") as f:
        f.write(json.dumps(expected).replace("]], ", "]],\n") + "\n")


if __name__ == "__main__":
    main()
