#!/usr/bin/env python3
"""What people type: flags of other programs, mistakes, help, and what is made of the flags: completion and man pages."""

import json
import os
import re
import shlex
import shutil
import subprocess
import unittest

import classify_test
import pictures_test
import transcribe_test
import translate_test
from cli_testing import OneCoreTest, environment, main, program, read_json, read_text, run, safetensors, TINY, gpt2_shapes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BYTES = transcribe_test.tokenizer_of_languages()  # 264 tokens
END = {"eos_token": "<|endoftext|>"}
GPT2 = TINY | {"vocab_size": 264, "n_positions": 128}
QWEN2 = {"model_type": "qwen2", "vocab_size": 264, "hidden_size": 24, "num_hidden_layers": 1,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40,
         "max_position_embeddings": 128, "tie_word_embeddings": True}
CHATML = read_text(ROOT, "tests/golden/chat/chatml.jinja")
BLENDERBOT = {"model_type": "blenderbot", "architectures": ["BlenderbotForConditionalGeneration"], "vocab_size": 264,
              "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
              "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
              "max_position_embeddings": 128, "pad_token_id": 0, "eos_token_id": 257, "decoder_start_token_id": 258}


class Typed(OneCoreTest):
    """Commands typed in a folder with the models and files that they name."""

    def model_directory(self, name, config, **files):
        self.write(f"{name}/config.json", config)
        self.write(f"{name}/tokenizer.json", BYTES)
        self.write(f"{name}/tokenizer_config.json", END)
        for file, content in files.items():
            self.write(f"{name}/{file.replace('_json', '.json')}", content)

    def rows(self, name, rows):
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def type(self, line, code=0, *said, threads=True):
        """A command as typed, in this folder."""
        words = shlex.split(line.replace("\\\n", " "))
        self.assertEqual(words[0], "spillway")
        if threads and words[1] == "train":
            words += ["--threads", "1"]
        result = run(*words[1:], cwd=self.dir)
        self.assert_run(result, code, *said)
        return result


