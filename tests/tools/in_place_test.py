#!/usr/bin/env python3
"""Frozen weights that are read where they lie, in the model's own files: the bits of a run that
has them in its swap, whatever becomes of the run; and what is said when the files change."""

import array
import json
import os
import random
import shutil

import cli_testing
from cli_testing import read_text, run, start
from ranks_testing import RanksCase


def model_file(shapes, dtype):
    """The same values, which bf16 has, in a file of bf16 or of fp32 tensors."""
    generator = random.Random(7)
    header, data = {}, bytearray()
    for name, shape in shapes.items():
        size = 1
        for n in shape:
            size *= n
        bits = array.array("I")
        bits.frombytes(array.array("f", (generator.gauss(0, 0.02) for _ in range(size))).tobytes())
        begin = len(data)
        data += (array.array("H", (b >> 16 for b in bits)) if dtype == "BF16" else
                 array.array("I", (b >> 16 << 16 for b in bits))).tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(data)]}
    return cli_testing.with_header(json.dumps(header), bytes(data))


class InPlaceTest(RanksCase):
    config = dict(cli_testing.TINY, vocab_size=512, n_positions=32, n_embd=64, n_layer=3, n_head=4)
    # A unit that is frozen in part, one that is frozen whole, and those before them.
    trained = r"h\.2\.|h\.1\.mlp|ln_f"
    _expected = ()

    def setUp(self):
        super().setUp()
        # The one with which everything is converted into swap, as fp32 in a bf16 run.
        self.copied = self.path("copied-in")
        shapes = cli_testing.gpt2_shapes(self.config)
        self.write("model-in/model.safetensors", model_file(shapes, "BF16"))
        self.write("copied-in/config.json", self.config)
        self.write("copied-in/model.safetensors", model_file(shapes, "F32"))
        self.weights = os.path.join(self.model, "model.safetensors")

    def flags(self, **changes):
        return super().flags(**{"dtype": "bf16", "train_only": self.trained, "commit_every": 2,
                                "steps": 6, **changes})

    def outcome(self, output=None, columns=("step", "loss", "grad_norm", "lr")):
        found = super().outcome(output, columns)
        found.pop("exported", None)  # in the dtype of the model that the run started from
        return found

    def expected(self):
        """Of a run that has all of it in its swap, made once; and what it wrote at its start."""
        if not InPlaceTest._expected:
            result = run(*self.flags(model=self.copied))
            self.assert_run(result, 0, "of the frozen weights are copied once into swap")
            self.assertNotIn("B in the model's files", result.stderr)
            InPlaceTest._expected = self.outcome(), self.written()
            self.begin_afresh()
        return InPlaceTest._expected

    def written(self):
        return int(read_text(self.output, "bytes-written"))

    def swap_bytes(self):
        return sum(os.path.getsize(os.path.join(folder, name))
                   for folder, _, names in os.walk(self.swap) for name in names if name == "tiles")

    @staticmethod
    def data_bytes(header):
        return max(tensor["data_offsets"][1] for name, tensor in header.items()
                   if name != "__metadata__")

    def export(self, *words):
        shutil.rmtree(self.path("exported"), ignore_errors=True)
        return run("export", "--from", self.output, "--to", self.path("exported"), *words)

    def files_of(self, output=None):
        return {extent["file"] for extent in self.inspect(output)["extents"]}

    # -- one rank --------------------------------------------------------------------------

    def test_same_bits_and_nothing_written(self):
        expected, written = self.expected()
        result = self.train()
        self.assert_run(result, 0, "B in the model's files")
        self.assertNotIn("copied once", result.stderr)
        self.assertEqual(self.outcome(), expected)
        self.assertTrue(read_text(self.output, "manifest-rank0").startswith("spillway-manifest 3 "))
        self.assertIn(self.weights, self.files_of())
        # What is frozen is neither written nor in the store: wte, wpe, two thirds of what is
        # frozen in a layer, padded.
        frozen = [extent for extent in self.inspect()["extents"] if extent["file"] == self.weights]
        in_place = sum(extent["bytes"] for extent in frozen)
        self.assertGreater(in_place, 512 * 64 * 2)
        self.assertGreaterEqual(written - self.written(), in_place)
        self.assertLess(written - self.written(), in_place + 4 * 4096)
        self.assertEqual({extent["plane"] for extent in frozen}, {"weight"})
        # An export reads them there, too.
        self.assert_run(self.export(), 0)
        with open(self.path("exported/model.safetensors"), "rb") as file:
            exported = file.read()
        header = json.loads(exported[8:8 + int.from_bytes(exported[:8], "little")])
        first, last = header["wte.weight"]["data_offsets"]
        with open(self.weights, "rb") as file:
            content = file.read()
        self.assertIn(exported[len(exported) - self.data_bytes(header):][first:last], content)

    def test_an_export_onto_the_model_that_the_run_reads_is_refused(self):
        self.assert_run(self.train(steps=2), 0)
        os.symlink(self.model, self.path("link"))
        with open(self.weights, "rb") as file:
            content = file.read()
        for to in (self.model, self.path("link")):
            self.assert_run(run("export", "--from", self.output, "--to", to), 2,
                            "was started from", "give another")
        with open(self.weights, "rb") as file:
            self.assertEqual(file.read(), content)
        # Where nothing is in place the run needs it to go on.
        self.begin_afresh()
        self.assert_run(self.train(model=self.copied, steps=2), 0)
        self.assert_run(run("export", "--from", self.output, "--to", self.copied), 2,
                        "was started from")
        self.assert_run(self.export(), 0)

    def test_every_placement(self):
        expected, _ = self.expected()
        for changes in ({"offload": "cpu"}, {"offload": "none", "swap": None}, {"no_commit": True},
                        {"io_engine": "threads"},
                        {"offload": "none", "swap": None, "no_commit": True},
                        {"device_memory": "5MiB", "host_memory": "5MiB"}):
            with self.subTest(**changes):
                self.begin_afresh()
                if changes.get("no_commit"):
                    changes = dict(changes, commit_every=None)
                self.assert_run(self.train(**changes), 0)
                if changes.get("no_commit"):
                    rows = [(row["step"], row["loss"]) for row in self.rows()]
                    self.assertEqual(rows, [row[:2] for row in expected["rows"]])
                else:
                    self.assertEqual(self.outcome(), expected)

    def test_estimate_has_what_train_takes_to_the_byte(self):
        flags = {"commit_every": None, "steps": 1, "no_export": True, "train_only": r"ln_f"}
        said = run("estimate", *self.flags(**flags)[1:], "--json")
        self.assertEqual(said.returncode, 0, said.stderr)
        said = json.loads(said.stdout)
        for less, code in ((1, 3), (0, 0)):
            self.begin_afresh()
            self.assert_run(self.train(**flags, host_memory=said["min_host_bytes"] - less), code)
        # Twice the state of what is trained, and nothing of the base.
        self.assertLess(said["store_bytes"], self.swap_bytes() + 4096 * 8)
        self.assertLess(said["store_bytes"], os.path.getsize(self.weights))

    def test_fp32_and_a_tensor_of_another_dtype(self):
        shapes = cli_testing.gpt2_shapes(self.config)
        self.assert_run(self.train(model=self.copied, dtype="fp32"), 0, "B in the model's files")
        in_place = self.outcome()
        self.begin_afresh()
        # One tensor of a frozen unit in bf16: that unit alone is copied.
        raw = bytearray(model_file(shapes, "F32"))
        size = int.from_bytes(raw[:8], "little")
        header, data = json.loads(raw[8:8 + size]), bytes(raw[8 + size:])
        begin, end = header["h.0.ln_1.weight"]["data_offsets"]
        other, moved = {}, bytearray()
        for name, tensor in header.items():
            first, last = tensor["data_offsets"]
            values = data[first:last]
            if name == "h.0.ln_1.weight":
                values = b"".join(values[i + 2:i + 4] for i in range(0, len(values), 4))
            other[name] = dict(tensor, dtype="BF16" if name == "h.0.ln_1.weight" else "F32",
                               data_offsets=[len(moved), len(moved) + len(values)])
            moved += values
        self.assertEqual(end - begin, 4 * 64)
        self.write("mixed-in/config.json", self.config)
        self.write("mixed-in/model.safetensors",
                   cli_testing.with_header(json.dumps(other), bytes(moved)))
        self.assert_run(self.train(model=self.path("mixed-in"), dtype="fp32"), 0,
                        "B in the model's files", "they are not fp32")
        self.assertEqual(self.outcome(), in_place)

    def test_kill_and_resume(self):
        expected, _ = self.expected()
        kills = 0
        for rows in (0, 1, 3):
            self.begin_afresh()
            process = start(*self.flags())
            self.wait_for(lambda: os.path.exists(os.path.join(self.output, "lock")), process)
            self.wait_for(lambda rows=rows: len(self.rows()) >= rows)
            process.kill()
            kills += process.wait() != 0
            self.assert_run(run(*self.flags(resume=True)), 0)
            self.assertEqual(self.outcome(), expected, f"killed after {rows} rows")
        self.assertGreater(kills, 0)

    def test_copies_of_commits(self):
        expected, _ = self.expected()
        persist = self.path("persist")
        self.assert_run(self.train(steps=6, persist=persist, keep=2), 0)
        copies = sorted(name for name in os.listdir(persist) if name.startswith("step-"))
        self.assertEqual(len(copies), 2)
        for name in copies:
            copy = os.path.join(persist, name)
            self.assertIn(self.weights, self.files_of(copy))
            self.assertLess(os.path.getsize(os.path.join(copy, "tiles")),
                            sum(extent["bytes"] for extent in self.inspect(copy)["extents"]))
        self.assertEqual(self.inspect(os.path.join(persist, copies[1]))["digest"],
                         self.inspect()["digest"])
        # The older copy is all that is left.
        self.begin_afresh()
        shutil.rmtree(os.path.join(persist, copies[1]))
        self.assert_run(self.train(steps=6, persist=persist, keep=2, resume=True), 0,
                        "resuming after step 4")
        self.assertEqual(self.inspect()["digests"], expected["digests"])
        self.assertIn(self.weights, self.files_of())

    def test_other_swap_paths_and_a_moved_model(self):
        expected, _ = self.expected()
        second, moved = self.path("second-swap"), self.path("moved-in")
        os.makedirs(second)
        for swap, model in ((second, self.model), (self.swap, moved)):
            with self.subTest(swap=swap, model=model):
                self.begin_afresh()
                stopped = start(*self.flags(commit_every=1))
                self.wait_for_rows(stopped, 1)
                stopped.terminate()
                self.assertEqual(stopped.wait(), 75)
                if model == moved:
                    shutil.move(self.model, moved)
                    self.assert_run(self.export(), 4, "is missing", "--model DIR")
                    self.assert_run(self.export("--model", moved), 0, "exported step")
                result = self.train(resume=True, model=model, swap=swap)
                self.assert_run(result, 0, "is not there any more" if model == moved else "moving")
                self.assertEqual(self.outcome(), expected)
                self.assertEqual({os.path.dirname(file) for file in self.files_of()
                                  if file.endswith(".safetensors")}, {model})

    def test_the_model_of_a_finished_run_is_moved(self):
        moved, persist = self.path("moved-in"), self.path("persist")
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.begin_afresh()
                self.assert_run(self.train(ranks=ranks, steps=2), 0)
                expected = cli_testing.digest_of(self.output, "model", "model.safetensors")
                shutil.rmtree(os.path.join(self.output, "model"))
                shutil.move(self.model, moved)
                self.assert_run(self.train(ranks=ranks, steps=2, resume=True, model=moved, persist=persist), 0,
                                "already finished at step 2")
                self.assertEqual(
                    cli_testing.digest_of(self.output, "model", "model.safetensors"), expected)
                # Its swap is lost: that copy has the commit.
                for directory in os.listdir(self.swap):
                    shutil.rmtree(os.path.join(self.swap, directory))
                copy = os.path.join(persist, "step-000000000002")
                result = self.train(ranks=ranks, steps=2, resume=True, model=moved, persist=persist)
                self.assert_run(result, 0, "tiles is missing; bring its folder back",
                                "already finished at step 2, of which " + copy)
                shutil.rmtree(persist)
                shutil.move(moved, self.model)

    def test_files_that_change(self):
        stopped = start(*self.flags(steps=60, commit_every=1))
        self.wait_for_rows(stopped, 2)
        stopped.terminate()
        self.assertEqual(stopped.wait(), 75)
        good = read_text(self.output, "manifest-rank0")
        with open(self.weights, "rb") as file:
            content = file.read()
        # The last value of a frozen tensor: the model's fingerprint does not reach it.
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8:8 + size])
        at = 8 + size + header["wte.weight"]["data_offsets"][1] - 1
        with open(self.weights, "r+b") as file:
            file.seek(at)
            file.write(bytes([content[at] ^ 1]))
        self.assert_run(self.train(steps=60, resume=True), 4, "wte.weight", self.weights,
                        "not the bytes that the run has read there before")
        self.assertEqual(read_text(self.output, "manifest-rank0"), good)
        self.assert_run(self.export(), 4, "wte.weight")
        # As it was, but shorter; not there; and whole again.
        os.truncate(self.weights, len(content) - 1)
        self.assertNotEqual(self.train(steps=60, resume=True).returncode, 0)
        os.unlink(self.weights)
        self.assert_run(self.export(), 4, self.weights, "is missing")
        self.assertEqual(self.inspect_code(), 4)
        with open(self.weights, "wb") as file:
            file.write(content)
        self.assert_run(self.train(steps=8, resume=True), 0)

    def inspect_code(self):  # it digests what is there
        return run("inspect", self.output, "--json").returncode

    def test_a_file_that_changes_under_the_run(self):
        process = self.start(self.flags(steps=100000, commit_every=1))
        self.wait_for_rows(process, 2)
        with open(self.weights, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(os.path.getsize(self.weights) // 4)
            file.write(bytes(64))
        self.assertTrue(last)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 4, said)
        self.assertIn("has changed while the run was reading it", said)
        self.assertIn(self.weights, said)

    # -- ranks -----------------------------------------------------------------------------

    def manifest(self, rank):
        folder = os.path.join(self.output, "ranks", str(rank)) if rank else self.output
        return read_text(folder, f"manifest-rank{rank}")

    def test_ranks(self):
        self.go(2, model=self.copied, dtype="bf16", accumulate=1, steps=2)
        expected = self.outcome()
        for shard in ("full", "optimizer", "none", "gradients"):
            with self.subTest(shard=shard):
                self.begin_afresh()
                self.go(2, shard=shard, dtype="bf16", accumulate=1, steps=2)
                self.assertEqual(self.outcome(), expected)
                for rank in range(2):
                    self.assertIn(self.weights, self.manifest(rank))

    def test_ranks_read_a_base_once_between_them(self):
        read = {}
        for shard in ("none", "full"):
            self.begin_afresh()
            self.go(2, shard=shard, dtype="bf16", no_commit=True, commit_every=None, train_only=r"ln_f",
                    accumulate=1)
            read[shard] = self.rows()[-1]["bytes"]["nvme_read"]
        self.assertGreater(read["none"], 2 * os.path.getsize(self.weights) * 0.8)
        self.assertAlmostEqual(read["full"] / read["none"], 0.5, delta=0.1)

    def test_other_numbers_of_ranks(self):
        outcomes = []
        for model in (self.copied, self.model):
            self.begin_afresh()
            for i, ranks in enumerate((1, 3, 2)):
                self.go(ranks, model=model, steps=i + 1, resume=i > 0, dtype="bf16")
                if model == self.model:
                    for rank in range(ranks):
                        self.assertIn(self.weights, self.manifest(rank))
            outcomes.append(self.outcome())
        self.assertEqual(*outcomes)


if __name__ == "__main__":
    cli_testing.main()
