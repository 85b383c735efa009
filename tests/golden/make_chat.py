#!/usr/bin/env python3
"""Makes the expectations in tests/golden/chat: what transformers makes of conversations by the templates there.

    pip install transformers jinja2
    tests/golden/make_chat.py

The templates are written after those that the model families ship.

chat/expected.json: for each template in chat/ there is a hash for every BLOCK of conversations. conversation() makes
the same ones as ConversationMaker in tests/engine/chat/chat_format_test.cc, from the words and fragments of
tokenizers/snippets.json.

chat/tools/: templates with macros and tools, which say with {% generation %} what the assistant says.
conversations.json has rows as they may stand in a .jsonl; expected.json for each template and row a hash of its text,
of its text with a generation prompt, and of what is generated; null where the template raises.

chat/expressions.json: pieces of templates (EXPRESSIONS), with what Jinja writes of each, or null where it raises.
"""

import datetime
import json
import pathlib

import jinja2
import transformers
from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import render_jinja_template

from make_tokenizers import FRAGMENTS, WORDS, Lcg, token_hash

HERE = pathlib.Path(__file__).parent / "chat"
CONVERSATIONS, BLOCK = 1000, 50
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
WITHOUT_SYSTEM = {"mistral", "gemma"}
THINKING = {"qwen3"}
ROWS = 60


