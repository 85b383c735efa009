#!/usr/bin/env python3
"""Files of prompts answered by the program: in batches, in every placement, stopped and resumed.

Against transformers itself where SPILLWAY_PEERS_PYTHON names a Python that has it.
"""

import json
import os
import shutil
import signal
import subprocess
import unittest

from cli_testing import CliTest, gpt2_shapes, main, read_json, read_rows, run, safetensors

CONFIG = {"model_type": "gpt2", "vocab_size": 256, "n_positions": 64, "n_embd": 24, "n_layer": 3,
          "n_head": 3, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
          "eos_token_id": 255, "bos_token_id": 255}
PROMPTS = ["Hello", "A longer one than that", "x", "four", "and the fifth"]
PEERS = os.environ.get("SPILLWAY_PEERS_PYTHON")


class PredictCase(CliTest):
    config = CONFIG

    def setUp(self):
        super().setUp()
        self.write("model-in/model.safetensors", safetensors(gpt2_shapes(CONFIG)))
        self.prompts = self.write("prompts.txt", "".join(p + "\n" for p in PROMPTS))
        self.out = self.path("answers.jsonl")

    def words(self, *flags, data=None, out=None, tokens=12):
        return ["predict", "--model", self.model, "--tokenizer", "bytes", "--data",
                data or self.prompts, "--out", out or self.out, "--tokens", tokens, "--threads", 1,
                "--device-memory", "64MiB", "--host-memory", "64MiB", *flags]

    def predict(self, *flags, **changes):
        result = run(*self.words(*flags, "--json", **changes))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.about = json.loads(result.stdout)
        return read_rows(changes.get("out") or self.out)

    def generate(self, prompt, *flags):
        result = run("generate", "--model", self.model, "--tokenizer", "bytes", "--prompt", prompt,
                     "--tokens", 12, "--threads", 1, "--json", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)


