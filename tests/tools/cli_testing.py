"""What the tests of the program share: a tiny GPT-2 made on the fly, and ways to run it."""

import array
import ctypes
import errno
import hashlib
import json
import os
import pwd
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

TINY = {"model_type": "gpt2", "vocab_size": 64, "n_positions": 16, "n_embd": 16, "n_layer": 1,
        "n_head": 2, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}

SKIPPED = 77  # the exit code of a program all of whose cases were skipped

_program = os.environ.get("SPILLWAY", "")


def program():
    return _program


def use_program(path):
    global _program
    _program = os.path.abspath(path)


def environment():
    # Disks are measured only where a test is about that: it takes time, and moves bytes.
    env = dict(os.environ, OMP_WAIT_POLICY="PASSIVE", SPILLWAY_PROFILE="off")
    # A launcher's, where the tests themselves run under one.
    for name in list(env):
        if name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") or name.startswith(("OMPI_", "PMI_", "SLURM_")):
            del env[name]
    return env


def run(*args, timeout=600, variables=None, **kwargs):
    """Runs the program to its end; stdout and stderr as text."""
    return subprocess.run([_program, *map(str, args)], capture_output=True, text=True,
                          errors="replace", timeout=timeout,
                          env=environment() | (variables or {}), **kwargs)


def start(*args, variables=None, stderr=subprocess.DEVNULL, **kwargs):
    return subprocess.Popen([_program, *map(str, args)], stdout=subprocess.DEVNULL,
                            stderr=stderr, env=environment() | (variables or {}), **kwargs)


class Measured:
    """How a process ended: its exit code, what it said, its peak resident bytes (VmHWM) and the
    seconds of processors that it took."""

    def __init__(self, process, status, usage, log):
        process.returncode = self.code = os.waitstatus_to_exitcode(status)
        self.peak = usage.ru_maxrss * 1024
        self.seconds = usage.ru_utime + usage.ru_stime
        self.said = read_text(log)


def in_another_process(make):
    """What make() returns, as JSON has it, from a process of its own: a child's peak begins with the
    size of the one that started it, which must stay small."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with open(writing, "w", encoding="utf-8") as out:
                json.dump(make(), out)
            code = 0
        except BaseException:  # whatever it was, this process is not to go on with the tests
            traceback.print_exc()
        os._exit(code)
    os.close(writing)
    with open(reading, encoding="utf-8") as made:
        text = made.read()
    if os.waitpid(child, 0)[1] != 0:
        raise RuntimeError("what was to be made was not; the lines above say why")
    return json.loads(text)


def run_measured(words, log, patience=1200):
    """Runs the program to its end, its stderr in a file, and kills it when it hangs."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if own > 100 << 10:
        raise RuntimeError(f"this process has had {own >> 10} MiB, which would count as the program's")
    with open(log, "wb") as said:
        process = subprocess.Popen([_program, *map(str, words)], stdout=subprocess.DEVNULL,
                                   stderr=said, env=environment())
    end = time.monotonic() + patience
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            return Measured(process, status, usage, log)
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.01)


def bytes_of(pid, kind):
    """What the kernel counted for a process: "read_bytes", "write_bytes", "rchar"."""
    return int(dict(line.split(": ") for line in read_text(f"/proc/{pid}/io").splitlines())[kind])


def counts_bytes(folder):
    """Whether the kernel counts what is written there: not on tmpfs."""
    before, path = bytes_of("self", "write_bytes"), os.path.join(folder, ".counted")
    with open(path, "wb") as file:
        file.write(bytes(1 << 16))
        file.flush()
        os.fsync(file.fileno())
    os.unlink(path)
    return bytes_of("self", "write_bytes") > before


def gpt2_shapes(config):
    width, inner = config["n_embd"], 4 * config["n_embd"]
    shapes = {"wte.weight": [config["vocab_size"], width],
              "wpe.weight": [config["n_positions"], width]}
    for layer in range(config["n_layer"]):
        h = f"h.{layer}."
        shapes.update({h + "ln_1.weight": [width], h + "ln_1.bias": [width],
                       h + "attn.c_attn.weight": [width, 3 * width],
                       h + "attn.c_attn.bias": [3 * width],
                       h + "attn.c_proj.weight": [width, width], h + "attn.c_proj.bias": [width],
                       h + "ln_2.weight": [width], h + "ln_2.bias": [width],
                       h + "mlp.c_fc.weight": [width, inner], h + "mlp.c_fc.bias": [inner],
                       h + "mlp.c_proj.weight": [inner, width], h + "mlp.c_proj.bias": [width]})
    shapes.update({"ln_f.weight": [width], "ln_f.bias": [width]})
    return shapes


