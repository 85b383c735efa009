#!/usr/bin/env python3
"""Makes the golden data of text generation from transformers.

    python tests/golden/make_generate.py GOLDEN_DIR      (GOLDEN_DIR: tests/golden)

Writes generate.json: for models that lie in GOLDEN_DIR already, prompts and the tokens
with which transformers continues them at temperature 0, in fp32 on one thread, and the
smallest lead that a chosen token's logit had over the next one's.
"""

import json
import pathlib
import sys

import torch
import transformers

MODELS = ["gpt2", "gpt2_shape", "train_fp32"]


def main() -> None:
    root = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    cases = []
    for name in MODELS:
        model = transformers.GPT2LMHeadModel.from_pretrained(
            root / name, attn_implementation="eager", dtype=torch.float32).eval()
        positions, vocabulary = model.config.n_positions, model.config.vocab_size
        generator = torch.Generator().manual_seed(3)
        for length in (1, 3, positions // 2):
            prompt = torch.randint(vocabulary, (1, length), generator=generator)
            out = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), do_sample=False, eos_token_id=None,
                pad_token_id=0, max_new_tokens=positions - length, return_dict_in_generate=True,
                output_scores=True)
            leads = [float(s[0].topk(2).values.diff().abs()) for s in out.scores]
            cases.append({"model": name, "prompt": prompt[0].tolist(),
                          "tokens": out.sequences[0, length:].tolist(), "smallest_lead": min(leads)})
    about = {"made_by": "tests/golden/make_generate.py", "torch": torch.__version__.split("+")[0],
             "transformers": transformers.__version__, "cases": cases}
    text = json.dumps(about, indent=1)
    (root / "generate.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