class Mistakes(Typed):
    def test_all_that_is_in_the_way_is_one_message(self):
        line = (f"spillway train --model {self.model} --data {self.data} --output out --do_train --logging_steps 10 "
                "--batch-size 4 --dpo --lrn 1e-3 --use_dora --lr fast --gpus 2 --early-stopping-patience 3 --quantization 4bit "
                "--precision bf16-mixed --trust_remote_code --bf16 --fp16 --betas 2")
        errors = self.type(line, 2, "11 things are in the way:").stderr
        for start in ("--batch-size 4: use --micro-batch N", "--dpo: preference", "unknown argument --lrn; did you mean --lr?",
                      "--use_dora: of PEFT's adapters", "--lr 'fast' is not accepted", "--gpus 2: use --ranks N",
                      "--early-stopping-patience 3: a run does not stop early", "--quantization 4bit: use --base-dtype nf4",
                      "--precision bf16-mixed: use --dtype", "--bf16 and --fp16 contradict each other", "--betas '2' is not"):
            self.assertEqual(errors.count("\n  " + start), 1, (start, errors))
        self.assert_nothing_left()
        estimate = self.type(f"spillway estimate --model {self.model} --dpo --batch_size 3", 2, "2 things are in the way")
        self.assertIn("--batch_size 3: use --micro-batch", estimate.stderr)
        missing = self.type("spillway train --steps 3", 2, "3 things are in the way", threads=False).stderr
        self.assertIn(".jsonl", missing)

    def test_words_and_flags_of_other_commands(self):
        self.type("spillway train m/g2 x.txt", 2, "unknown argument m/g2, x.txt: a model goes to --model DIR, data to --data")
        self.type("spillway generate 'The licence' --model x", 2, "'The licence': a prompt goes to --prompt: --prompt 'The licence'")
        self.type("spillway generate --model x --prompt a --max_length 4", 2, "--max_length 4: use --tokens N")
        self.type("spillway generate --model x --prompt a --do-sample --topk 3", 2, "2 things", "--do-sample: --temperature",
                  "--topk; did you mean --top-k?")
        self.type("spillway bench", 2, "spillway bench needs one of: adam, io, swap")
        self.type("spillway bench adan", 2, "unknown subcommand adan; did you mean adam?")
        self.type("spillway train --model --steps 3", 2, "--model needs a value")
        self.type("spillway report a b c --nosuch 3", 2, "unknown argument --nosuch")
        # Lists in words of their own, and booleans.
        self.type(f"spillway train --model {self.model} --data {self.data} --output out --lora_target_modules c_attn c_proj "
                  "--resume True --use-rslora False", 2, "--lora-targets needs --lora-r")

    def test_a_yaml_file(self):
        self.write("recipe.yaml", "base_model: Qwen/Qwen3-8B\nsequence_len: 2048\nadapter: qlora\nrl: dpo\nval_set_size: 0.1\n")
        result = self.type(f"spillway train --model {self.model} --data {self.data} --output out --config recipe.yaml", 2)
        for words in ("recipe.yaml:3: --qlora true: use --lora-r 16 --base-dtype nf4", "recipe.yaml:4: --rl dpo: preference"):
            self.assertIn(words, result.stderr)
        self.write("recipe.yaml", f"model: {self.model}\ndata: [{self.data}]\noutput: out\nsteps: 2\nlearning_rate: 1e-3\n"
                   "micro_batch: 2\n")
        self.type("spillway train --config recipe.yaml --micro-batch 3")
        resolved = read_json(self.dir, "out", "config.resolved.json")
        self.assertEqual([resolved[name]["source"] for name in ("lr", "micro-batch")], ["recipe.yaml:5", "--micro-batch"])
        # The same run again, elsewhere.
        self.type("spillway train --config out/config.resolved.json --output again")
        for name in ("lr", "loss", "tokens"):
            rows = [[json.loads(line)[name] for line in read_text(self.dir, run, "metrics.jsonl").splitlines()]
                    for run in ("out", "again")]
            self.assertEqual(rows[0], rows[1])

    def test_a_warm_up_that_never_ends_is_said(self):
        self.assert_run(self.train(steps=2, warmup=100, epochs=1, swap=None, offload=None), 0,
                        "never reaches its full value: the warm-up takes 100 steps, and the run has 2",
                        "--steps 2 decides; --epochs 1 is not used")
        # A fraction of the steps, which the data decide: 125 windows, 25 at a time, twice.
        result = self.train(steps=None, epochs=2, micro_batch=25, warmup_ratio="0.25", schedule="linear", swap=None,
                            offload=None, output=self.path("second"), eval_data=self.data, eval_strategy="epoch")
        self.assert_run(result, 0)
        self.assertNotIn("full value", result.stderr)
        rows = [json.loads(line) for line in read_text(self.path("second"), "metrics.jsonl").splitlines()]
        self.assertEqual([row["step"] for row in rows if row["lr"] == max(row["lr"] for row in rows)], [4])
        evaluations = [json.loads(line)["step"] for line in read_text(self.path("second"), "eval.jsonl").splitlines()]
        self.assertEqual(evaluations, [0, 5, 10])