def parameter_count(config):
    total = 0
    for shape in gpt2_shapes(config).values():
        size = 1
        for n in shape:
            size *= n
        total += size
    return total


def safetensors(shapes, value=None):
    """The bytes of a whole file of fp32 tensors, small random values from a fixed seed."""
    generator = random.Random(7)
    header, data = {}, bytearray()
    for name, shape in shapes.items():
        size = 1
        for n in shape:
            size *= n
        begin = len(data)
        data += (array.array("f", (generator.gauss(0, 0.02) for _ in range(size))) if value is None
                 else array.array("f", [value]) * size).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    return with_header(json.dumps(header), bytes(data))


def with_header(text, data=b""):
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw + data


def write_tokens(path, count, vocabulary, seed=1):
    generator = random.Random(seed)
    with open(path, "wb") as out:
        array.array("H", (generator.randrange(vocabulary) for _ in range(count))).tofile(out)


def read_text(*parts):
    with open(os.path.join(*parts), encoding="utf-8", errors="replace") as file:
        return file.read()


def read_json(*parts):
    return json.loads(read_text(*parts))


def read_rows(path):
    """Of a file of one object a line those that are whole: the last may be on its way."""
    return [json.loads(line) for line in read_text(path).splitlines(keepends=True)
            if line.endswith("\n")]


