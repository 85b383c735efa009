#!/usr/bin/env python3
"""What the program shows while it works: on terminals of several widths, in a log file, and with --quiet."""

import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import unittest

import cli_testing
from cli_testing import CliTest, read_json, run

ESCAPE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


class Screen:
    """Rows of characters, as a terminal of so many columns has them; what scrolls away stays."""

    def __init__(self, columns):
        self.columns = columns
        self.rows, self.column = [""], 0
        self.wrapped = []     # rows that went on in the next one
        self.redraws = 0      # of a line that stood there
        self.styles = set()   # of escape sequences for colours
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def feed(self, data):
        text = self._rest + self._decode(data)
        # The beginning of a sequence whose end is still to come.
        self._rest = text[text.rindex("\x1b"):] if re.search(r"\x1b(\[[0-9;]*)?$", text) else ""
        text = text[:len(text) - len(self._rest)]
        at = 0
        while at < len(text):
            sequence = ESCAPE.match(text, at)
            if sequence:
                self._command(*sequence.groups())
                at = sequence.end()
                continue
            self._put(text[at])
            at += 1

    def _command(self, numbers, letter):
        if letter == "m":
            self.styles.add(numbers)
        elif letter == "K":
            self.rows[-1] = self.rows[-1][:self.column]
        else:
            raise AssertionError(f"a sequence that nobody expects: {numbers}{letter}")

    def _put(self, character):
        if character == "\n":
            self.rows.append("")
        elif character == "\r":
            self.redraws += self.column > 0
            self.column = 0
        else:
            if self.column == self.columns:
                self.wrapped.append(self.rows[-1])
                self.rows.append("")
                self.column = 0
            row = self.rows[-1]
            self.rows[-1] = row[:self.column] + character + row[self.column + 1:]
            self.column += 1


