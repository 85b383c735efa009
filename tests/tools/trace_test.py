#!/usr/bin/env python3
"""Where a step's time goes, as the program tells it: --trace, the time line and the figures at
the end name a disk that was made slow, and --max-bytes-written stops in time."""

import collections
import os
import re
import signal
import subprocess

import cli_testing
from cli_testing import CliTest, read_json, read_text, run

# What the format asks of an event, by its phase: besides ph, pid and tid.
MEMBERS = {"X": {"name", "cat", "ts", "dur", "args"}, "M": {"name", "args"},
           "C": {"name", "ts", "args"}, "i": {"name", "ts", "s"}}


def union(spans):
    """The seconds that (begin, end) pairs cover together."""
    covered, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered


class Trace:
    """A trace's events, checked against the rules of the format and sorted by track."""

    def __init__(self, test, path):
        content = read_json(path)
        self.events = content["traceEvents"]
        self.tracks, self.spans, self.counters = {}, collections.defaultdict(list), []
        for event in self.events:
            phase = event["ph"]
            test.assertIn(phase, MEMBERS)
            test.assertEqual(set(event) - {"ph", "pid", "tid"}, MEMBERS[phase], event)
            test.assertIsInstance(event["pid"], int)
            test.assertIsInstance(event["tid"], int)
            if phase == "M" and event["name"] == "thread_name":
                test.assertNotIn(event["tid"], self.tracks, "a track is named twice")
                self.tracks[event["tid"]] = event["args"]["name"]
            if phase in "XC":
                test.assertGreaterEqual(event["ts"], 0)
            if phase == "C":
                self.counters.append(event["args"]["bytes"])
        for event in self.events:
            if event["ph"] == "X":
                test.assertGreaterEqual(event["dur"], 0)
                self.spans[self.tracks[event["tid"]]].append(event)
        for track, spans in self.spans.items():
            self.check_nesting(test, track, spans)

    @staticmethod
    def check_nesting(test, track, spans):
        """Slices of a track lie in each other or apart; but for steps, apart."""
        open_ends = []
        for span in sorted(spans, key=lambda s: (s["ts"], -s["dur"])):
            begin, end = span["ts"], span["ts"] + span["dur"]
            while open_ends and open_ends[-1] <= begin + 0.0015:
                open_ends.pop()
            if open_ends:
                test.assertEqual(track, "steps", span)
                test.assertLessEqual(end, open_ends[-1] + 0.0015, (track, span))
            open_ends.append(end)

    def of(self, kind, begin=0.0, end=float("inf")):
        """(begin, end) in seconds of the slices on tracks of a kind, cut to a window."""
        found = []
        for track, spans in self.spans.items():
            if track.startswith(kind):
                for span in spans:
                    left, right = span["ts"] / 1e6, (span["ts"] + span["dur"]) / 1e6
                    found.append((max(left, begin), min(right, end)))
        return [(left, right) for left, right in found if right > left]

    def step(self, number):
        span = next(s for s in self.spans["steps"] if s["name"] == f"step {number}")
        return span["ts"] / 1e6, (span["ts"] + span["dur"]) / 1e6