class PredictTest(PredictCase):
    def test_a_batch_answers_what_each_prompt_gets_alone(self):
        rows = self.predict("--batch", 3)
        self.assertEqual([row["prompt"] for row in rows], PROMPTS)
        self.assertEqual({(row["tokens"], row["stop"]) for row in rows}, {(12, "length")})
        for row in rows[1:3]:
            self.assertEqual(row["completion"],
                             self.generate(row["prompt"], "--temperature", 0)["text"])
        for flags in (["--batch", 1], ["--per_device_eval_batch_size", 5]):
            self.assertEqual(self.predict(*flags), rows)
        sampled = ["--temperature", 1.5, "--seed", 7]
        drawn = self.predict("--batch", 5, *sampled)
        self.assertNotEqual(drawn, rows)
        self.assertEqual(self.predict("--batch", 2, *sampled), drawn)
        same = self.predict(*sampled, data=self.write("same.txt", "again\nagain\n"))
        self.assertNotEqual(same[0], same[1], "a row has draws of its own")

    def test_answers_are_the_same_wherever_caches_live(self):
        # 720 KiB of them.
        config = CONFIG | {"n_positions": 256}
        self.write("model-in/config.json", config)
        self.write("model-in/model.safetensors", safetensors(gpt2_shapes(config)))
        rows = self.predict(tokens=230)
        self.assertEqual(self.about["key_value_cache_tier"], "device")
        self.assertEqual(self.about["nvme_read_bytes"], 0)
        for host, tier in (("2000KiB", "host"), ("600KiB", "nvme")):
            result = run(*self.words("--json", "--swap", self.swap, "--device-memory", "4600KiB",
                                     "--host-memory", host, tokens=230))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["key_value_cache_tier"], tier)
            self.assertIn("key-value caches of 5 texts of 252 positions", result.stderr)
            self.assertEqual(read_rows(self.out), rows)
            self.assertEqual(os.listdir(self.swap), [])

    def test_weights_that_stream_are_read_once_for_a_token_of_all(self):
        config = CONFIG | {"n_embd": 96, "n_layer": 8}
        self.write("model-in/config.json", config)
        self.write("model-in/model.safetensors", safetensors(gpt2_shapes(config)))
        read, rows = {}, {}
        for batch in (1, 5):
            result = run(*self.words("--json", "--batch", batch, "--swap", self.swap,
                                     "--device-memory", "5500KiB", "--host-memory", "2100KiB"))
            self.assertEqual(result.returncode, 0, result.stderr)
            read[batch] = json.loads(result.stdout)["nvme_read_bytes"]
            rows[batch] = read_rows(self.out)
        self.assertEqual(rows[1], rows[5])
        self.assertGreater(read[1], 3 * read[5])

    def test_files_with_keys_and_conversations(self):
        lines = [{"prompt": "Hello", "completion": "not looked at"}, {"prompt": "x", "id": 3}]
        data = self.write("p.jsonl", "".join(json.dumps(line) + "\n\n" for line in lines))
        rows = self.predict(data=data)
        expected = self.predict()
        self.assertEqual(rows, [expected[0], expected[2]])
        data = self.write("q.jsonl", json.dumps({"question": "four"}))
        self.assertEqual(self.predict("--prompt-key", "question", data=data), [expected[3]])

        model = self.path("model-in")
        golden = os.path.join(os.path.dirname(__file__), "../golden")
        shutil.copy(os.path.join(golden, "tokenizers/qwen2/tokenizer.json"), model)
        tokenizer = read_json(model, "tokenizer.json")
        count = 1 + max([*tokenizer["model"]["vocab"].values(),
                         *(token["id"] for token in tokenizer["added_tokens"])])
        config = CONFIG | {"vocab_size": count, "n_positions": 128}
        self.write("model-in/config.json", config)
        self.write("model-in/model.safetensors", safetensors(gpt2_shapes(config)))
        self.write("model-in/tokenizer_config.json", {
            "chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                             "{% if add_generation_prompt %}assistant:{% endif %}"})
        said = [{"role": "user", "content": "Who?"}]
        answered = said + [{"role": "assistant", "content": "Nobody."}]
        data = self.write("chat.jsonl", "".join(
            json.dumps(line) + "\n" for line in ({"messages": said}, {"messages": answered},
                                                 {"prompt": "user: Who?\nassistant:"})))
        rows = self.predict("--tokenizer", "model", data=data)
        self.assertEqual([row.get("messages") for row in rows], [said, said, None])
        self.assertEqual(len({row["completion"] for row in rows}), 1)
        asked = self.predict("--tokenizer", "model", "--chat", data=self.write("who.txt", "Who?"))
        self.assertEqual(asked[0]["completion"], rows[0]["completion"])

    def test_a_space_behind_a_prompt_is_written_and_texts_end_where_asked(self):
        # Llama 2's decoder drops the first space of a text.
        golden = os.path.join(os.path.dirname(__file__), "../golden")
        shutil.copy(os.path.join(golden, "tokenizers/families/llama2_metaspace.json"), self.path("model-in/tokenizer.json"))
        vocabulary = read_json(self.dir, "model-in/tokenizer.json")["model"]["vocab"]
        config = CONFIG | {"vocab_size": len(vocabulary), "eos_token_id": None}
        self.write("model-in/config.json", config)
        self.write("model-in/model.safetensors", safetensors(gpt2_shapes(config)))
        own = ["--tokenizer", "model"]
        prompts = self.write("words.txt", "the\nof the\nand\nin that he\nfor\nit was\nhis\nwith\n")
        rows = self.predict(*own, data=prompts)
        pieces = {token: piece for piece, token in vocabulary.items()}
        made = json.loads(run("generate", "--model", self.model, "--prompt", rows[0]["prompt"], "--tokens", 12,
                              "--temperature", 0, "--threads", 1, "--json").stdout)
        self.assertEqual(made["text"], rows[0]["completion"])
        first = pieces[made["tokens"][0]]
        self.assertTrue(any(row["completion"].startswith(" ") for row in rows), rows)

        whole = rows[0]["completion"]
        stopped = self.predict(*own, "--stop", whole[2:4], "--stop", "nowhere", data=prompts)[0]
        self.assertEqual((stopped["completion"], stopped["stop"]), (whole[:whole.index(whole[2:4])], "text"))
        self.assertLess(stopped["tokens"], rows[0]["tokens"])
        ended = self.predict(*own, "--eos-token", first, data=prompts)[0]
        self.assertEqual((ended["completion"], ended["stop"], ended["tokens"]), ("", "end", 1))
        self.assert_run(run(*self.words(*own, "--eos-token", "<nothing>")), 2, "--eos-token <nothing>", "--stop")
        self.assert_run(run(*self.words(*own, "--stop", "x", "--num-beams", 2)), 2, "--stop", "--num-beams 1")
        self.assert_run(run(*self.words(*own, "--stop", "")), 2, "--stop")

    def test_a_run_that_is_stopped_goes_on(self):
        prompts = self.write("many.jsonl", "".join(
            json.dumps({"prompt": f"prompt {i}", "completion": f"answer {i}"}) + "\n"
            for i in range(60)))
        expected = self.predict(data=prompts, tokens=40)
        measures = self.about["measures"]
        out = self.path("again.jsonl")
        partial = out + ".partial"
        process = self.start(self.words("--batch", 4, data=prompts, out=out, tokens=40))
        self.wait_for(lambda: os.path.exists(partial) and len(read_rows(partial)) > 8, process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 75)
        self.assertIn("the same command goes on", process.stderr.read())
        self.assertFalse(os.path.exists(out))
        kept = len(read_rows(partial)) - 1
        # Cut in the middle of a line, as a kill may leave it.
        with open(partial, "r+b") as file:
            file.truncate(os.path.getsize(partial) - 9)
        self.assert_run(run(*self.words("--seed", 5, data=prompts, out=out, tokens=40)), 2,
                        "its seed is 42, now 5", "remove the file")
        result = run(*self.words("--batch", 7, "--json", data=prompts, out=out, tokens=40))
        self.assert_run(result, 0, f"{kept - 1} of 60 answers are in")
        self.assertEqual(json.loads(result.stdout)["measures"], measures, "of all answers")
        self.assertEqual(read_rows(out), expected)
        self.assertFalse(os.path.exists(partial))

    def test_answers_are_measured_against_targets(self):
        rows = self.predict()
        self.assertNotIn("measures", self.about)
        lines = [{"prompt": row["prompt"], "completion": row["completion"]} for row in rows]
        data = self.write("same.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual(self.predict(data=data), rows)
        measures = self.about["measures"]
        self.assertEqual(list(measures), ["bleu", "rouge1", "rouge2", "rougeL", "wer", "cer"])
        self.assertEqual((measures["wer"], measures["cer"]), (0, 0))
        # Rows without one are not measured, unless they are asked for.
        del lines[0]["completion"]
        lines[1]["completion"] += "more"
        data = self.write("some.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        result = run(*self.words(data=data))
        self.assert_run(result, 0, "measures   bleu", 'of the 4 answers whose rows have a "completion"')
        self.predict(data=data)
        self.assertGreater(self.about["measures"]["cer"], 0)
        self.assert_run(run(*self.words("--target-key", "completion", data=data)), 2,
                        "some.jsonl:1", "--target-key")

    def test_answers_replace_no_prompts_and_nothing_but_files(self):
        data = self.write("p.jsonl", '{"prompt":"a"}\n')
        os.symlink(data, self.path("link.jsonl"))
        for name in ("p.jsonl", "./p.jsonl", "swap/../p.jsonl", "link.jsonl"):
            result = run(*self.words(data=data, out=name), cwd=self.dir)
            self.assert_run(result, 2, f"--out {name} is --data", "another name")
        self.assertEqual(read_rows(data), [{"prompt": "a"}])
        pipe = self.path("pipe.jsonl")
        os.mkfifo(pipe)
        self.assert_run(run(*self.words(out=pipe)), 2, pipe, "no regular file")
        # What a link leads to is written, and the link stays.
        os.makedirs(self.path("elsewhere"))
        target = self.write("elsewhere/a.jsonl", "")
        os.symlink(target, self.out)
        rows = self.predict()
        self.assertTrue(os.path.islink(self.out))
        self.assertEqual(read_rows(target), rows)
        self.assertEqual(os.listdir(self.path("elsewhere")), ["a.jsonl"])

    def test_a_path_that_is_no_utf8(self):
        out, model = (self.path(os.fsdecode(b"\xe9" + end)) for end in (b".jsonl", b"-model"))
        os.symlink(self.model, model)
        expected = self.predict()
        result = run(*self.words("--json", "--model", model, out=out))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(json.loads(result.stdout)["out"].endswith("/\ufffd.jsonl"))
        self.assertEqual(read_rows(out), expected)
        # A difference in it is named, and what is the same goes on.
        partial = self.write(out + ".partial", json.dumps({"model": "other"}) + "\n")
        self.assert_run(run(*self.words("--model", model, out=out)), 2, 'its model is "other"',
                        "\ufffd-model")
        self.write(partial, json.dumps({"model": self.path("\ufffd-model")}) + "\n")
        self.assert_run(run(*self.words("--model", model, out=out)), 2, "its weights is not there")

    def test_numbers_are_read_as_everywhere(self):
        rows = self.predict()
        for flags in (["--max_new_tokens", "012", "--no_repeat_ngram_size", "0", "--batch", "05"],
                      ["--max-tokens", "12", "--threads", "01", "--top-k", "1k", "--seed",
                       "18446744073709551615"]):
            self.assertEqual(self.predict(*flags), rows)
        for flag, value in (("--seed", "-1"), ("--device-memory", "0"), ("--host-memory", "0"),
                            ("--tokens", "1.5"), ("--threads", "0"), ("--threads", "5000"),
                            ("--batch", "x"), ("--temperature", "nan"), ("--top-p", "0"),
                            ("--top-k", "-1"), ("--num-beams", "0"), ("--seq-len", "0"),
                            ("--length-penalty", "101"), ("--min-tokens", "-1"),
                            ("--no-repeat-ngram", "-1"), ("--max-source-length", "0"),
                            ("--early-stopping", "maybe"), ("--compute", "int8")):
            self.assert_run(run(*self.words(flag, value)), 2, f"{flag} '{value}' is not accepted")

    def test_the_models_generation_config_is_the_default(self):
        plain = self.predict(tokens=20)
        self.write("model-in/generation_config.json",
                   {"do_sample": True, "temperature": 1.4, "top_k": 0, "no_repeat_ngram_size": 1,
                    "transformers_version": "5.0", "num_beams": 1})
        drawn = self.predict(tokens=20)
        self.assertNotEqual(drawn, plain)
        self.assertEqual(self.predict("--generation-config", "none", "--temperature", 1.4, "--top-k",
                                      0, "--no-repeat-ngram", 1, tokens=20), drawn)
        self.assertEqual(self.predict("--generation-config", "none", tokens=20), plain)
        # Several tokens that end a text; the first byte of an answer is among them.
        first = self.generate("Hello", "--temperature", 0, "--generation-config", "none")["tokens"]
        self.write("model-in/generation_config.json", {"eos_token_id": [254, first[0]]})
        rows = self.predict()
        self.assertEqual((rows[0]["tokens"], rows[0]["stop"], rows[0]["completion"]), (1, "end", ""))
        self.assertGreater(self.predict("--min-tokens", 3)[0]["tokens"], 3)
        self.assertEqual(self.predict("--ignore-end")[0]["tokens"], 12)

        # generation_config_test.cc has what else is refused, or warned of.
        self.write("model-in/generation_config.json", {"encoder_no_repeat_ngram_size": 2})
        self.assert_run(run(*self.words()), 2, "encoder_no_repeat_ngram_size is for models with an encoder")
        self.write("model-in/generation_config.json", {"forced_eos_token_id": 3, "suppress_tokens": [3]})
        self.assert_run(run(*self.words()), 2, "token 3 is forced, and among suppress_tokens")
        self.write("model-in/generation_config.json", {"temprature": 1})
        self.assert_run(run(*self.words()), 0, "temprature", "did you mean 'temperature'")

    def test_what_is_wrong_is_said(self):
        def refuse(*words, data=None, flags=(), **changes):
            self.assert_run(run(*self.words(*flags, data=data, **changes)), 2, *words)
            self.assertFalse(os.path.exists(self.out + ".partial"))
        # What jsonl_test.cc does not have.
        refuse("long.txt:2", "70 tokens", "64 positions", data=self.write("long.txt", "a\n" + 70 * "b"))
        refuse("k.jsonl:1", "--prompt-key", "its keys: question",
               data=self.write("k.jsonl", '{"question": "a"}'))
        refuse("c.jsonl:1", "chat template", data=self.write("c.jsonl", json.dumps(
            {"messages": [{"role": "user", "content": "a"}]})))
        refuse("nowhere.txt", data=self.path("nowhere.txt"))
        refuse("--batch", flags=("--batch", 0))
        refuse(".jsonl", out=self.path("a.txt"))
        refuse("--repetition-penalty", flags=("--repetition-penalty", 0))
        refuse("--prompt-key", flags=("--prompt-key", "a"))
        refuse("--label-key", "classify texts", flags=("--label-key", "a"))
        refuse("--seq-len", "encoders", flags=("--max-length", 8))


COMPARE = """
import json, sys, torch, transformers
torch.set_num_threads(1)
directory, prompts, settings = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
for prompt in prompts:
    ids = torch.tensor([list(prompt.encode())])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                         max_new_tokens=40, pad_token_id=0, **settings)
    tokens = out[0, ids.shape[1]:].tolist()
    ended = tokens[-1] == 255
    print(json.dumps([bytes(tokens[:-1] if ended else tokens).decode(errors="replace"), len(tokens)]))
"""


@unittest.skipUnless(PEERS, "SPILLWAY_PEERS_PYTHON names no Python with transformers")
class TransformersTest(PredictCase):
    def test_a_file_is_answered_as_transformers_does(self):
        for flags, settings in (
                ((), {}),
                (("--repetition-penalty", 1.2), {"repetition_penalty": 1.2}),
                (("--no-repeat-ngram", 2, "--min-tokens", 20),
                 {"no_repeat_ngram_size": 2, "min_new_tokens": 20})):
            rows = self.predict(*flags, tokens=40)
            out = subprocess.run([PEERS, "-c", COMPARE, self.model, json.dumps(PROMPTS),
                                  json.dumps(settings)], capture_output=True, text=True, check=True)
            expected = [json.loads(line) for line in out.stdout.splitlines()]
            self.assertEqual([[row["completion"], row["tokens"]] for row in rows], expected)


if __name__ == "__main__":
    main()