class Migration(Typed):
    """Usual commands of other programs, with a local model and files in place of a hub's names."""

    def setUp(self):
        super().setUp()
        self.model_directory("gpt2", GPT2)
        text = "the quick brown fox jumps over the lazy dog. " * 40
        self.write("train.txt", text)
        self.write("dev.txt", text[:600])

    def test_run_clm_with_34_flags(self):
        line = """spillway train --model_name_or_path gpt2 --tokenizer_name gpt2 --cache_dir cache --use_fast_tokenizer True
            --trust_remote_code False --torch_dtype auto --low_cpu_mem_usage --attn_implementation sdpa --train_file train.txt
            --validation_file dev.txt --validation_split_percentage 5 --block_size 64 --preprocessing_num_workers 4
            --overwrite_cache --do_train --do_eval --output_dir out --overwrite_output_dir --per_device_train_batch_size 8
            --per_device_eval_batch_size 8 --gradient_accumulation_steps 1 --learning_rate 5e-5 --weight_decay 0.01
            --adam_beta1 0.9 --adam_beta2 0.95 --max_grad_norm 1.0 --max_steps 2 --lr_scheduler_type cosine --warmup_ratio 0.03
            --logging_steps 10 --eval_strategy steps --eval_steps 500 --save_strategy steps --save_steps 500
            --save_total_limit 2 --seed 42 --bf16 --bf16_full_eval --gradient_checkpointing True --report_to none
            --optim adamw_torch_fused --dataloader_num_workers 4 --ddp_find_unused_parameters False
            --load_best_model_at_end False"""
        said = self.type(line.replace("\n", " ")).stderr
        notices = [line for line in said.splitlines() if "without effect here" in line]
        self.assertEqual(len(notices), 1, said)
        for flag in ("--cache_dir cache", "--low_cpu_mem_usage", "--do_train", "--logging_steps 10", "--report_to none",
                     "--bf16_full_eval", "--save_total_limit 2", "--validation_split_percentage 5", "--dtype auto",
                     "--gradient_checkpointing True", "--load_best_model_at_end False", "--overwrite_cache"):
            self.assertIn(flag, notices[0])
        resolved = read_json(self.dir, "out", "config.resolved.json")
        self.assertEqual([resolved[name]["value"] for name in ("dtype", "schedule", "warmup", "betas", "commit-every")],
                         ["bf16", "cosine", 1, [0.9, 0.95], 500])
        self.assertIn("--do_train", resolved["flags_without_effect"]["value"])

    def test_trl_sft(self):
        self.model_directory("Qwen2-0.5B", QWEN2)
        self.write("Qwen2-0.5B/chat_template.jinja", CHATML)
        talk = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}
        self.rows("train.jsonl", [talk] * 8)
        line = """spillway train --model_name_or_path Qwen2-0.5B --dataset_name trl-lib/Capybara --learning_rate 2.0e-4
            --max_steps 2 --packing --per_device_train_batch_size 1 --gradient_accumulation_steps 2 --eos_token '<|im_end|>'
            --eval_strategy steps --eval_steps 100 --use_peft --lora_r 4 --lora_alpha 16 --lora_target_modules q_proj v_proj
            --output_dir out --push_to_hub --load_in_4bit --use_bnb_nested_quant --report_to tensorboard --optim paged_adamw_8bit
            --assistant_only_loss --dataset_text_field text""".replace("\n", " ")
        self.type(line, 2, "3 things are in the way:", "--dataset_name trl-lib/Capybara: data comes from files", "to_json",
                  "--data FILE... is missing", "--eval-every needs")
        line = line.replace("--dataset_name trl-lib/Capybara", "--train_file train.jsonl --validation_file train.jsonl")
        said = self.type(line.replace("<|im_end|>", "<|endoftext|>")).stderr
        self.assertIn("--push_to_hub (upload OUTPUT/model yourself", said)
        adapter = read_json(self.dir, "out/adapter/adapter_config.json")
        self.assertEqual((adapter["r"], adapter["lora_alpha"], adapter["lora_dropout"], sorted(adapter["target_modules"])),
                         (4, 16, 0.05, ["q_proj", "v_proj"]))
        resolved = read_json(self.dir, "out", "config.resolved.json")
        self.assertEqual([resolved[name]["value"] for name in ("moments", "base-dtype", "samples")], ["8bit", "nf4", "packed"])
        self.assertTrue(os.listdir(self.path("out/runs")), "TensorBoard's files")