class TerminalTest(CliTest):
    def start_on_terminal(self, words, columns, **variables):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        self.resize(master, columns)
        env = {name: value for name, value in cli_testing.environment().items()
               if name not in ("COLUMNS", "NO_COLOR")}
        process = self.start(words, stderr=slave, cwd=self.dir, env=env | {"TERM": "xterm"} | variables)
        os.close(slave)
        return process, master

    @staticmethod
    def resize(master, columns):
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    @staticmethod
    def read(master):
        """What has come; empty at the end."""
        try:
            return os.read(master, 1 << 16)
        except OSError:  # EIO: the other side is closed
            return b""

    def show(self, words, columns, **variables):
        """The screen after a run that ended well."""
        process, master = self.start_on_terminal(words, columns, **variables)
        screen = Screen(columns)
        while data := self.read(master):
            screen.feed(data)
        self.assertEqual(process.wait(), 0, "\n".join(screen.rows))
        return screen

    def words(self, **changes):
        # Paths that a line of 40 columns has room for.
        return self.flags(**{"model": "model-in", "data": "data.bin", "output": "out", "swap": "swap",
                             "offload": "none", "steps": 160, "micro_batch": 16, "eval_data": "data.bin",
                             "eval_every": 80, "no_commit": True, "no_export": True, "overwrite": True,
                             **changes})

    def check(self, screen):
        text = "\n".join(screen.rows)
        self.assertEqual(screen.wrapped, [], text)
        self.assertGreater(screen.redraws, 5, "nothing was drawn again: there was nothing to see")
        # What was drawn again left one line each: of the steps the last, but for what an evaluation
        # has drawn below those before it.
        steps = [row for row in screen.rows if re.match(r"step \d+/160", row)]
        self.assertEqual(len(steps), 1, text)
        self.assertRegex(steps[0], r"step 160/160 .*loss \d+\.\d{4}.*  took ")
        self.assertLessEqual(sum(row.startswith("writing the initial state") for row in screen.rows), 1)
        # Lines of the log are whole, above it.
        for step in (80, 160):
            self.assertEqual(sum(row.startswith(f"step {step}: held-out loss") for row in screen.rows), 1)
        self.assertTrue(any(row.startswith("done: step 160 in") for row in screen.rows))
        return steps[0]

    def test_80_columns(self):
        screen = self.show(self.words(), 80)
        line = self.check(screen)
        self.assertRegex(line, r"step 160/160 \[#{5,30}\]  loss .*  lr 5e-5 .* tok/s  took \d+s$")
        self.assertIn("2", screen.styles)  # labels
        plan = next(number for number, row in enumerate(screen.rows) if row.startswith("plan: "))
        # The disk is not measured in tests, and so there is no forecast.
        self.assertEqual([row.split()[0] for row in screen.rows[plan + 1:plan + 5]],
                         ["state", "traffic", "budgets", "commits"])
        self.assertFalse(screen.rows[plan + 5].startswith(" "), screen.rows[plan + 5])

    def test_40_columns_without_colours(self):
        screen = self.show(self.words(), 40, NO_COLOR="1")
        line = self.check(screen)
        self.assertNotIn("norm", line)
        self.assertEqual(screen.styles, set())

    def test_200_columns(self):
        line = self.check(self.show(self.words(), 200, NO_COLOR=""))
        # 160 x 16 samples of 16 tokens, of 2000 tokens.
        self.assertRegex(line, r"\[#{30}\]  loss .*  lr 5e-5  norm [\d.]+  epoch 20\.\d+/20\.\d+  [\d.]+k? tok/s")

    def test_a_terminal_that_is_resized(self):
        process, master = self.start_on_terminal(self.words(eval_every=None, eval_data=None, steps=400), 120)
        screen = Screen(120)
        while not any(row.startswith("step ") for row in screen.rows):
            data = self.read(master)
            self.assertTrue(data, "\n".join(screen.rows))
            screen.feed(data)
        process.send_signal(signal.SIGSTOP)
        while select.select([master], [], [], 0.2)[0]:
            screen.feed(self.read(master))
        # Only the line that the stop may have caught on its way is of the old width.
        self.resize(master, 60)
        lines = b""
        process.send_signal(signal.SIGCONT)
        while data := self.read(master):
            lines += data
        self.assertEqual(process.wait(), 0, lines)
        drawn = [ESCAPE.sub("", line) for line in lines.decode().replace("\n", "\r").split("\r")]
        drawn = [line for line in drawn if re.match(r"step \d+/400", line)]
        self.assertGreater(len(drawn), 1, "nothing was drawn after the resize")
        self.assertLessEqual(sum(len(line) >= 60 for line in drawn), 1, drawn)
        self.assertEqual(screen.wrapped, [])

    def test_an_error_is_red_and_whole(self):
        process, master = self.start_on_terminal(["train", "--data", "x" * 100 + ".txt"], 40)
        said = b""
        while data := self.read(master):
            said += data
        self.assertEqual(process.wait(), 2)
        self.assertIn(b"\x1b[31mspillway: error: \x1b[0m", said)
        self.assertEqual(said.count(b"\n"), 1 + said.count(b"\r\n\x1b"))

    def test_a_log_file_and_a_dumb_terminal(self):
        result = run(*self.words(steps=20, eval_every=None), cwd=self.dir)
        self.assert_run(result, 0)
        process, master = self.start_on_terminal(self.words(steps=20, eval_every=None), 40, TERM="dumb")
        dumb = b""
        while data := self.read(master):
            dumb += data
        self.assertEqual(process.wait(), 0)
        for said in (result.stderr, dumb.decode().replace("\r\n", "\n")):
            self.assertNotRegex(said, "[\r\x1b]")
            steps = [line for line in said.splitlines() if line.startswith("step ") and "/" in line]
            # The first and the last, and in between one each five seconds.
            self.assertRegex(steps[0], r"^step 1/20  loss [\d.]+  lr 5e-5  norm [\d.]+  epoch 0\.13/2\.56  "
                                       r"[\d.]+k? tok/s$")
            self.assertRegex(steps[-1], r"^step 20/20 .*  took \d+s$")
            for line in said.splitlines():
                if line.startswith(("  ", "plan")):
                    self.assertLessEqual(len(line), 80)

    def test_the_plan_explained(self):
        result = run(*self.words(steps=1, explain=True, offload="nvme", eval_data=None, eval_every=None), cwd=self.dir)
        self.assert_run(result, 0, "the plan, line by line")
        summary = read_json(self.output, "run.json")["plan_summary"]
        lines = result.stderr.splitlines()
        for row in summary.splitlines():
            if re.match(r"  \w", row):
                at = next(number for number, line in enumerate(lines) if line.startswith(row[:60]))
                self.assertRegex("\n".join(lines[at + 1:at + 4]), r"(?m)^ {13}[A-Z][a-z]+.*\w")
        self.assertEqual(read_json(self.output, "config.resolved.json")["explain"],
                         {"value": True, "source": "--explain"})
        estimate = run("estimate", "--model", self.model, "--explain", "-q")
        self.assert_run(estimate, 0, "the plan, line by line", "What the optimizer keeps")
        self.assertEqual(estimate.stderr, "")

    def test_quiet(self):
        self.write("texts.txt", "the cat sat on the mat. " * 40)
        words = self.words(data="texts.txt", tokenizer="chars", eval_data=None, eval_every=None, steps=2,
                           no_commit=None, no_export=None)
        trained = run(*words, "-q", cwd=self.dir)
        self.assert_run(trained, 0)
        lines = trained.stderr.splitlines()
        self.assertRegex(lines[0], r"^exported to out/model ")
        self.assertRegex(lines[1], r"^done: step 2 in ")
        self.assertRegex(trained.stderr, r"(?m)^  report     out/report.html$")
        self.assertRegex(lines[-1], r"^state .* stays in .*; free it: spillway clean --output out --remove$")
        for word in ("plan", "step 1/", "writing the initial", "no weights in"):
            self.assertNotIn(word, trained.stderr)
        exported = run("export", "--from", self.output, "--to", self.path("copy"), "--quiet")
        self.assertEqual((exported.returncode, exported.stderr.count("\n")), (0, 1), exported.stderr)
        generated = run("generate", "--model", self.output, "--prompt", "the ", "--tokens", "2", "--quiet")
        self.assertEqual((generated.returncode, generated.stderr), (0, ""))
        self.assertTrue(generated.stdout)
        self.write("prompts.jsonl", json.dumps({"prompt": "the "}) + "\n")
        predicted = run("predict", "-q", "--model", self.output, "--data", self.path("prompts.jsonl"),
                        "--out", self.path("answers.jsonl"), "--tokens", "2")
        self.assertRegex(predicted.stderr, r"^.*answers\.jsonl: 1 answers; .*\n$")
        tokenized = run("tokenize", "-q", "--tokenizer", "bytes", "--data", self.path("texts.txt"),
                        "--out", self.path("tokens.bin"))
        self.assertEqual((tokenized.returncode, tokenized.stderr), (0, ""))
        # What is wrong is said all the same, wherever the flag stands.
        wrong = run("--quiet", "tokenize", "--tokenizer", "chars", "--data", self.path("texts.txt"),
                    "--out", self.path("tokens.bin"))
        self.assert_run(wrong, 0, "spillway: warning: ")


if __name__ == "__main__":
    cli_testing.main()