def digest_of(*parts):
    with open(os.path.join(*parts), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def edit_tuning(profile, change):
    """Applies change(entry) to the one tuning of the one machine in a profile, which it returns."""
    found = read_json(profile)
    (machine,) = found["machines"].values()
    (entry,) = machine["tuned"].values()
    change(entry)
    with open(profile, "w", encoding="utf-8") as file:
        json.dump(found, file)
    return found


def refuse_io_uring():
    """A seccomp filter as container runtimes have it: the calls of io_uring are EPERM."""
    def statement(code, value, if_true=0, if_false=0):
        return struct.pack("HBBI", code, if_true, if_false, value)
    rules = [statement(0x20, 0)]  # load the call's number
    rules += [statement(0x15, number, 3 - i) for i, number in enumerate((425, 426, 427))]
    rules += [statement(0x06, 0x7fff0000), statement(0x06, 0x00050000 | errno.EPERM)]
    code = ctypes.create_string_buffer(b"".join(rules))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    program = Program(len(rules), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        os._exit(99)


class CliTest(unittest.TestCase):
    """Each case has a folder of its own, with a tiny model, data and a swap parent in it."""

    config = TINY
    _tuning = None

    def setUp(self):
        # Where the test was started, because /tmp may be a tmpfs.
        base = os.environ.get("SPILLWAY_TEST_DIR") or os.getcwd()
        self.dir = tempfile.mkdtemp(prefix="spillway-cli-", dir=base)
        os.chmod(self.dir, 0o755)
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.model = self.path("model-in")
        self.data = self.path("data.bin")
        self.output = self.path("out")
        self.swap = self.path("swap")
        os.mkdir(self.swap)
        self.write("model-in/config.json", self.config)
        write_tokens(self.data, 2000, self.config["vocab_size"])

    def ordinary_user(self, *readable):
        """Flags of subprocess for a process of the user `nobody`; of this process's own user, where that
        is an ordinary one. Skips the case where that user can't start the program where it lies (a
        clone in root's home) or read what is named."""
        if os.geteuid() != 0:
            return {}
        try:
            user = pwd.getpwnam("nobody")
        except KeyError:
            self.skipTest("there is no user nobody")
        flags = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        for words in ([program(), "--version"], *(["test", "-r", path] for path in readable)):
            try:
                able = subprocess.run(words, capture_output=True, env=environment(), cwd="/", check=False,
                                      **flags).returncode == 0
            except PermissionError:
                able = False
            if not able:
                self.skipTest(f"an ordinary user can't do that here: {' '.join(words)}")
        return flags

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, content):
        """A file below the case's folder, or where an absolute path says: text, bytes, or JSON of
        anything else."""
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content)
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as out:
            out.write(content.encode() if isinstance(content, str) else content)
        return self.path(name)

    def flags(self, **changes):
        """train's flags as a dict; None leaves one out, True is a flag without value."""
        flags = {"model": self.model, "data": self.data, "output": self.output,
                 "swap": self.swap, "offload": "nvme", "device-memory": "64MiB",
                 "host-memory": "64MiB", "threads": 1, "steps": 4, "micro-batch": 2,
                 "seq-len": min(16, self.config["n_positions"])}
        flags.update({key.replace("_", "-"): value for key, value in changes.items()})
        words = ["train"]
        for name, value in flags.items():
            if value is None or value is False:
                continue
            words.append("--" + name.replace("_", "-"))
            if value is not True:
                words += value if isinstance(value, list) else [value]
        return words

    def train(self, **changes):
        return run(*self.flags(**changes))

    def start(self, words, program_=None, **kwargs):
        """The program under way with what it says in a pipe; it ends with the case at the latest."""
        process = subprocess.Popen([program_ or _program, *map(str, words)], text=True,
                                   **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE,
                                      "env": environment(), **kwargs})
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                self.addCleanup(pipe.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def keep_tuning(self, profile, **values):
        """Puts a tuning of the disk below the swap path into a profile, with these of its values
        given; it is measured once, since a tuning is of a device and not of a folder."""
        if CliTest._tuning is None:
            self.assert_run(run("tune", "--swap", self.swap, "--quick", "--seconds", "1", "--size",
                                "8MiB", variables={"SPILLWAY_PROFILE": profile}), 0)
            CliTest._tuning = read_text(profile)
        self.write(profile, CliTest._tuning)
        edit_tuning(profile, lambda entry: entry.update(values))

    def rows(self, output=None):
        path = os.path.join(output or self.output, "metrics.jsonl")
        return read_rows(path) if os.path.exists(path) else []

    def wait_for_rows(self, process, count):
        self.wait_for(lambda: len(self.rows()) >= count, process)

    def outcome(self, output=None, columns=("step", "loss", "lr", "tokens", "loss_scale")):
        """All that the bits of a run decide."""
        output = output or self.output
        found = self.inspect(output)
        outcome = {"step": found["step"], "digests": found["digests"],
                   "rows": [tuple(row.get(name) for name in columns) for row in self.rows(output)]}
        if os.path.exists(os.path.join(output, "model", "model.safetensors")):
            outcome["exported"] = digest_of(output, "model", "model.safetensors")
        return outcome

    def begin_afresh(self):
        """Without OUTPUT, and nothing on the swap paths."""
        shutil.rmtree(self.output, ignore_errors=True)
        for parent in (self.swap, self.path("second-swap")):
            for name in os.listdir(parent) if os.path.exists(parent) else ():
                shutil.rmtree(os.path.join(parent, name))

    def assert_run(self, result, code, *words):
        text = result.stderr + result.stdout
        self.assertEqual(result.returncode, code, text)
        for word in words:
            self.assertIn(word.lower(), text.lower())

    def assert_nothing_left(self, output=None):
        output = output or self.output
        self.assertFalse(os.path.exists(output) and os.listdir(output),
                         f"left in {output}")
        self.assertEqual(os.listdir(self.swap), [], "left on the swap path")
        left = [name for name in os.listdir(self.dir) if "tokens" in name or ".tmp" in name]
        self.assertEqual(left, [], "temporary files left beside OUTPUT")

    def inspect(self, path=None):
        result = run("inspect", path or self.output, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def wait_for(self, condition, process=None, seconds=600):
        end = time.monotonic() + seconds
        while not condition():
            if process is not None and process.poll() is not None:
                self.fail(f"the program ended early, with {process.returncode}")
            if time.monotonic() > end:
                self.fail("waited too long")
            time.sleep(0.005)


class OneCoreTest(CliTest):
    """Threads of several cores take twice the time, where others want the cores too, and show no more."""

    def setUp(self):
        super().setUp()
        cores = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})


def main():
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and os.path.exists(sys.argv[1]):
        use_program(sys.argv.pop(1))
    if not _program:
        sys.exit("usage: TEST.py path/to/spillway [unittest's flags] (or SPILLWAY=...)")
    # What begins in the background of a script begins with Control-C ignored, and so would a Python
    # that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    result = unittest.main(module="__main__", exit=False).result
    # As GoogleTest says it, for tools/test to count.
    for case, reason in result.skipped:
        name = case.id().split()[0].replace("__main__", os.path.basename(sys.argv[0])[:-3])
        print(f"[  SKIPPED ] {name}: {' '.join(reason.split())}")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.testsRun == len(result.skipped) else 0)