class TraceTest(CliTest):
    # Large enough that a step is milliseconds of work on every resource.
    config = dict(cli_testing.TINY, n_embd=128, n_layer=4, n_head=4, vocab_size=512,
                  n_positions=64)

    def slow_disk(self, call="pread", sleep_us=20000):
        library = os.environ.get("SPILLWAY_FAIL_IO")
        if not library:
            self.skipTest("no SPILLWAY_FAIL_IO: ctest sets it")
        return {"LD_PRELOAD": library, "SPILLWAY_FAIL_CALL": call,
                "SPILLWAY_FAIL_NAME": "/tiles", "SPILLWAY_FAIL_AFTER": "1",
                "SPILLWAY_FAIL_SLEEP_US": str(sleep_us)}

    def traced(self, variables=None, code=0, **changes):
        path = self.path("trace.json")
        result = run(*self.flags(**{"trace": path, **changes}), variables=variables)
        self.assert_run(result, code)
        return result, Trace(self, path)

    def timeline(self):
        return read_json(self.output, "timeline.json")

    def written(self):
        return int(read_text(self.output, "bytes-written"))

    def test_a_trace_agrees_with_the_metrics(self):
        for update, changes in (("deferred", {}), ("immediate", {"clip": 0})):
            with self.subTest(update):
                self.output = self.path("out-" + update)
                result, trace = self.traced(steps=6, micro_batch=4, **changes)
                self.assertIn("trace of step 1 to 6", result.stderr)
                for track in ("steps", "compute", "waits of compute", "update worker 1",
                              "disk reads 1", "disk writes 1"):
                    self.assertIn(track, trace.spans)
                self.assertGreater(max(trace.counters), 0)
                self.assertEqual(trace.counters[-1], 0)
                # Every unit goes forward and back, but for the last, which does both at once.
                units = self.config["n_layer"] + 2
                self.assertEqual(len(trace.spans["compute"]), 6 * (2 * units - 1))
                self.assertEqual([s["name"] for s in trace.spans["steps"]
                                  if s["name"].startswith("step")],
                                 [f"step {step}" for step in range(1, 7)])
                for row in self.rows()[2:5]:
                    begin, end = trace.step(row["step"])
                    for resource, track in (("disk", "disk"), ("compute", "compute"),
                                            ("update", "update")):
                        self.assertGreater(union(trace.of(track, begin, end)), 0)
                        self.assertGreater(row["busy_seconds"][resource], 0)
                read = sum(s["args"]["bytes"] for t, spans in trace.spans.items()
                           if t.startswith("disk reads") for s in spans)
                self.assertEqual(read, sum(row["bytes"]["nvme_read"] for row in self.rows()))

    def test_a_slow_disk_is_named(self):
        changes = {"io_engine": "threads", "steps": 4}
        result, trace = self.traced(variables=self.slow_disk(), **changes)
        timeline = self.timeline()
        # Every read takes 20 ms or longer, whatever else the machine does.
        waits = [s for s in trace.spans["waits of compute"] if s["name"] == "wait for disk"]
        self.assertGreater(sum(row["stall_seconds"]["disk"] for row in self.rows()), 0.02)
        self.assertGreater(sum(s["dur"] for s in waits) / 1e6, 0.02)
        self.assertTrue(any("h.0" in s["args"].get("before", "") for s in waits))
        self.assertGreater(min(e - b for b, e in trace.of("disk reads")), 0.019)
        self.assertIn("disk", {stall["reason"] for stall in timeline["stalls"]})
        # Which operation waits longest is the machine's affair; each wait is before one.
        self.assertTrue(all(stall["before"] for stall in timeline["stalls"]), timeline["stalls"])
        self.assertRegex(result.stderr, r"waited     for .*the disk [\d.]+ m?s \(\d+%\)")

    def test_every_run_has_a_time_line_and_says_where_the_time_went(self):
        result = self.train(steps=5)
        self.assert_run(result, 0)
        summary = result.stderr[result.stderr.index("done: step"):]
        for line in (r"step +[\d.]+ s median", r"busy +computing \d+% of the time, disk \d+%", r"updates \d+% \(on ",
                     r"waited +", r"traffic +[\d.]+ \w+ read and [\d.]+ \w+ written each step",
                     r"wear +.* a drive lasts .* (days|years|hours)",
                     r"\(rated 3.84 TB a day for 5 years\)"):
            self.assertRegex(summary, line)
        for line in summary.splitlines():
            if "report  " not in line and "spillway clean" not in line:  # paths, and a command to copy
                self.assertLessEqual(len(line), 80, line)
        timeline = self.timeline()
        self.assertTrue(timeline["steady"])
        self.assertEqual(timeline["step"], 4)
        names = [row["name"] for row in timeline["resources"]]
        self.assertIn("disk read", names)
        self.assertIn("disk write", names)
        self.assertIn("update worker 1", names)
        page = read_text(self.output, "report.html")
        for words in ("Time line", "One step by resource", "Step 4:", "What it waited for",
                      "Traffic and wear", "the drive lasts", "written by this run",
                      ">disk read<", "forward h.0"):
            self.assertIn(words, page)
        # Made again from its files it is the same page but for the time.
        self.assert_run(run("report", self.output, "--to", self.path("again.html")), 0)
        again = read_text(self.path("again.html"))
        made = re.compile(r"Made by Spillway on .* from")
        self.assertEqual(made.sub("", again), made.sub("", page))
        self.write("out/timeline.json", '{"version": 1, "step": "x"}')
        self.assert_run(run("report", self.output), 2, "timeline.json")

    def test_a_trace_is_whole_when_the_run_is_not(self):
        path = self.path("trace.json")
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number.name):
                self.output = self.path("out-" + number.name)
                process = self.start(self.flags(steps=1000000, trace=path, trace_steps=1000000),
                                     stderr=subprocess.DEVNULL)
                self.wait_for_rows(process, 5)
                process.send_signal(number)
                self.assertEqual(process.wait(60), 75 if number == signal.SIGTERM else -9)
                self.assertGreaterEqual(len(Trace(self, path).spans["compute"]), 40)
        variables = self.slow_disk(call="pwrite", sleep_us=0)
        del variables["SPILLWAY_FAIL_SLEEP_US"]
        variables.update(SPILLWAY_FAIL_ERRNO="5", SPILLWAY_FAIL_AFTER="300")
        self.output = self.path("out-failed")
        _, trace = self.traced(variables=variables, code=1, io_engine="threads", steps=1000,
                               trace_steps=1000)
        self.assertGreater(len(trace.spans["compute"]), 5)

    def test_chosen_steps(self):
        result, trace = self.traced(steps=5, trace_steps="3-4", drive_writes_per_day="1920GB")
        self.assertIn("(rated 1.92 TB a day for 5 years)", result.stderr)
        names = [s["name"] for s in trace.spans["steps"] if s["name"].startswith("step")]
        self.assertEqual(names, ["step 3", "step 4"])

    def test_bad_flags(self):
        for changes, words in (
                ({"trace": self.dir}, ("--trace", self.dir)),
                ({"trace": ""}, ("--trace", "empty")),
                ({"trace_steps": 3}, ("--trace-steps", "--trace FILE")),
                ({"trace": self.path("t"), "trace_steps": "5-3"}, ("--trace-steps", "5-3")),
                ({"trace": self.path("t"), "trace_steps": "some"}, ("--trace-steps", "some")),
                ({"max_bytes_written": "much"}, ("--max-bytes-written", "much")),
                ({"drive_writes_per_day": "-1"}, ("--drive-writes-per-day",))):
            with self.subTest(**changes):
                self.assert_run(self.train(**changes), 2, *words)
                self.assertFalse(os.path.exists(self.path("t")))
                self.assert_nothing_left()

    def test_a_limit_of_bytes_written(self):
        self.assert_run(self.train(steps=8), 0)
        whole = self.written()
        moved = sum(row["bytes"]["nvme_written"] for row in self.rows())
        self.assertGreater(whole, moved)
        digests = self.inspect()["digests"]
        self.output = self.path("limited")
        flags = {"steps": 8, "max_bytes_written": whole * 2 // 3}
        result = self.train(**flags)
        self.assert_run(result, 75, "stopped by --max-bytes-written", "--resume")
        stopped = self.inspect()["step"]
        self.assertTrue(1 <= stopped < 8, stopped)
        self.assertIn("stopped by --max-bytes-written", read_text(self.output, "report.html"))
        self.assertLessEqual(self.written(), whole * 2 // 3)
        # The same limit again: the bytes of the first session count.
        self.assert_run(self.train(resume=True, **flags), 3, "written by this run so far",
                        "give at least")
        flags["max_bytes_written"] = whole * 2
        self.assert_run(self.train(resume=True, **flags), 0)
        self.assertEqual(self.inspect()["digests"], digests)

    def test_a_limit_too_small_for_a_step(self):
        result = self.train(max_bytes_written="100KB")
        self.assert_run(result, 3, "--max-bytes-written", "of first state", "give at least")
        self.assert_nothing_left()
        need = re.search(r"give at least (\d+MiB)", result.stderr).group(1)
        self.assert_run(self.train(max_bytes_written=need, steps=1), 0)

    def test_a_killed_process_counts_in_full(self):
        process = self.start(self.flags(steps=1000000, commit_every=3), stderr=subprocess.DEVNULL)
        self.wait_for_rows(process, 8)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = self.written()
        self.assertGreaterEqual(before, sum(r["bytes"]["nvme_written"] for r in self.rows()))
        step = self.inspect()["step"]
        self.assert_run(self.train(steps=step + 2, resume=True), 0)
        self.assertGreater(self.written(), before)


if __name__ == "__main__":
    cli_testing.main()