class SideBySide(Typed):
    """The pairs of docs/EXAMPLES.md: each second command as it stands, but for the number of steps."""

    def pair(self, title):
        """The commands of the second block below a heading."""
        section = read_text(ROOT, "docs/EXAMPLES.md").split(f"\n### {title}\n")[1].split("\n### ")[0]
        block = re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)[1]
        return [command for command in re.findall(r"^(?:.*\\\n)*.*\n", block, re.M) if command.strip()]

    def do(self, title):
        for command in self.pair(title):
            command = re.sub(r"--max_steps \d+", "--max_steps 2", command).replace("/nvme", self.swap)
            self.type(command)

    def test_a_language_model(self):
        self.model_directory("gpt2", GPT2)
        self.write("train.txt", "some words of a text. " * 80)
        self.write("dev.txt", "some other words. " * 20)
        self.do("A language model")

    def test_conversations_with_lora(self):
        self.model_directory("Qwen2-0.5B", QWEN2)
        self.write("Qwen2-0.5B/chat_template.jinja", CHATML)
        tokenizer = json.loads(json.dumps(BYTES).replace("<|endoftext|>", "<|im_end|>"))
        self.write("Qwen2-0.5B/tokenizer.json", tokenizer)
        self.write("Qwen2-0.5B/tokenizer_config.json", {"eos_token": "<|im_end|>"})
        talk = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}
        self.rows("train.jsonl", [talk] * 16)
        self.rows("test.jsonl", [talk])
        self.do("Conversations with LoRA")

    def test_translation(self):
        self.model_directory("t5-v1_1-small", translate_test.T5 | {"vocab_size": 264, "eos_token_id": 257})
        rows = [{"translation": {"en": f"{i} books", "de": f"{i} Bücher"}} for i in range(4)]
        for name in ("train", "dev", "test"):
            self.rows(name + ".jsonl", rows)
        self.do("Translation")

    def test_dialogue(self):
        self.model_directory("blenderbot-400M-distill", BLENDERBOT)
        for name in ("train", "dev"):
            self.rows(name + ".jsonl", [{"prompt": "hi", "completion": "hello"}] * 4)
        self.write("ds_config.json", {"fp16": {"enabled": True}, "zero_optimization": {"stage": 2}})
        self.do("Dialogue")

    def test_texts_with_labels(self):
        self.model_directory("bert-base-uncased", classify_test.BERT | {"vocab_size": 264, "max_position_embeddings": 128})
        for name in ("train", "dev", "test"):
            self.write(name + ".csv", "sentence,label\na good film,good\na bad film,bad\n")
        self.do("Texts with labels")

    def test_gpt2_xl(self):
        self.model_directory("gpt2-xl", GPT2)
        self.write("corpus.txt", "some words of a text. " * 80)
        self.write("dev.txt", "some other words. " * 20)
        self.write("ds_config.json", {"fp16": {"enabled": True}, "zero_optimization": {"stage": 3}})
        self.do("GPT-2 XL")

    def test_speech(self):
        tokens = json.loads(json.dumps(BYTES).replace("<|de|>", "<|hi|>"))
        self.model_directory("whisper-small", transcribe_test.WHISPER | {
            "vocab_size": 264, "eos_token_id": 257, "decoder_start_token_id": 258})
        self.write("whisper-small/tokenizer.json", tokens)
        samples = transcribe_test.sound_of("ab")
        transcribe_test.TranscribeTest.write_sound(self, "sound.wav", samples)
        for name in ("train", "dev"):
            self.rows(name + ".jsonl", [{"audio": "sound.wav", "text": "ab"}] * 2)
        self.do("Speech")

    def test_pictures(self):
        self.model_directory("resnet-18", pictures_test.RESNET, preprocessor_config_json={
            "do_normalize": True, "do_resize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
            "size": {"height": 24, "width": 24}})
        for part in ("train", "dev", "test"):
            for name, picture in (("apple", "colours.jpg"), ("bird", "grey.png")):
                folder = self.path(f"pictures/{part}/{name}")
                os.makedirs(folder)
                shutil.copy(os.path.join(pictures_test.PICTURES, picture), folder)
        self.do("Pictures")


