#!/usr/bin/env python3
"""report.html: what is in it, and that a real browser draws a run of 10,000 steps in time. Without
Chromium the browser's part is skipped."""

import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import unittest
from html.parser import HTMLParser
from subprocess import DEVNULL

import cli_testing
from cli_testing import CliTest, read_rows, read_text, run

STEPS = 10000
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
               None)


def made_up_row(step, generator):
    """A row of metrics.jsonl as a run of 10,000 steps might have it, with a spike and gaps."""
    progress = step / STEPS
    compute, disk = 0.8 + 0.05 * generator.random(), 0.3 + 0.2 * generator.random() ** 4
    if 6000 < step < 6400:
        disk += 0.7
    loss = 7.5 * math.exp(-4 * progress) + 2.6 + 0.12 * generator.gauss(0, 1)
    seconds = compute + disk + 0.1
    return {
        "step": step, "loss": 14.5 if step == 4321 else None if step == 777 else loss,
        "grad_norm": abs(generator.gauss(1, 0.3)) + 8 * math.exp(-step / 200),
        "lr": 6e-4 * (step / 500 if step < 500 else 0.5 + 0.5 * math.cos(math.pi * progress)),
        "tokens": 65536, "seconds": seconds, "tokens_per_second": 65536 / seconds,
        "commit_seconds": 0.4 if step % 500 == 0 else 0, "skipped": step % 1013 == 0,
        "loss_scale": 2.0 ** (10 + step // 1013), "update": "deferred",
        "bytes": {"nvme_read": 14 << 30, "nvme_written": 12 << 30, "to_device": 0, "to_host": 0,
                  "collective": 0},
        "stall_seconds": {"disk": disk, "copy": 0, "update": 0.05, "collective": 0},
        "busy_seconds": {"disk": 1.0, "copy": 0, "update": 1.4, "collective": 0,
                         "compute": compute},
        "peak_bytes": {"device": 900 << 20, "host": 2800 << 20, "rss": 4100 << 20},
        "predicted_seconds": 1.15, "bound_seconds": 0.98, "binding_seconds": 1.02,
        "binding": {"forward": "disk read", "backward": "compute", "flush": "disk write"}}


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)


def make_long_run(output, steps=STEPS):
    """Puts the rows of a long run where a short one's were."""
    generator = random.Random(3)
    write_rows(os.path.join(output, "metrics.jsonl"),
               [made_up_row(step, generator) for step in range(1, steps + 1)])
    evaluations = []
    for step in range(0, steps + 1, 250):
        loss = 7.4 * math.exp(-4 * step / STEPS) + 2.75 + 0.4 * max(0, step / STEPS - 0.8)
        evaluations.append({"step": step, "loss": loss, "perplexity": math.exp(loss),
                            "tokens": 400000, "seconds": 21.5})
    write_rows(os.path.join(output, "eval.jsonl"), evaluations)


