#!/usr/bin/env python3
"""Makes tests/golden/chat/expected.json: what transformers makes of conversations by the templates there.

    pip install transformers jinja2
    tests/golden/make_chat.py

The templates are written after those that the model families ship. conversation() makes the same ones as
ConversationMaker in tests/engine/data/chat_format_test.cc, from the words and fragments of
tokenizers/snippets.json. For each template there is a hash for every BLOCK of them.
"""

import json
import pathlib

import transformers
from transformers.utils.chat_template_utils import render_jinja_template

from make_tokenizers import FRAGMENTS, WORDS, Lcg, token_hash

HERE = pathlib.Path(__file__).parent / "chat"
CONVERSATIONS, BLOCK = 1000, 50
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
WITHOUT_SYSTEM = {"mistral", "gemma"}
THINKING = {"qwen3"}


def conversation(number, system, thinking):
    """Alternating turns of user and assistant, which ends with the assistant's."""
    random = Lcg(number + 1)

    def content():
        pieces = []
        for _ in range(random.below(9)):
            if random.below(100) < 60:
                pieces.append(WORDS[random.below(len(WORDS))] + " ")
            else:
                pieces.append(FRAGMENTS[random.below(len(FRAGMENTS))])
        return "".join(pieces)

    messages = []
    if random.below(3) == 0 and system:
        messages.append({"role": "system", "content": content()})
    for _ in range(1 + random.below(4)):
        messages.append({"role": "user", "content": content()})
        thought = "<think>\n" + content() + "\n</think>\n\n" if random.below(3) == 0 and thinking else ""
        messages.append({"role": "assistant", "content": thought + content()})
    return messages


def main():
    expected = {"transformers": transformers.__version__, "hashes": {}}
    for path in sorted(HERE.glob("*.jinja")):
        name = path.name.removesuffix(".jinja")
        hashes = []
        for begin in range(0, CONVERSATIONS, BLOCK):
            texts = []
            for number in range(begin, begin + BLOCK):
                messages = conversation(number, name not in WITHOUT_SYSTEM, name in THINKING)
                # What a run learns should not depend on the day.
                rendered, _ = render_jinja_template([messages], chat_template=path.read_text(encoding="utf-8"),
                                                    add_generation_prompt=number % 2 == 1, date_string="26 Jul 2024", **TOKENS)
                texts.append(rendered[0])
            hashes.append(token_hash("\0".join(texts).encode()))
        expected["hashes"][name] = hashes
    (HERE / "expected.json").write_text(json.dumps(expected).replace('], "', '],\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
