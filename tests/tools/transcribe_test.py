#!/usr/bin/env python3
"""Models that hear, through the program: from sounds and their texts to a model that writes down
what it hears."""

import array
import functools
import json
import math
import os
import random
import re
import struct
import wave

from cli_testing import CliTest, main, read_json, read_rows, run

WHISPER = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"],
           "vocab_size": 256, "d_model": 32, "num_mel_bins": 16, "encoder_layers": 2,
           "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
           "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 50,
           "max_target_positions": 16, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
           "decoder_start_token_id": 1, "is_encoder_decoder": True}
RATE = 8000
HERTZ = {"a": 300, "b": 700, "c": 1300, "d": 2500}


@functools.cache
def tone_of(letter, length=RATE // 4):
    return array.array("h", (int(9000 * min(1, t / 200, (length - t) / 200) *
                                 math.sin(2 * math.pi * HERTZ[letter] * t / RATE))
                             for t in range(length)))


def sound_of(text):
    """A tone a letter."""
    return sum(map(tone_of, text), array.array("h"))


def tokenizer_of_languages():
    """Bytes, the empty string and Whisper's words for what is to be done, as its files have them."""
    bytes_, next_free = {}, 0x100
    for byte in range(256):
        if 0x21 <= byte <= 0x7e or (byte >= 0xa1 and byte != 0xad):
            bytes_[chr(byte)] = byte
        else:
            bytes_[chr(next_free)] = byte
            next_free += 1
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>",
               "<|transcribe|>", "<|notimestamps|>"]
    return {"version": "1.0", "normalizer": None, "decoder": {"type": "ByteLevel"},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "added_tokens": [{"id": 257 + i, "content": content, "special": True,
                              "normalized": False} for i, content in enumerate(special)],
            "model": {"type": "BPE", "merges": [], "vocab": bytes_ | {"": 256}}}


