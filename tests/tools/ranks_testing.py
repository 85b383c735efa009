"""What the tests of several ranks share: runs of any number of ranks with the same samples a
step, what came out of them, and a job whose ranks can be told apart."""

import json
import os
import shutil
import socket
import subprocess
import time

import cli_testing
from cli_testing import CliTest, read_text, run

# Samples a step: 1, 2, 3 and 4 ranks have equal shares of them.
SAMPLES = 12


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def children_of(pid):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(name))
    return found


def variable_of(pid, name):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
    except OSError:
        return None
    value = entries.get(name.encode())
    return value and value.decode()


def end_all(case, process, number):
    """Sends the process a signal; its code, once it has ended and its ranks, if it started any."""
    pids = children_of(process.pid)
    process.send_signal(number)
    code = process.wait(120)
    case.wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), seconds=60)
    return code


class Job:
    """A run of several ranks under way, all of its stderr in a file."""

    def __init__(self, case, words, variables=None):
        self.log = case.path("stderr")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [cli_testing.program(), *map(str, words)], stdout=subprocess.DEVNULL, stderr=log,
                env=cli_testing.environment() | (variables or {}))
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)  # its ranks die with it

    def ranks(self):
        """Process ids by rank, of those that run."""
        pids = {}
        for pid in children_of(self.process.pid):
            rank = variable_of(pid, "RANK")
            if rank is not None:
                pids[int(rank)] = pid
        return pids

    def kill(self):
        """The process that started the ranks, which die with it. Returns when all are gone."""
        pids = children_of(self.process.pid)
        self.process.kill()
        self.process.wait()
        end = time.monotonic() + 60
        while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < end:
            time.sleep(0.005)

    def result(self, timeout=600):
        code = self.process.wait(timeout)
        return subprocess.CompletedProcess([], code, "", self.said())

    def said(self):
        return read_text(self.log)


class RanksCase(CliTest):
    config = dict(cli_testing.TINY, vocab_size=256, n_embd=32, n_layer=2)
    _references = {}

    def command(self, ranks, launched=False, **changes):
        """train's words for a run of as many ranks, which a launcher starts, or it itself."""
        return self.flags(**{
            "ranks": None if launched or ranks == 1 else ranks, "micro_batch": 1,
            "accumulate": SAMPLES // ranks, "dtype": "fp32", "lr": "1e-3", "steps": 4,
            "collective_timeout": "60s", **changes})

    def go(self, ranks, code=0, **changes):
        result = run(*self.command(ranks, **changes))
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def reference(self, ranks, **changes):
        """Outcome and rows of a run that nothing happens to, made once."""
        key = (type(self).__name__, ranks, json.dumps(changes, sort_keys=True))
        if key not in RanksCase._references:
            output, swap = self.path("reference"), self.path("reference-swap")
            os.makedirs(swap)
            self.go(ranks, **{"output": output, "swap": swap, **changes})
            RanksCase._references[key] = (self.outcome(output), self.rows(output))
            shutil.rmtree(output)
            shutil.rmtree(swap)
        return RanksCase._references[key]

    def assert_rows_near(self, rows, expected, tolerance=1e-5):
        self.assertEqual([row["step"] for row in rows], [row["step"] for row in expected])
        for row, other in zip(rows, expected):
            where = f"step {row['step']}"
            self.assertEqual((row["lr"], row["tokens"]), (other["lr"], other["tokens"]), where)
            self.assertLessEqual(abs(row["loss"] / other["loss"] - 1), tolerance, where)
            self.assertLessEqual(abs(row["grad_norm"] / other["grad_norm"] - 1), 20 * tolerance,
                                 where)

    def assert_only_files_of(self, ranks):
        """Nothing of more ranks than the last commit has, in OUTPUT or on the swap path."""
        folder = os.path.join(self.output, "ranks")
        there = sorted(os.listdir(folder)) if os.path.exists(folder) else []
        self.assertEqual(there, [str(rank) for rank in range(1, ranks)])
        self.assertEqual(len(os.listdir(self.swap)), ranks, os.listdir(self.swap))

    def errors(self, result):
        """Of every rank and of the process that started them."""
        return [line.partition("error: ")[2] for line in result.stderr.splitlines()
                if "error: " in line]

    def assert_one_leading_error(self, result, code, *words):
        """One says what happened, the others that they stopped because of it."""
        self.assertEqual(result.returncode, code, result.stderr)
        leading = [error for error in self.errors(result)
                   if not error.startswith("stopped because ")]
        self.assertEqual(len(leading), 1, result.stderr)
        for word in words:
            self.assertIn(word.lower(), leading[0].lower(), result.stderr)

    def wait_for_rows(self, process, count):
        super().wait_for_rows(getattr(process, "process", process), count)

    def wait_until_ended(self, job, ranks, seconds):
        """Until these ranks have ended, while others may still be there."""
        end = time.monotonic() + seconds
        while set(job.ranks()) & set(ranks):
            if time.monotonic() > end:
                self.fail(f"ranks {sorted(set(job.ranks()) & set(ranks))} still run")
            time.sleep(0.02)