class Help(OneCoreTest):
    def help(self, *words):
        result = run(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_the_short_help_has_the_usual_flags_and_the_groups(self):
        page = self.help("train", "--help")
        self.assertLess(len(page.splitlines()), 80, page)
        self.assertIn("Usage: spillway train --model DIR --data FILE... --output DIR [flags]", page)
        for words in ("(required) Hugging Face model directory", "--lr NUMBER ", "--device-memory SIZE", "Groups of flags:",
                      "  LoRA and frozen parts\n", "spillway train --help-all"):
            self.assertIn(words, page)
        self.assertNotIn("--lora-dropout", page)
        self.assertNotIn(" TEXT", page)

    def test_all_of_it_is_in_groups(self):
        page = self.help("train", "--help-all")
        groups = re.findall(r"^(\w.*):$", page, re.M)
        self.assertEqual(groups[:5], ["Model", "Data", "Training", "Optimizer", "LoRA and frozen parts"])
        self.assertIn("--schedule constant|linear|cosine|", page)
        self.assertNotIn("--bf16", page.replace("bf16|", ""), "another program's flag")
        lora = self.help("help", "train", "lora")
        self.assertIn("--lora-dropout NUMBER", lora)
        self.assertNotIn("--lr ", lora)
        self.assertEqual(run("help", "train", "nonsense").returncode, 2)
        estimate = self.help("estimate", "--help")
        self.assertIn("--dry-run auto|yes|no", estimate)
        self.assertIn("spillway train --help-all", estimate)
        self.assertNotIn("--lr", estimate)

    def test_descriptions_stay_in_their_column(self):
        for words in (["train", "--help-all"], ["predict", "--help"], ["generate", "--help"], ["bench", "io", "--help"]):
            for line in self.help(*words).split("Example:")[0].splitlines():
                self.assertLessEqual(len(line), 80, line)
                self.assertTrue(re.match(r"(\S|  ?-| {6}\S| {28}\S|  \w+ |$|  [A-Z/.])", line), line)

    def test_version(self):
        self.assertRegex(self.help("version"), r"^spillway \d+\.\d+\.\d+ \(.+\)\n$")
        parts = json.loads(self.help("version", "--json"))
        self.assertEqual(sorted(parts), ["build", "commit", "version"])
        self.assertEqual(self.help("--version"), f"spillway {parts['version']}\n")


class Scripts(OneCoreTest):
    def script(self, *words):
        result = run(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.write("script", result.stdout)

    def completions(self, line):
        """What bash offers at the end of a line."""
        script = self.script("completion", "bash")
        ask = (f'source {script}; COMP_LINE=$1; COMP_POINT=${{#1}}; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
               '_spillway; printf "%s\\n" "${COMPREPLY[@]}"')
        words = re.findall(r"[^\s=]+|=", line)
        if line.endswith((" ", "=")):
            words.append("")
        result = subprocess.run(["bash", "-c", ask, "bash", line, *words], capture_output=True, text=True, cwd=self.dir,
                                timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, ""), line)
        return result.stdout.split()

    def test_bash_completes(self):
        script = self.script("completion", "bash")
        subprocess.run(["bash", "-n", script], check=True)
        self.assertIn("train", self.completions("spillway tr"))
        self.assertEqual(self.completions("spillway bench a"), ["adam"])
        self.assertEqual(self.completions("spillway train --lora-d"), ["--lora-dropout"])
        self.assertIn("--swap", self.completions("spillway train --model x --"))
        self.assertEqual(self.completions("spillway train --offload "), ["auto", "none", "cpu", "nvme"])
        self.assertEqual(self.completions("spillway train --offload=n"), ["none", "nvme"])
        self.assertEqual(self.completions("spillway bench io --op de"), ["demand"])
        self.assertEqual(self.completions("spillway train --lr "), [])
        self.assertEqual(self.completions("spillway train --model model"), ["model-in"])
        self.assertEqual(self.completions("spillway train --data da"), ["data.bin"])
        self.assertEqual(self.completions("spillway train --data a.txt da"), ["data.bin"], "several files")
        self.assertEqual(self.completions("spillway train --tokenizer by"), ["bytes"])
        self.assertEqual(self.completions("spillway inspect da"), ["data.bin"])
        self.assertIn("--no-commit", self.completions("spillway train --resume --no"))

    def test_other_shells_read_their_scripts(self):
        for shell in ("zsh", "fish"):
            script = self.script("completion", shell)
            self.assertIn("lora-dropout", read_text(script))
            if shutil.which(shell):
                subprocess.run([shell, "-n", script], check=True)
        self.assertEqual(run("completion", "tcsh").returncode, 2)
        if shutil.which("fish"):
            found = subprocess.run(["fish", "-c", f"source {self.path('script')}; complete -C 'spillway train --offload '"],
                                   capture_output=True, text=True, check=True)
            self.assertIn("nvme", found.stdout)

    def test_man_pages_are_read_without_a_warning(self):
        for words in ([], ["train"], ["bench", "io"], ["estimate"], ["completion"], ["export"]):
            page = self.script("man", *words)
            text = read_text(page)
            self.assertIn(".SH FLAGS", text)
            if not shutil.which("groff"):
                continue
            shown = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-b", page], capture_output=True, text=True)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""), words)
            plain = re.sub(r"\x1b\[[\d;]*m|.\x08", "", shown.stdout)
            self.assertIn("spillway" + "".join(" " + word for word in words), plain)
            if words == ["train"]:
                self.assertIn("--lora-dropout NUMBER", plain.replace("‐", "-").replace("−", "-"))
        self.assertEqual(run("man", "nonsense").returncode, 2)


if __name__ == "__main__":
    main()
