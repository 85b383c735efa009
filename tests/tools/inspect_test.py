#!/usr/bin/env python3
"""inspect of runs, commits and models: what it says, and what it refuses."""

import json
import os
import shutil
import subprocess

import cli_testing
from cli_testing import CliTest, gpt2_shapes, parameter_count, run, safetensors


WTE = "transformer.wte.weight"  # as runs call it


class Runs(CliTest):
    def test_run_copy_and_manifest_say_the_same(self):
        persist = self.path("persist")
        self.assert_run(self.train(persist=persist, commit_every=2), 0)
        found = self.inspect()
        self.assertEqual((found["kind"], found["step"], found["finished"]), ("run", 4, True))
        self.assertEqual(found["parameters"], parameter_count(self.config))
        self.assertEqual(sum(e["bytes"] for e in found["extents"]),
                         sum(f["bytes"] for f in found["files"]))
        for file in found["files"]:
            self.assertGreaterEqual(os.path.getsize(file["file"]), file["bytes"])
        names = [name for name, _ in found["identity"]]
        self.assertIn("seed", names)
        self.assertIn("data", names)
        self.assertEqual(set(found["digests"][WTE]),
                         {"weight", "residual", "exp_avg", "exp_avg_sq"})
        self.assertEqual(self.inspect(os.path.join(self.output, "manifest-rank0")), found)
        copy = os.path.join(persist, "step-000000000004")
        self.assertEqual(self.inspect(copy)["digests"], found["digests"])
        moved = self.path("moved")
        shutil.copytree(copy, moved)
        self.assertEqual(self.inspect(moved)["digest"], found["digest"])
        self.assert_run(run("inspect", persist), 2, "copies of commits", copy)
        store = os.path.dirname(found["files"][0]["file"])
        self.assert_run(run("inspect", store), 2, "swap directory", "OUTPUT")
        said = run("inspect", self.output)
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        self.assertTrue(said.stdout.startswith(f"{self.output}: finished\n"), said.stdout)
        losses = [row["loss"] for row in self.rows()]
        for word in ("step 4 of 4, 20", f"{losses[0]:.4f} at step 1, {losses[-1]:.4f} at step 4", self.model, self.data,
                     "bf16, 1 threads, adamw", f"in {os.path.dirname(found['files'][0]['file'])}",
                     self.output + "/model", "--digests"):
            self.assertIn(word, said.stdout)
        self.assertNotIn(found["digests"][WTE]["exp_avg"][:8], said.stdout)
        self.assertTrue(run("inspect", copy).stdout.startswith(f"{copy}: a finished run\n"))
        said = run("inspect", self.output, "--digests")
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        self.assertTrue(said.stdout.startswith("Commit of step 4, finished\n"), said.stdout)
        for word in ("bf16, 1 threads", found["digest"], found["files"][0]["file"],
                     found["digests"][WTE]["exp_avg"][:8], "seed", "exp_avg_sq"):
            self.assertIn(word, said.stdout)
        manifest = os.path.join(self.output, "manifest-rank0")
        os.truncate(manifest, os.path.getsize(manifest) - 3)
        for path in (self.output, manifest):
            self.assert_run(run("inspect", path), 4, "manifest-rank0")

    def test_run_without_a_commit(self):
        self.assert_run(self.train(no_commit=True, no_export=True), 0)
        self.assert_run(run("inspect", self.output), 2, "has made no commit",
                        "--resume starts at step 1")

    def test_no_run_and_no_model(self):
        for path, words in ((self.path("missing"), ["does not exist", "manifest"]),
                            (self.swap, ["no commit and no model", "OUTPUT"]),
                            (self.data, [".bin", "safetensors"]),
                            (self.path("model-in/config.json"), [".json"])):
            for flags in ([], ["--json"]):
                result = run("inspect", path, *flags)
                self.assert_run(result, 2, path, *words)
                self.assertEqual(result.stdout, "")


class Models(CliTest):
    def test_file(self):
        shapes = gpt2_shapes(self.config)
        path = self.write("model-in/model.safetensors", safetensors(shapes))
        found = self.inspect(path)
        self.assertEqual({t["name"]: t["shape"] for t in found["tensors"]}, shapes)
        self.assertEqual(found["parameters"], parameter_count(self.config))
        self.assertEqual(found["bytes"], 4 * parameter_count(self.config))
        self.assertEqual(found["dtypes"], {"F32": found["parameters"]})
        last = found["tensors"][-1]
        self.assertEqual(last["offset"] + last["bytes"], os.path.getsize(path))
        text = run("inspect", path).stdout
        self.assertIn("F32    [64,16]              wte.weight\n", text)
        self.assertIn(f"{found['parameters']:,} elements in {len(shapes)} tensors", text)
        self.assertEqual(self.inspect(self.model)["tensors"], found["tensors"])

    def test_a_path_that_is_no_utf8(self):
        os.mkdir(os.fsencode(self.path("")) + b"a\xe9")
        path = os.fsencode(self.path("")) + b"a\xe9/m.safetensors"
        with open(path, "wb") as file:
            file.write(safetensors({"t": [4]}))
        result = subprocess.run([cli_testing.program(), "inspect", path, "--json"],
                                capture_output=True, env=cli_testing.environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(json.loads(result.stdout)["tensors"][0]["file"].endswith("/a\ufffd/m.safetensors"))

    def test_missing_and_cut_shards(self):
        """safetensors_test.cc has what else can be wrong."""
        index = {name: "one.safetensors" for name in gpt2_shapes(self.config)}
        self.write("model-in/model.safetensors.index.json", {"metadata": {}, "weight_map": index})
        shard = self.write("model-in/one.safetensors", safetensors(gpt2_shapes(self.config)))
        os.truncate(shard, os.path.getsize(shard) - 1)
        self.assert_run(run("inspect", self.model, "--json"), 4, shard, "cut short")
        os.remove(shard)
        self.assert_run(run("inspect", self.model), 2, shard, "missing")
        self.write("model-in/model.safetensors.index.json", '{"weight_map": 1}')
        self.assert_run(run("inspect", self.model), 4, "weight_map")


if __name__ == "__main__":
    cli_testing.main()