class Page(HTMLParser):
    """What a browser without JavaScript would find: text by section, scripts, figures."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.text, self.figures, self.scripts = [], "", [], []
        self.in_script = False
        self.source = read_text(path)
        self.feed(self.source)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if "data-chart" in attributes:
            self.figures.append(attributes["data-chart"])
        if tag in ("script", "style"):
            self.in_script = True
            if tag == "script":
                self.scripts.append((attributes, ""))

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self.in_script = False

    def handle_data(self, data):
        if self.in_script:
            if self.scripts:
                self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        else:
            self.text += data

    def data(self):
        return json.loads(next(text for attributes, text in self.scripts
                               if attributes.get("id") == "run-data"))


class ReportTest(CliTest):
    def trained(self, **changes):
        held_out = self.path("held-out.bin")
        cli_testing.write_tokens(held_out, 300, self.config["vocab_size"], seed=5)
        result = self.train(**{"eval_data": held_out, "eval_every": 2, "commit_every": 2,
                               **changes})
        self.assert_run(result, 0)
        return result

    def page(self, path=None):
        return Page(path or os.path.join(self.output, "report.html"))

    def assert_self_contained(self, page):
        for tag, attributes in page.elements:
            for name in ("src", "href", "action", "srcset"):
                self.assertNotIn(name, attributes, f"<{tag}> refers to something outside")
        self.assertNotIn("http://", page.source.replace("http://www.w3.org/2000/svg", ""))
        self.assertNotIn("https://", page.source)
        self.assertNotIn("@import", page.source)
        self.assertNotIn("url(", page.source.replace("url(#", ""))

    def test_says_what_the_run_did(self):
        result = self.trained(lr="0.004", accumulate=3)
        page = self.page()
        self.assert_self_contained(page)
        rows = read_rows(os.path.join(self.output, "metrics.jsonl"))
        evaluations = read_rows(os.path.join(self.output, "eval.jsonl"))
        program = cli_testing.read_json(self.output, "run.json")["parts"][0]
        self.assertEqual(program["command"][1:3], ["train", "--model"])
        self.assertGreater(program["cores"], 0)
        version = run("--version").stdout.split()
        self.assertIn(program["version"], version)
        for words in (os.path.basename(self.output), program["version"], program["commit"],
                      "--eval-every", "windows", "Epochs",
                      "finished", "Learning", "Speed", "Memory and storage", "Plan", "History",
                      "Configuration", f"{rows[-1]['loss']:.4f}",
                      f"{min(row['loss'] for row in evaluations):.4f}", "0.004", "--lr",
                      "3 micro-batches of 2", "exp_avg_sq", "h.0", "adamw",
                      str(cli_testing.parameter_count(self.config)),
                      self.model):
            self.assertIn(words.replace(",", ""), page.text.replace(",", ""), words)
        self.assertEqual(page.figures, ["loss", "perplexity", "lr", "grad_norm", "time",
                                        "tokens_per_second", "busy", "memory", "resident", "nvme"])
        best = None
        for row in evaluations:
            self.assertAlmostEqual(row["perplexity"], math.exp(row["loss"]), delta=1e-6)
            self.assertEqual(row["best"], best is None or row["loss"] < best["loss"])
            best = row if row["best"] else best
            self.assertEqual(row["best_step"], best["step"])
        self.assertIn(f"held out   {evaluations[-1]['loss']:.4f}, perplexity", result.stderr)
        data = page.data()
        self.assertEqual(data["steps"]["step"], [row["step"] for row in rows])
        for drawn, row in zip(data["steps"]["fields"]["loss"]["mean"], rows):
            self.assertAlmostEqual(drawn, row["loss"], places=4)
        self.assertEqual(data["evaluations"]["step"], [0, 2, 4])
        self.assertEqual(data["commits"], [2, 4])
        self.assertEqual(data["budgets"], {"device": 64 << 20, "host": 64 << 20})

    def test_to_a_link_and_to_what_is_no_file(self):
        self.trained(steps=2)
        target, link, pipe = self.path("target.html"), self.path("link.html"), self.path("pipe")
        os.symlink(target, link)
        self.assert_run(run("report", self.output, "--to", link), 2, link, "no regular file")
        self.write("target.html", "old")
        self.assert_run(run("report", self.output, "--to", link), 0)
        self.assertTrue(os.path.islink(link))
        self.assertIn("<html", read_text(target))
        os.mkfifo(pipe)
        self.assert_run(run("report", self.output, "--to", pipe), 2, pipe, "no regular file")

    def test_resumed_and_killed_runs(self):
        self.trained(steps=4)
        self.trained(steps=6, resume=True)
        page = self.page()
        self.assertEqual(page.data()["steps"]["step"], list(range(1, 7)))
        self.assertEqual(page.data()["resumed_at"], [5])
        self.assertEqual(page.data()["commits"], [2, 4, 6])
        # Killed: the last thing it wrote says "running", but nobody holds the lock.
        process = self.start(self.flags(steps=1000000, resume=True, commit_every=2), stderr=DEVNULL)
        self.wait_for_rows(process, 9)
        self.assert_run(run("report", self.output, "--to", self.path("now.html")), 0)
        now = self.page(self.path("now.html"))
        self.assertIn("running", now.text)
        self.assertIn("left: done around", now.text)
        self.assertGreaterEqual(now.data()["running"]["reload_seconds"], 3)
        process.send_signal(signal.SIGKILL)
        process.wait()
        # Where the lock is not to be had, as of an OUTPUT that is mounted read-only or that others
        # may write to, nobody knows.
        os.chmod(self.output, 0o777)
        self.assert_run(run("report", self.output, "--to", self.path("now.html")), 0)
        self.assertNotIn("ended unexpectedly", self.page(self.path("now.html")).text)
        os.chmod(self.output, 0o700)
        self.assert_run(run("report", self.output), 0)
        self.assertIn("ended unexpectedly", self.page().text)
        self.assertNotIn("reload_seconds", self.page().source.split("run-data")[1][:2000])
        process = self.start(self.flags(steps=1000000, resume=True, commit_every=2), stderr=DEVNULL)
        self.wait_for_rows(process, len(self.rows()) + 3)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 75)
        text = self.page().text
        self.assertIn("stopped by SIGTERM", text)
        self.assertIn("ended unexpectedly", text)

    def test_to_stdout(self):
        self.trained(steps=2)
        result = run("report", self.output, "--to", "-")
        self.assert_run(result, 0)
        self.assertTrue(result.stdout.startswith("<!doctype html>"))
        self.assertTrue(result.stdout.endswith("</html>\n"))
        self.assertFalse(os.path.exists("-"))

    def compared(self):
        self.trained(steps=6)
        self.trained(steps=4, lr="0.004", output=self.path("second"), eval_data=None,
                     eval_every=None, overwrite=True)
        return self.path("compare.html")

    def test_several_runs_on_one_page(self):
        path = self.compared()
        outputs = [self.output, self.path("second")]
        self.assert_run(run("report", *outputs), 2, "--out FILE.html")
        self.assert_run(run("report", *outputs, self.path("none"), "--out", path), 2, "none")
        self.assertFalse(os.path.exists(path))
        self.assert_run(run("report", *outputs, "--out", path), 0)
        page = self.page(path)
        self.assert_self_contained(page)
        self.assertEqual([one["name"] for one in page.data()["runs"]], ["out", "second"])
        self.assertEqual(page.data()["runs"][1]["steps"]["step"], [1, 2, 3, 4])
        for words in ("0.004", "eval-data", "4 of 4"):
            self.assertIn(words, page.text)
        self.assertNotIn("micro-batch", page.text)
        self.assertEqual(page.figures,
                         ["loss", "held-out", "lr", "grad_norm", "tokens_per_second"])

    def test_sample_texts_of_every_evaluation(self):
        """They change nothing that is learnt, and a resumed run keeps them as it keeps rows."""
        text = self.write("text.txt", "the cat sat on the mat. " * 100)
        prompts = self.write("prompts.txt", "the cat\nsat <b>\n")
        flags = {"data": text, "eval_data": text, "eval_every": 2, "tokenizer": "bytes",
                 "model": os.path.dirname(self.write("words/config.json",
                                                     {**self.config, "vocab_size": 256}))}
        self.assert_run(self.train(**flags), 0)
        plain = self.outcome()
        self.begin_afresh()
        samples = {"sample_prompts": prompts, "sample_tokens": 5}
        self.assert_run(self.train(**flags, **samples, steps=2), 0)
        self.assert_run(self.train(**flags, **samples, resume=True), 0)
        self.assertEqual(self.outcome(), plain)
        rows = read_rows(os.path.join(self.output, "samples.jsonl"))
        self.assertEqual([(row["step"], row["prompt"]) for row in rows],
                         [(step, prompt) for step in (0, 2, 4) for prompt in ("the cat", "sat <b>")])
        answer = run("generate", "--model", self.output, "--prompt", "the cat", "--tokens", "5",
                     "--temperature", "0", "--json", "--tokenizer", "bytes")
        self.assert_run(answer, 0)
        self.assertEqual(rows[-2]["text"], json.loads(answer.stdout)["text"])
        self.assertIn("Sample texts", self.page().text)
        self.assertIn("sat <b>", self.page().text)
        # Several ranks: the first one writes them.
        self.begin_afresh()
        self.assert_run(self.train(**flags, **samples, micro_batch=1, ranks=2), 0)
        self.assertEqual([row["prompt"] for row in
                          read_rows(os.path.join(self.output, "samples.jsonl"))][:2],
                         ["the cat", "sat <b>"])

    def test_sample_prompts_that_cannot_be_continued(self):
        prompts = self.write("prompts.txt", "the cat\n")
        self.assert_run(self.train(sample_prompts=prompts), 2, "--sample-prompts", "--eval-data")
        self.write("model-in/config.json", {**self.config, "vocab_size": 256})
        held_out = {"eval_data": self.data, "tokenizer": "bytes"}
        self.assert_run(self.train(sample_tokens=3, **held_out), 2, "--sample-prompts")
        self.assert_run(self.train(sample_prompts=self.path("none.txt"), **held_out), 2, "none.txt")
        long = self.write("long.txt", "short\n" + "x" * 15 + "\n")
        self.assert_run(self.train(sample_prompts=long, sample_tokens=4, **held_out), 2,
                        "long.txt:2", "--seq-len")

    def test_report_refuses_what_is_no_run(self):
        self.assert_run(run("report", self.path("nowhere")), 2, "nowhere", "--output")
        os.mkdir(self.output)
        self.assert_run(run("report", self.output), 2, "run.json", "no run")
        self.assertEqual(os.listdir(self.output), [])
        self.write("out/run.json", '{"version": 9}')
        self.assert_run(run("report", self.output), 2, "run.json", "version 9")
        self.write("out/run.json", "{")
        self.assert_run(run("report", self.output), 2, "run.json")

    def test_tensorboard_files(self):
        events = self.path("events/of/the/run")
        self.trained(tensorboard=events)
        name, = os.listdir(events)
        self.assertRegex(name, r"^events\.out\.tfevents\.\d{10}\.")
        with open(os.path.join(events, name), "rb") as file:
            content = file.read()
        for tag in (b"train/loss", b"train/lr", b"eval/loss", b"eval/perplexity"):
            self.assertIn(tag, content)
        shutil.rmtree(self.output)
        self.assert_run(self.train(tensorboard=self.write("file", ""), overwrite=True), 2,
                        "--tensorboard")

    def long_run(self):
        self.trained(dtype="fp16")
        make_long_run(self.output)
        self.assert_run(run("report", self.output), 0)
        return os.path.join(self.output, "report.html")

    def test_ten_thousand_steps_are_small(self):
        path = self.long_run()
        self.assertLess(os.path.getsize(path), 5 << 20)
        data = self.page().data()["steps"]
        self.assertEqual(data["rows"], STEPS)
        self.assertLessEqual(len(data["step"]), 2000)
        self.assertGreaterEqual(len(data["step"]), 1000)
        self.assertEqual(data["step"][-1], STEPS)
        # The spike of one step is still there.
        self.assertAlmostEqual(max(data["fields"]["loss"]["high"]), 14.5)
        self.assertLess(max(data["fields"]["loss"]["mean"][10:]), 14)
        self.assertIn("predicted", self.page().figures)
        self.assertIn("loss_scale", self.page().figures)

    def load(self, path, *flags):
        """What a browser without a window has drawn: the attributes of <html>, and the page
        up to its scripts."""
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   f"--user-data-dir={self.path('profile')}", "--dump-dom", *flags,
                   "file://" + path]
        result = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.assertEqual(result.returncode, 0, result.stderr)
        dom = result.stdout
        return dom[:dom.index("<head>")], dom[dom.index("<header>"):dom.index('id="run-data"')]

    def assert_drawn(self, html, page):
        self.assertNotIn("data-error", html)
        ready = re.search(r'data-ready="(\d+)"', html)
        self.assertTrue(ready, "the script did not come to its end: " + html)
        for wrong in ("NaN", "undefined", "Infinity", "[object"):
            found = page.find(wrong)
            self.assertEqual(found, -1, page[max(0, found - 200):found + 50])
        return int(ready.group(1))

    @unittest.skipUnless(BROWSER, "no Chromium here (Debian package chromium)")
    def test_a_browser_draws_it(self):
        path = self.long_run()
        for scheme, name in (("1", "light"), ("0", "dark")):
            with self.subTest(name):
                html, page = self.load(path, f"--blink-settings=preferredColorScheme={scheme}")
                drawn_ms = self.assert_drawn(html, page)
                print(f"{name}: {STEPS} steps, {os.path.getsize(path)} bytes, drawn after {drawn_ms} ms")
                self.assertNotIn("nothing to show", page)
                # Two of the loss; perplexity, rate, norm, scale and tokens/s; three resources
                # that are busy; two kinds of memory, and the process's; two of NVMe; two of the
                # prediction and its bound.
                self.assertEqual(page.count('class="curve"'), 2 + 5 + 3 + 2 + 1 + 2 + 2)
                self.assertEqual(page.count('class="curve wide"'), 1)
                # Smoothed, with what was measured behind: loss, norm and speed.
                self.assertEqual(page.count('class="curve faint"'), 3)
                self.assertEqual(page.count('class="band"'), 4)
                # Two budgets, and the norm's.
                self.assertEqual(page.count('class="limit"'), 3)
                self.assertIn("peaks beyond the axis", page)

    @unittest.skipUnless(BROWSER, "no Chromium here (Debian package chromium)")
    def test_a_browser_draws_runs_of_hardly_a_step(self):
        self.trained(steps=1, eval_data=None, eval_every=None)
        self.assert_drawn(*self.load(os.path.join(self.output, "report.html")))


    @unittest.skipUnless(BROWSER, "no Chromium here (Debian package chromium)")
    def test_a_browser_draws_runs_over_one_another(self):
        path = self.compared()
        self.assert_run(run("report", self.output, self.path("second"), "--out", path), 0)
        html, page = self.load(path)
        self.assert_drawn(html, page)
        # The second run was not evaluated.
        self.assertEqual(page.count('class="curve"'), 2 + 1 + 2 + 2 + 2)
        self.assertNotIn("nothing to show", page)


if __name__ == "__main__":
    cli_testing.main()