class TranscribeTest(CliTest):
    config = WHISPER | {"n_positions": 16}

    def setUp(self):
        super().setUp()
        draw = random.Random(1)
        self.texts = ["".join(draw.choices("abcd", k=draw.randint(1, 4))) for _ in range(48)]
        os.makedirs(self.path("sounds"))
        for i, text in enumerate(self.texts):
            self.write_sound(f"sounds/{i}.wav", sound_of(text))
        self.said = [{"audio": f"sounds/{i}.wav", "text": text}
                     for i, text in enumerate(self.texts)]
        self.data = self.write("train.jsonl", self.jsonl(self.said))
        self.answers = self.path("answers.jsonl")

    def write_sound(self, name, samples):
        with wave.open(self.path(name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(samples.tobytes())
        return self.path(name)

    @staticmethod
    def jsonl(rows):
        return "".join(json.dumps(row) + "\n" for row in rows)

    def transcribe(self, **changes):
        given = {"tokenizer": "bytes", "dtype": "fp32", "seq_len": None}
        return self.train(**{**given, **changes})

    def predict(self, *flags, model=None, said=""):
        if os.path.exists(self.answers):
            os.remove(self.answers)
        data = self.write("asked.jsonl", self.jsonl(self.said[:12]))
        result = run("predict", "--model", model or os.path.join(self.output, "model"), "--data",
                     data, "--out", self.answers, "--tokenizer", "bytes", "--threads", 1, *flags)
        self.assert_run(result, 0, "12 answers", said)
        return read_rows(self.answers)

    def test_sounds_train_a_model_that_writes_them_down(self):
        result = self.transcribe(steps=220, micro_batch=12, lr="5e-3")
        self.assert_run(result, 0, "48 sounds; the longest has 1.0 s, the longest text 5 tokens")
        rows = self.predict()
        right = sum(row["completion"] == text for row, text in zip(rows, self.texts))
        self.assertGreaterEqual(right, 10, rows)
        self.assertEqual({row["stop"] for row in rows}, {"end"})
        self.assertEqual(rows[3]["audio"], "sounds/3.wav")
        for flags in (["--batch", 1], ["--batch", 3, "--swap", self.swap, "--device-memory",
                                       "6MiB", "--host-memory", "1MiB"]):
            self.assertEqual(self.predict(*flags, model=self.output), rows)
        refused = run("predict", "--model", self.output, "--data", self.data, "--out", self.answers,
                      "--tokenizer", "bytes", "--threads", 1, "--device-memory", "8KiB")
        self.assert_run(refused, 3, "the encoder does not fit --device-memory 8 KiB",
                        "at least --device-memory 1MiB")
        said = run("generate", "--model", self.output, "--tokenizer", "bytes", "--audio",
                   self.path("sounds/0.wav"))
        self.assert_run(said, 0, "of 1 window")
        self.assertEqual(said.stdout, rows[0]["completion"] + "\n")
        asked = run("predict", "--model", self.output, "--data", self.path("sounds/0.wav"), "--out",
                    self.answers, "--tokenizer", "bytes")
        self.assert_run(asked, 2, "--data", "spillway generate --audio")
        asked = run("predict", "--model", self.output, "--data", self.data, "--out", self.answers,
                    "--tokenizer", "bytes", "--source-prefix", "x")
        self.assert_run(asked, 2, "--source-prefix")
        # Longer than the model hears at once: windows, each as if it were alone.
        pause = array.array("h", [0] * (RATE // 4))
        said = run("generate", "--model", self.output, "--tokenizer", "bytes", "--audio",
                   self.write_sound("long.wav", sound_of("abc") + pause + sound_of("dab")))
        self.assert_run(said, 0, "of 2 windows")
        # The first window's end has a trace of what comes.
        self.assertRegex(said.stdout, "^abc[a-d]{2,}")

    def test_sounds_of_another_rate_without_soxr(self):
        """It is loaded where a sound has to be converted."""
        self.write("broken/libsoxr.so.0", "no library")
        result = run(*self.flags(tokenizer="bytes", dtype="fp32", seq_len=None),
                     variables={"LD_LIBRARY_PATH": self.path("broken")})
        self.assert_run(result, 1, self.path("sounds/"), "wav: converting a sound to another rate needs libsoxr.so.0: ",
                        "install libsoxr0")

    def test_the_names_of_transformers_script(self):
        rows = [{"audio": row["audio"], "sentence": row["text"]} for row in self.said]
        data = self.write("named.jsonl", self.jsonl(rows))
        self.assert_run(self.transcribe(data=data, text_column_name="sentence", task="transcribe", steps=1), 0)
        resolved = read_json(self.output, "config.resolved.json")
        for name, value in {"source-key": "audio", "target-key": "sentence", "max-target-length": 16}.items():
            self.assertEqual(resolved[name], {"value": value, "source": "derived"})
        self.begin_afresh()
        self.assert_run(self.transcribe(task="translate"), 2, "--transcribe-task translate")
        self.assert_run(self.transcribe(task="classify"), 2, "no --task classify", "--task transcribe")

    def test_evaluations_write_down_what_they_hear(self):
        self.write("model-in/tokenizer.json", tokenizer_of_languages())
        self.write("model-in/config.json", WHISPER | {
            "vocab_size": 264, "eos_token_id": 257, "decoder_start_token_id": 258})
        held_out = self.write("held.jsonl", self.jsonl(self.said[:12]))
        made = {"tokenizer": "model", "language": "en", "steps": 80, "micro_batch": 12,
                "lr": "5e-3", "eval_data": held_out, "predict_with_generate": True,
                "metric": "cer"}
        self.assert_run(self.transcribe(**made), 0, "the longest text 8 tokens")
        rows = read_rows(os.path.join(self.output, "eval.jsonl"))
        # Three tokens say what is to be made, and are not measured.
        self.assertLess(rows[-1]["cer"], rows[0]["cer"] * 0.8, rows)
        self.assertLess(rows[-1]["cer"], 0.6, rows)
        for flags in (["--language", "english"], []):  # the model finds out, too
            asked = run("predict", "--model", self.output, "--data", held_out, "--out",
                        self.answers, *flags)
            self.assert_run(asked, 0, "12 answers")
            cer = float(re.search(r" cer ([\d.]+)", asked.stderr).group(1))
            self.assertAlmostEqual(cer, rows[-1]["cer"], places=4, msg=rows)
            self.assertEqual({row.get("language") for row in read_rows(self.answers)},
                             {None} if flags else {"en"})
            os.remove(self.answers)
        # As older files say language and task; and so many tokens, none of which may end the text.
        for told, found in (([[1, 259], [2, 261]], None), ([[1, None], [2, 261]], "en")):
            self.write("told.json", {"forced_decoder_ids": told, "max_length": 3, "suppress_tokens": [257]})
            said = run("generate", "--model", self.output, "--audio", self.path("sounds/0.wav"),
                       "--generation-config", self.path("told.json"), "--json")
            self.assert_run(said, 0)
            made_of_it = json.loads(said.stdout)
            self.assertEqual((made_of_it["tokens"], made_of_it.get("language")), (3, found))
        self.begin_afresh()
        searches = {"num_beams": 2, "offload": "nvme", "steps": 2, "micro_batch": 3}
        self.assert_run(self.transcribe(**{**made, **searches}), 0)
        searched = read_rows(os.path.join(self.output, "eval.jsonl"))
        asked = run("predict", "--model", self.output, "--data", held_out, "--out", self.answers,
                    "--language", "en", "--num-beams", 2)
        self.assert_run(asked, 0, "cer %.4f" % searched[-1]["cer"])
        self.assert_run(self.transcribe(**{**made, "generation_max_length": 4}), 2,
                        "no room for a text behind the 4 tokens")
        self.assert_run(self.transcribe(**{**made, "language": None}), 2, "--language")

    def test_where_state_lies_changes_nothing(self):
        self.write("model-in/config.json", WHISPER | {
            "dropout": 0.1, "apply_spec_augment": True, "mask_time_prob": 0.1,
            "mask_feature_prob": 0.1, "mask_feature_length": 2})
        self.assert_run(self.transcribe(steps=6, micro_batch=2, accumulate=2, offload="none"), 0)
        whole = self.outcome()
        self.begin_afresh()
        self.assert_run(self.transcribe(steps=4, micro_batch=2, accumulate=2, offload="nvme",
                                        offload_activations="nvme", recompute="all"), 0)
        self.assert_run(self.transcribe(steps=6, micro_batch=2, accumulate=2, offload="nvme",
                                        offload_activations="nvme", recompute="all",
                                        resume=True), 0)
        self.assertEqual(self.outcome(), whole)

    def test_adapters_of_every_stack(self):
        self.assert_run(self.transcribe(steps=4, lora_r=2, lora_targets="q_proj,v_proj,out_proj",
                                        lora_dropout=0.1), 0, "beside 18 matrices")
        config = read_json(self.output, "adapter/adapter_config.json")
        self.assertEqual(sorted(config["target_modules"]), ["out_proj", "q_proj", "v_proj"])
        self.assertIsNone(config["task_type"])  # PEFT's model of pairs would give it token ids
        rows = self.predict(model=self.output)
        merged = self.path("merged")
        self.assert_run(run("export", "--from", self.output, "--to", merged, "--merge"), 0)
        self.assertEqual([row["completion"] for row in self.predict(model=merged)],
                         [row["completion"] for row in rows])

    def test_an_estimate_knows_what_is_heard(self):
        flags = ["estimate", "--model", self.model, "--dry-run", "yes"]
        self.assert_run(run(*flags), 0, "1 x 50 tokens", "are from a dry run")
        self.assert_run(run(*flags, "--max-target-length", 17), 2, "--max-target-length 17")

    def test_a_sound_that_proves_bad_loses_no_step(self):
        # Good as far as its header goes: that it is none is found where it is learnt from.
        good = struct.pack("<2000f", *(0.1 * math.sin(t / 3) for t in range(2000)))
        header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(good), b"WAVE", b"fmt ", 16, 3,
                             1, RATE, 4 * RATE, 4, 32, b"data", len(good))
        self.write("sounds/late.wav", header + good[:400] + struct.pack("<f", math.nan) + good[404:])
        said = [*self.said[:10], {"audio": "sounds/late.wav", "text": "a"}, *self.said[11:16]]
        late = {"data": self.write("late.jsonl", self.jsonl(said)), "micro_batch": 4, "steps": 6,
                "order": "sequential"}
        self.assert_run(self.transcribe(**late), 1, "late.jsonl:11: ", "late.wav", "not finite",
                        "step 2 is committed: go on from there with --resume")
        self.assertEqual(self.inspect()["step"], 2)
        self.write("sounds/late.wav", header + good)
        self.assert_run(self.transcribe(**late, resume=True), 0, "resuming after step 2")
        resumed = self.outcome()
        self.begin_afresh()
        self.assert_run(self.transcribe(**late), 0)
        self.assertEqual(resumed, self.outcome())

    def test_bad_input_is_named(self):
        good = self.jsonl(self.said[:1])
        self.write("empty.wav", "")
        for name, row, *said in (  # speech_samples_test.cc has the others
                ("a.jsonl", {"audio": "sounds", "text": "a"}, "a.jsonl:2", "not a plain file"),
                ("b.jsonl", {"audio": "empty.wav", "text": "a"}, "b.jsonl:2", "it is empty"),
                ("c.jsonl", {"text": "a"}, "c.jsonl:2", "--source-key")):
            bad = self.write(name, good + self.jsonl([row]))
            self.assert_run(self.transcribe(data=bad), 2, *said)
        flags = [({"language": "de"}, "no languages but English"),
                 ({"transcribe_task": "translate"}, "no languages to translate"),
                 ({"transcribe_task": "sing"}, "transcribe, translate"),
                 ({"seq_len": 8}, "--max-target-length"),
                 ({"max_target_length": 17}, "17 is more than the 16 positions"),
                 ({"max_target_length": 1}, "no room for a text")]
        for given, said in flags:
            self.assert_run(self.transcribe(**given), 2, said)
        self.write("model-in/preprocessor_config.json", {"feature_size": 80})
        self.assert_run(self.transcribe(), 2, "feature_size is 80; expected 16")
        self.assertFalse(os.path.exists(self.output))


if __name__ == "__main__":
    main()
