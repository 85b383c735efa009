"""What the sides of a comparison share: running a process while the kernel's figures of it are read."""
import json
import os
import resource
import signal
import subprocess
import time
from dataclasses import dataclass

WARM_UP = 2  # steps at the beginning that do not count
POLL_SECONDS = 0.004
MOST_OTHERS = 0.2  # processors


class DidNotRun(Exception):
    """Why a side has no figure: one line."""


class Work:
    """The folder below which everything lies, and how runs are made."""

    def __init__(self, args):
        self.folder = os.path.abspath(args.work)
        self.program, self.python = args.program, args.python
        self.without = args.without.split(",")
        self.steps, self.timeout, self.tiny = args.steps, args.timeout, args.tiny
        if os.path.exists(self.folder) and os.listdir(self.folder):
            raise SystemExit(f"{self.folder} is not empty, and would be removed: give another --work")
        os.makedirs(self.folder, exist_ok=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)


def counted(values):
    """Without those that warm up and the last."""
    return values[WARM_UP:-1]


def one_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""


def proc_fields(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8") as file:
            return dict(line.split(":", 1) for line in file if ":" in line)
    except OSError:
        return {}


@dataclass
class Watched:
    """A process that ended."""
    exit_code: int
    log: str
    resident_bytes: int  # VmHWM
    others_cores: float  # kept busy by other processes meanwhile
    samples: list  # (bytes read, bytes written) by the process when each row of `rows` appeared


def busy_seconds():
    """Of all processors together, and of our children that ended."""
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ((user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK"),
            children.ru_utime + children.ru_stime)


def set_priorities(pid, nice):
    """Of the threads of these names. DidNotRun where there are none, or it is not allowed."""
    found = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as file:
                name = file.read().strip()
            if name in nice:
                os.setpriority(os.PRIO_PROCESS, int(thread), nice[name])
                found += 1
    except PermissionError:
        raise DidNotRun("a higher priority is for root") from None
    except OSError:  # the process, or a thread of it, has just ended
        return
    if found == 0:
        raise DidNotRun(f"no thread is called {' or '.join(nice)}")


def watch(command, log_path, timeout, rows=None, environment=None, nice=None):
    """Runs `command` to its end. `rows`: a file that grows by a line a step. `nice`: {thread's name: what
    it gets when the first row is there}; DidNotRun where there is no such thread."""
    all_before, ours_before, began = *busy_seconds(), time.monotonic()
    with open(log_path, "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                   env=dict(os.environ, **(environment or {})),
                                   start_new_session=True)
    resident, samples, size, end = 0, [], 0, time.monotonic() + timeout
    try:
        while process.poll() is None:
            resident = max(resident, int(proc_fields(process.pid, "status").get(
                "VmHWM", "0 kB").split()[0]) << 10)
            if rows and os.path.exists(rows) and os.path.getsize(rows) != size:
                size = os.path.getsize(rows)
                with open(rows, "rb") as file:
                    found = file.read().count(b"\n")
                if nice and process.poll() is None:
                    try:
                        set_priorities(process.pid, nice)
                    except DidNotRun:
                        if process.poll() is None:
                            raise
                    nice = None
                moved = proc_fields(process.pid, "io")
                if "write_bytes" in moved:
                    sample = (int(moved["read_bytes"]), int(moved["write_bytes"]))
                    samples += [sample] * (found - len(samples))
            if time.monotonic() > end:
                raise DidNotRun(f"it did not end within {timeout:g} s")
            time.sleep(POLL_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    all_after, ours_after = busy_seconds()
    others = (all_after - all_before - (ours_after - ours_before)) / (time.monotonic() - began)
    with open(log_path, encoding="utf-8", errors="replace") as log:
        return Watched(process.returncode, log.read(), resident, max(0.0, others), samples)


def others_text(watched):
    """For a line about a run that did not have the machine to itself."""
    if watched.others_cores < MOST_OTHERS:
        return ""
    return f"; others kept {watched.others_cores:.1f} processors busy"


def ended(watched):
    """How a process that gave no reason of its own ended."""
    if watched.exit_code < 0:
        return f"killed by {signal.Signals(-watched.exit_code).name}"
    last = [line for line in watched.log.splitlines() if line.strip()][-1:]
    return f"exit code {watched.exit_code}" + (f": {last[0].strip()[:300]}" if last else "")


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None
