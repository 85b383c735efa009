#!/usr/bin/env python3
"""Residual networks that classify pictures, through the program: from CIFAR's batches and folders
of pictures to a model that labels."""

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess

from cli_testing import CliTest, environment, main, program, read_json, read_rows, read_text, run

RESNET = {"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
          "num_channels": 3, "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1],
          "layer_type": "basic"}
PICTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "pictures")
NORM = "resnet.embedder.embedder.normalization."


def cifar(count, seed, labels=10):
    """Records whose pictures have the colour of their label, and noise."""
    draw, data = random.Random(seed), bytearray()
    for i in range(count):
        label = i % labels
        data.append(label)
        for channel in range(3):
            level = (label * 61 + channel * 101) % 200
            data += bytes(level + draw.randrange(56) for _ in range(1024))
    return bytes(data)


def header_of(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))


class PicturesTest(CliTest):
    config = RESNET | {"n_positions": 1, "vocab_size": 64}

    def setUp(self):
        super().setUp()
        self.write("model-in/config.json", RESNET)
        self.data = self.write("cifar/data_batch_1.bin", cifar(80, 1))
        self.held_out = self.write("cifar/test_batch.bin", cifar(40, 2))
        self.answers = self.path("answers.jsonl")

    def learn(self, **changes):
        return self.train(**{"seq_len": None, "dtype": "fp32", "micro_batch": 8, "accumulate": 2,
                             "optimizer": "sgd", "momentum": 0.9, "lr": 0.05, "clip": 0,
                             "steps": 12, **changes})

    def folders(self, names=("apple", "bird")):
        for name, picture in zip(names, ("colours.jpg", "grey.png")):
            os.makedirs(self.path("folders/" + name), exist_ok=True)
            for i in range(3):
                ending = os.path.splitext(picture)[1]
                shutil.copy(os.path.join(PICTURES, picture),
                            self.path(f"folders/{name}/{i}{ending}"))
        return self.path("folders")

    def predict(self, *data, code=0, words=(), model=None, flags=()):
        result = run("predict", "--model", model or self.path("out/model"), "--data", *data,
                     "--out", self.answers, "--threads", 1, *flags)
        self.assert_run(result, code, *words)
        rows = read_rows(self.answers) if code == 0 else None
        if code == 0:
            os.remove(self.answers)
        return rows

    def test_cifar_trains_a_model_that_labels(self):
        result = self.learn(data=self.path("cifar"), eval_data=self.path("cifar"), steps=60,
                            lr=0.02, augment="none")
        self.assert_run(result, 0, "80 pictures, read as 32 x 32; augment none",
                        "40 pictures, held out", "accuracy")
        evaluation = read_rows(self.path("out/eval.jsonl"))[-1]
        self.assertGreater(evaluation["accuracy"], 0.7)
        self.assertEqual([evaluation[name] for name in ("tokens", "labels", "samples")], [0, 40, 40])
        report = read_text(self.path("out/report.html"))
        for words in ("80 pictures", ">Pictures/s<", ">Accuracy<", "measure-accuracy"):
            self.assertIn(words, report)

        config = read_json(self.output, "model/config.json")
        self.assertEqual(config["id2label"]["9"], "truck")
        self.assertEqual(config["label2id"]["cat"], 3)
        processor = read_json(self.output, "model/preprocessor_config.json")
        self.assertEqual(processor["size"], {"height": 32, "width": 32})
        tensors = header_of(self.path("out/model/model.safetensors"))
        self.assertEqual(tensors[NORM + "num_batches_tracked"]["dtype"], "I64")
        self.assertEqual(tensors[NORM + "running_mean"]["shape"], [8])

        rows = self.predict(self.held_out, words=("40 pictures classified",))
        self.assertEqual([row["record"] for row in rows], list(range(40)))
        names = [config["id2label"][str(i % 10)] for i in range(40)]
        right = sum(row["label"] == name for row, name in zip(rows, names))
        self.assertEqual(right / 40, evaluation["accuracy"])
        self.assertAlmostEqual(sum(rows[0]["scores"].values()), 1, places=5)
        # The commit says the same as the model that was exported from it.
        self.assertEqual(self.predict(self.held_out, model=self.output), rows)

        # A batch of them that does not fit is named with what would.
        result = run("predict", "--model", self.output, "--data", self.held_out, "--out",
                     self.answers, "--threads", 1, "--batch", 40, "--device-memory", "100KiB")
        self.assert_run(result, 3, "answering 40 pictures at a time", "at least --device-memory")
        least = re.search(r"at least --device-memory (\d+)MiB", result.stderr).group(1)
        fitting = self.predict(self.held_out, model=self.output,
                               flags=("--batch", 40, "--device-memory", f"{least}MiB"))
        self.assertEqual([row["label"] for row in fitting], [row["label"] for row in rows])
        self.predict(self.held_out, code=2, flags=("--label-key", "x"), words=("models of texts",))

        # What was exported is where another run begins, with its counts.
        self.begin_second()
        self.assert_run(self.learn(steps=1, output=self.path("second"), model=self.path("out/model")), 0)
        with open(self.path("second/model/model.safetensors"), "rb") as file:
            raw = file.read()
        begin, end = header_of(self.path("second/model/model.safetensors"))[
            NORM + "num_batches_tracked"]["data_offsets"]
        at = 8 + struct.unpack("<Q", raw[:8])[0]
        self.assertEqual(struct.unpack("<q", raw[at + begin:at + end])[0], 2 * 61)

    def begin_second(self):
        for name in os.listdir(self.swap):
            shutil.rmtree(os.path.join(self.swap, name))

    def test_the_same_bits_in_memory_on_nvme_and_after_a_stop(self):
        whole = {"commit_every": 2, "steps": 8, "eval_data": self.held_out}
        self.assert_run(self.learn(swap=None, offload="none", **whole), 0, "augment crop-flip")
        expected = self.outcome()
        self.begin_afresh()
        words = self.flags(seq_len=None, dtype="fp32", micro_batch=8, accumulate=2, optimizer="sgd",
                           momentum=0.9, lr=0.05, clip=0, **whole)
        process = self.start(words, stderr=subprocess.DEVNULL)
        self.wait_for_rows(process, 3)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assert_run(self.learn(resume=True, **whole), 0)
        self.assertEqual(self.outcome(), expected)
        self.assert_run(self.learn(resume=True, augment="none", **{**whole, "steps": 9}), 2,
                        "augment")

    def test_folders_name_the_labels(self):
        result = self.learn(data=self.folders(), eval_data=self.path("folders"), picture_size=24,
                            steps=3, micro_batch=3, accumulate=1)
        self.assert_run(result, 0, "6 pictures, read as 24 x 24; augment none")
        config = read_json(self.output, "model/config.json")
        self.assertEqual(config["id2label"], {"0": "apple", "1": "bird"})
        rows = self.predict(self.path("folders"), self.path("folders/bird/0.png"))
        self.assertEqual(len(rows), 7)
        self.assertEqual(rows[6]["scores"], rows[3]["scores"])
        self.assertIn(rows[0]["label"], ("apple", "bird"))

    def test_budgets_hold_and_estimate_knows_them(self):
        result = run("estimate", "--model", self.model, "--picture-size", 32, "--micro-batch", 8,
                     "--dtype", "fp32", "--optimizer", "sgd", "--momentum", 0.9, "--clip", 0,
                     "--threads", 1, "--device-memory", "64MiB", "--host-memory", "64MiB",
                     "--swap", self.swap, "--offload", "nvme", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        estimate = json.loads(result.stdout)
        self.assertEqual(estimate["model"]["model_type"], "resnet")
        least = {"device_memory": estimate["feasible"]["device_bytes"],
                 "host_memory": estimate["feasible"]["host_bytes"]}
        self.write("model-in/config.json", RESNET)
        self.assert_run(self.learn(accumulate=1, steps=2, **least), 0)
        peak = self.rows()[-1]["peak_bytes"]
        self.assertLessEqual(peak["device"], least["device_memory"])
        self.begin_afresh()
        less = dict(least, device_memory=least["device_memory"] // 2)
        self.assert_run(self.learn(accumulate=1, steps=2, **less), 3, "--device-memory")

    def test_adapters_of_convolutions(self):
        base = self.path("base")
        self.assert_run(self.learn(steps=6, output=base), 0)
        self.begin_second()
        adapts = {"model": os.path.join(base, "model"), "lora_r": 2, "lora_dropout": 0.1,
                  "optimizer": "adamw", "momentum": None, "lr": "1e-2", "eval_data": self.held_out}
        whole = {**adapts, "steps": 4}
        self.assert_run(self.learn(**whole, swap=None, offload="none"), 0, "running statistics")
        expected = self.outcome()
        tensors = header_of(self.path("out/adapter/adapter_model.safetensors"))
        prefix = "base_model.model.resnet.embedder.embedder.convolution."
        self.assertEqual(tensors[prefix + "lora_A.weight"]["shape"], [2, 3, 7, 7])
        self.assertEqual(tensors[prefix + "lora_B.weight"]["shape"], [8, 2, 1, 1])
        config = read_json(self.output, "adapter/adapter_config.json")
        self.assertEqual((config["task_type"], config["target_modules"], config["modules_to_save"]),
                         (None, ["convolution"], ["classifier"]))
        rows = self.predict(self.held_out, model=self.output)
        merged = self.path("merged")
        self.assert_run(run("export", "--from", self.output, "--to", merged, "--merge"), 0)
        for row, other in zip(rows, self.predict(self.held_out, model=merged)):
            for label, score in row["scores"].items():
                self.assertAlmostEqual(score, other["scores"][label], places=4)
        # What it was before has other scores.
        before = self.predict(self.held_out, model=os.path.join(base, "model"))
        self.assertNotEqual(before[0]["scores"], rows[0]["scores"])
        self.begin_afresh()
        self.assert_run(self.learn(**{**whole, "steps": 2}), 0)
        self.assert_run(self.learn(**whole, resume=True), 0)
        self.assertEqual(self.outcome(), expected)
        estimate = run("estimate", "--model", os.path.join(base, "model"), "--lora-r", 2,
                       "--micro-batch", 8, "--threads", 1)
        self.assert_run(estimate, 0, "of them trained")

    def test_a_head_for_other_labels_begins_anew(self):
        # ImageNet has a label twice, which label2id can say once.
        named = RESNET | {"id2label": {"0": "crane", "1": "ox", "2": "crane"}, "label2id": {"crane": 2, "ox": 1}}
        self.write("model-in/config.json", named)
        folders = self.folders()
        shutil.copytree(os.path.join(folders, "apple"), self.path("three/crane"))
        shutil.copytree(os.path.join(folders, "bird"), self.path("three/ox"))
        self.assert_run(self.learn(data=self.path("three"), picture_size=24, steps=1), 0)
        shutil.copy(os.path.join(self.output, "model/model.safetensors"), self.model)
        self.assertEqual(read_json(self.output, "model/config.json")["label2id"], {"crane": 2, "ox": 1})
        self.begin_afresh()
        self.assert_run(self.learn(data=folders, picture_size=24), 2, 'the model has no label "apple"',
                        "--ignore-mismatched-sizes")
        self.assert_run(self.learn(data=folders, picture_size=24, ignore_mismatched_sizes=True, steps=1), 0,
                        "classifier.1.bias [3], here [2]")
        self.assertEqual(read_json(self.output, "model/config.json")["id2label"], {"0": "apple", "1": "bird"})

    def test_bad_input_is_named(self):
        # What labelled_pictures_test.cc has not.
        cut = self.write("cut.bin", cifar(3, 1)[:-7])
        for changes, *words in (
                ({"data": cut}, "cut.bin has 9212 bytes", "3073"),
                ({"seq_len": 8}, "--seq-len", "classifies pictures"),
                ({"lora_r": 4, "lora_targets": "normalization"}, "beside which there are no adapters", "convolution"),
                ({"micro_batch": 1, "picture_size": 8}, "--micro-batch 1", "batch norm"),
                ({"data": self.folders()}, "preprocessor_config.json", "--picture-size"),
                ({"augment": "rotate"}, "--augment", "crop-flip")):
            self.assert_run(self.learn(**changes), 2, *words)
            self.assert_nothing_left()
        self.write("model-in/config.json", RESNET | {"num_labels": 7})
        self.assert_run(self.learn(data=self.folders(), picture_size=24), 2, "2 folders", "7 labels",
                        "--ignore-mismatched-sizes")
        # One whose beginning is good is found when it is read.
        self.write("model-in/config.json", RESNET)
        with open(os.path.join(PICTURES, "colours.jpg"), "rb") as file:
            self.write("folders/apple/0.jpg", file.read()[:-30])
        self.assert_run(self.learn(data=self.path("folders"), picture_size=24), 2,
                        "apple/0.jpg: this picture is cut short")
        self.assert_run(self.learn(data=self.path("folders/bird/1.png"), picture_size=24), 2,
                        "1.png: pictures with labels are")
        shutil.rmtree(self.path("folders/apple"))
        self.assert_run(self.learn(data=self.path("folders"), picture_size=24), 2,
                        "nothing to tell apart")
        result = run("generate", "--model", self.model, "--prompt", "x")
        self.assertEqual(result.returncode, 2)
        self.write("gpt/config.json", {"model_type": "gpt2", "vocab_size": 64, "n_positions": 16,
                                       "n_embd": 16, "n_layer": 1, "n_head": 2})
        self.begin_afresh()
        self.assert_run(self.train(model=self.path("gpt"), augment="none"), 2, "classify-image")

    def test_the_example_learns_and_resumes(self):
        example = os.path.join(os.path.dirname(program()), "train_resnet_cifar")
        if not os.path.exists(example):
            self.skipTest("examples are not built")

        def command(output, *more):
            return [example, "--data", self.data, "--eval-data", self.held_out, "--output",
                    self.path(output), "--width", "2", "--micro-batch", "16", "--lr", "0.03",
                    "--device-memory", "64MiB", "--host-memory", "64MiB", "--steps", "10", *more]

        def train(output, *more, code=0):
            result = subprocess.run(command(output, *more), capture_output=True, text=True,
                                    timeout=600, env=environment())
            self.assertEqual(result.returncode, code, result.stderr)
            return result

        self.write("cifar/test_batch.bin", cifar(8, 2))
        self.assertIn("accuracy", train("nvme", "--swap", self.swap).stdout)
        rows = self.rows(self.path("nvme"))
        self.assertLess(rows[-1]["loss"], rows[0]["loss"])
        stopped = command("memory")
        process = self.start(stopped[1:], program_=example, stderr=subprocess.DEVNULL)
        self.wait_for(lambda: len(self.rows(self.path("memory"))) >= 3, process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=600), 75)
        train("memory", "--resume")
        nvme, memory = self.inspect(self.path("nvme")), self.inspect(self.path("memory"))
        self.assertEqual(nvme["digests"], memory["digests"])
        self.assertTrue(any(name.endswith("running_var") for name in nvme["digests"]))
        self.assertIn("made.bin", train("none", "--make-data", self.path("made.bin")).stdout)
        self.assertEqual(os.path.getsize(self.path("made.bin")) % 3073, 0)
        self.assertIn("3073", train("out", "--data", self.write("bad.bin", b"x"), code=2).stderr)


if __name__ == "__main__":
    main()