class Day(datetime.datetime):
    """What strftime_now writes should not depend on the day."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 2, 3, 4, 5, 6)


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


TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather of a \"place\" & <day>.",
        "parameters": {"type": "object", "properties": {
            "place": {"type": "string", "description": "Where, as in Zürich"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "description": "How many", "default": 3, "nullable": True},
            "Exact": {"type": "boolean"}}, "required": ["place"]}}},
    {"type": "function", "function": {
        "name": "search", "description": "Finds documents", "parameters": {"type": "object", "properties": {
            "query": {"type": ["string", "null"]},
            "filters": {"type": "object", "properties": {
                "year": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}},
                "required": ["year"]},
            "ranges": {"type": "array", "items": {"type": "object", "properties": {"from": {"type": "integer"}}}},
            "mode": {"oneOf": [{"type": "string"}, {"type": "object", "description": "a rule"}]}},
            "required": ["query"], "x-order key": {"a": [1, 2.5, None]}}}},
    {"type": "function", "function": {
        "name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}},
]


def tool_row(number):
    """A row with tools, calls, thoughts and whatever else rows have."""
    random = Lcg(7919 * number + 5)

    def words(most=6):
        pieces = [WORDS[random.below(len(WORDS))] for _ in range(1 + random.below(most))]
        return " ".join(pieces) + ("" if random.below(3) else FRAGMENTS[random.below(len(FRAGMENTS))]) + "."

    def arguments(name):
        if name == "get_weather":
            return {"place": words(2), "days": random.below(9), "Exact": random.below(2) == 0}
        if name == "search":
            return {"query": words(3), "filters": {"year": 1999.5, "tags": ["a", "ü", "\"q\""]}, "ranges": [{"from": 1}],
                    "mode": None}
        return {}

    messages, calls = [], 0
    if random.below(2) == 0:
        messages.append({"role": "system", "content": words() + ["", " /no_think", "\n"][random.below(3)]})
    for _ in range(1 + random.below(3)):
        messages.append({"role": "user", "content": words()})
        for _ in range(random.below(3)):
            message = {"role": "assistant", "content": [None, "", words(4)][random.below(3)], "tool_calls": []}
            if message["content"] is None and random.below(2):
                del message["content"]
            if random.below(3) == 0:
                message[["reasoning_content", "thinking"][random.below(2)]] = words()
            names = []
            for _ in range(1 + random.below(2)):
                name = TOOLS[random.below(3)]["function"]["name"]
                names.append(name)
                message["tool_calls"].append({"type": "function", "id": f"call{calls}",
                                              "function": {"name": name, "arguments": arguments(name)}})
                calls += 1
            messages.append(message)
            for i, name in enumerate(names):
                messages.append({"role": "tool", "name": name, "tool_call_id": f"call{calls - len(names) + i}",
                                 "content": words(3) if random.below(2) else json.dumps({"ok": [1, 2]})})
        answer = {"role": "assistant", "content": words()}
        thought = random.below(4)
        if thought == 0:
            answer["reasoning_content"] = words()
        elif thought == 1:
            answer["content"] = "<think>\n" + words() + "\n</think>\n\n" + answer["content"]
        elif thought == 2:
            answer["thinking"] = words()
        messages.append(answer)
    row = {"messages": messages}
    if random.below(4):
        row["tools"] = TOOLS[:1 + random.below(3)]
    if random.below(5) == 0:
        row["chat_template_kwargs"] = {"enable_thinking": False}
    return row


EXPRESSIONS = pathlib.Path(__file__).with_name("chat_expressions.txt")
VARIABLES = {
    "messages": [{"role": "user", "content": "Hi\u00a0you\u3000 all"}, {"role": "assistant", "content": "Yes"}],
    "data": {"b": 2, "A": 1, "c": [1, 2.5, None, True, "é'\n"], "items": "own", "é": {"x": {"y": "deep"}}},
    "words": ["Beta", "alpha", "Gamma", "alpha"], "text": "  one two  three ", "none_value": None, "n": 7, "f": 2.5,
    "rows": [{"k": "b", "v": 2, "w": {"z": 1}}, {"k": "a", "v": 1, "w": {"z": 3}}, {"k": "b", "v": 3}],
}


def expressions():
    """The pieces, which "----" lines divide."""
    out = []
    for source in EXPRESSIONS.read_text(encoding="utf-8").split("\n----\n"):
        source = source.removesuffix("\n")
        try:
            rendered, spans = render_jinja_template([VARIABLES["messages"]], chat_template=source,
                                                    return_assistant_tokens_mask="generation" in source,
                                                    **{k: v for k, v in VARIABLES.items() if k != "messages"})
            out.append([source, rendered[0]])
        except Exception:  # whatever Python has to say of it
            out.append([source, None])
    return out


def tool_hashes(source, row):
    variables = dict(row.get("chat_template_kwargs", {}), **TOKENS)
    try:
        texts = []
        for prompt in (False, True):
            rendered, spans = render_jinja_template([row["messages"]], tools=row.get("tools"), chat_template=source,
                                                    return_assistant_tokens_mask=True, add_generation_prompt=prompt,
                                                    **variables)
            texts.append(rendered[0])
            if not prompt:
                said = "\0".join(rendered[0][begin:end] for begin, end in spans[0])
        return [token_hash(text.encode()) for text in texts + [said]]
    except (jinja2.exceptions.TemplateError, TypeError, ValueError):
        return None


def main():
    chat_template_utils.datetime = Day
    expected = {"transformers": transformers.__version__, "hashes": {}}
    for path in sorted(HERE.glob("*.jinja")):
        name = path.name.removesuffix(".jinja")
        hashes = []
        for begin in range(0, CONVERSATIONS, BLOCK):
            texts = []
            for number in range(begin, begin + BLOCK):
                messages = conversation(number, name not in WITHOUT_SYSTEM, name in THINKING)
                rendered, _ = render_jinja_template([messages], chat_template=path.read_text(encoding="utf-8"),
                                                    add_generation_prompt=number % 2 == 1, date_string="26 Jul 2024", **TOKENS)
                texts.append(rendered[0])
            hashes.append(token_hash("\0".join(texts).encode()))
        expected["hashes"][name] = hashes
    (HERE / "expected.json").write_text(json.dumps(expected).replace('], "', '],\n"') + "\n", encoding="utf-8")

    rows = [tool_row(number) for number in range(ROWS)]
    (HERE / "tools/conversations.json").write_text(
        "[" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "]\n", encoding="utf-8")
    tools = {path.name.removesuffix(".jinja"): [tool_hashes(path.read_text(encoding="utf-8"), row) for row in rows]
             for path in sorted((HERE / "tools").glob("*.jinja"))}
    (HERE / "tools/expected.json").write_text(json.dumps(tools).replace(']], "', ']],\n"') + "\n", encoding="utf-8")
    for name, hashes in tools.items():
        print(name, sum(each is not None for each in hashes), "of", len(hashes))

    (HERE / "expressions.json").write_text(
        "[" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in expressions()) + "]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
