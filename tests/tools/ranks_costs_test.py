#!/usr/bin/env python3
"""What docs/DISTRIBUTED.md says that a rank costs, against what the kernel counts: bytes that
leave its network namespace, its peak memory, its files on the swap path, and what it reads of the
model's. Four ranks, for all but the last each on a machine of its own as far as the network can
tell; skipped where such can't be made (not root, no `ip`, a container without leave)."""

import json
import os
import subprocess

import cli_testing
from cli_testing import (CliTest, bytes_of, gpt2_shapes, parameter_count, read_text, safetensors,
                         write_tokens)
from ranks_testing import Job, RanksCase

RANKS = 4
PORT = "29517"  # of namespaces that are new for each case: nobody else is there
# Of each rank, and of what leaves it. Headers of packets are a thousandth: see MTU.
WITHIN = 0.03
MTU = "65000"

# name -> (flags, ranks in a shard group). "full" is hybrid's exchanges and shares in one group.
MODES = {"none": ([], 1), "optimizer": ([], RANKS), "hybrid": (["--shard-group-size", "2"], 2)}


def ip(*words, check=True):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


def sent_of_weights(mode, p, g):
    """Bytes a rank sends a step, in bf16."""
    if mode == "none":
        return 0
    gathers = 1 if mode == "optimizer" else 2
    return gathers * 2 * p * (g - 1) / g


def sent_of_gradients(mode, p, g):
    if mode == "none":
        return 8 * p * (RANKS - 1) / RANKS
    copies = RANKS // g
    return 4 * p * (g - 1) / g + 8 * p / g * (copies - 1) / copies


def allocated(folder):
    """Bytes that the files below take on the disk."""
    return sum(512 * os.lstat(os.path.join(where, name)).st_blocks
               for where, _, names in os.walk(folder) for name in names)


class RanksCostsTest(CliTest):
    def setUp(self):
        super().setUp()
        tag = os.getpid() % 100000
        self.hosts = [f"spillway-{os.getpid()}-{rank}" for rank in range(RANKS)]
        bridge = f"sb{tag}"
        try:
            ip("link", "add", bridge, "mtu", MTU, "type", "bridge")
            self.addCleanup(ip, "link", "del", bridge, check=False)
            ip("link", "set", bridge, "up")
            for rank, host in enumerate(self.hosts):
                ip("netns", "add", host)
                self.addCleanup(ip, "netns", "del", host, check=False)
                outer = f"s{rank}-{tag}"
                ip("link", "add", outer, "mtu", MTU, "type", "veth",
                   "peer", "name", "net", "mtu", MTU, "netns", host)
                ip("link", "set", outer, "master", bridge, "up")
                ip("-n", host, "addr", "add", f"10.213.78.{rank + 1}/24", "dev", "net")
                ip("-n", host, "link", "set", "net", "up")
                ip("-n", host, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no network namespaces here: {error}")

    def model_of(self, layers, width):
        """Its folder, and its parameters."""
        shape = dict(cli_testing.TINY, vocab_size=128, n_positions=16, n_embd=width, n_head=8,
                     n_layer=layers)
        folder = self.path(f"model-{layers}-{width}")
        self.write(f"model-{layers}-{width}/config.json", shape)
        write_tokens(self.data, 2000, 128)
        return folder, parameter_count(shape)

    def sent_bytes(self, host):
        text = ip("-n", host, "-s", "-j", "link", "show", "net").stdout
        return json.loads(text)[0]["stats64"]["tx"]["bytes"]

    def run_ranks(self, mode, **changes):
        """Of each rank: bytes sent and peak memory."""
        before = [self.sent_bytes(host) for host in self.hosts]
        words = self.flags(**{"swap": self.path("swap-{rank}"), "threads": 1, "dtype": "bf16",
                              "micro_batch": 1, "seq_len": 4, "shard": mode, "no_export": True,
                              "collective_timeout": "60s", **changes})
        processes = []
        for rank, host in enumerate(self.hosts):
            variables = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
                         "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "10.213.78.1",
                         "MASTER_PORT": PORT}
            os.makedirs(self.path(f"swap-{rank}"), exist_ok=True)
            with open(self.path(f"said-{rank}"), "wb") as said:
                processes.append(subprocess.Popen(
                    ["ip", "netns", "exec", host, cli_testing.program(),
                     *map(str, words + MODES[mode][0])], stdout=subprocess.DEVNULL, stderr=said,
                    env=cli_testing.environment() | variables))
            self.addCleanup(processes[-1].kill)
        peaks = []
        for rank, process in enumerate(processes):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0, read_text(self.path(f"said-{rank}")))
            peaks.append(usage.ru_maxrss * 1024)
        after = [self.sent_bytes(host) for host in self.hosts]
        return [b - a for a, b in zip(before, after)], peaks

    def assert_near(self, found, expected, padding, what):
        self.assertGreater(found, expected * (1 - WITHIN), what)
        self.assertLess(found, (expected + padding) * (1 + WITHIN), what)

    def test_bytes_sent_and_files(self):
        layers, width = 8, 192
        model, p = self.model_of(layers, width)
        padding = 2048 * RANKS * (layers + 2)  # parameters, of all units
        for mode, (_, group) in MODES.items():
            # What a step sends is what more steps send more.
            sent, files = {}, {}
            for steps in (1, 3):
                before = [allocated(self.path(f"swap-{rank}")) for rank in range(RANKS)]
                sent[steps], _ = self.run_ranks(mode, model=model, steps=steps,
                                                output=self.path(f"{mode}-{steps}"))
                files[steps] = [allocated(self.path(f"swap-{rank}")) - before[rank]
                                for rank in range(RANKS)]
            expected, most = (sent_of_weights(mode, n, group) + sent_of_gradients(mode, n, group)
                              for n in (p, p + padding))
            for rank in range(RANKS):
                found = (sent[3][rank] - sent[1][rank]) / 2
                print(f"{mode:10} rank {rank}: {found / 1e6:.2f} MB sent a step, "
                      f"{expected / 1e6:.2f} by the formula")
                with self.subTest(mode=mode, rank=rank):
                    self.assert_near(found, expected, most - expected, "sent")
                    # The state and, until the next commit, what it was.
                    for taken in (files[1][rank], files[3][rank]):
                        self.assert_near(taken, 2 * 12 * p / group, 2 * 12 * padding / group,
                                         "files")

    def test_memory(self):
        # Layers that are large beside what each has in activations and autograd's records.
        width, layers = 640, (3, 5)
        small, p_small = self.model_of(layers[0], width)
        large, p_large = self.model_of(layers[1], width)
        more = p_large - p_small
        padding = (layers[1] - layers[0]) * 2048 * RANKS
        for mode, (_, group) in MODES.items():
            peaks = {}
            for name, model in (("small", small), ("large", large)):
                _, peaks[name] = self.run_ranks(
                    mode, model=model, steps=1, offload="cpu", device_memory="1GiB",
                    host_memory="2GiB", swap=None, no_commit=True,
                    output=self.path(f"{mode}-{name}"))
            # Activations of more layers are kilobytes here; whole units are the same, but where
            # weights stay from the forward to the backward.
            stays = 2 if mode == "optimizer" else 0
            expected, most = (14 * n / group + stays * n for n in (more, more + padding))
            found = [large - small for large, small in zip(peaks["large"], peaks["small"])]
            each = ", ".join(f"{bytes / 1e6:.1f}" for bytes in found)
            print(f"{mode:10} {each} MB for {more} parameters more, {expected / 1e6:.1f} by the formula")
            with self.subTest(mode=mode):
                # What a thread's allocator happens to keep is some MB of one process.
                self.assert_near(sum(found) / RANKS, expected, most - expected, "memory")
                for rank in range(RANKS):
                    self.assertLess(abs(found[rank] - expected), most - expected + 0.1 * expected, f"rank {rank}")


class RanksReadTest(RanksCase):
    config = dict(cli_testing.TINY, vocab_size=256, n_positions=32, n_embd=256, n_layer=6, n_head=4)

    def read_bytes(self, mode):
        """By each rank until it trains: all that it asked the kernel for."""
        self.begin_afresh()
        flags = {"shard-group-size": 2} if mode == "hybrid" else {}
        job = Job(self, self.command(RANKS, steps=1000000, shard=mode, offload="cpu", swap=None,
                                     device_memory="512MiB", host_memory="512MiB", **flags))
        self.wait_for_rows(job, 1)
        found = [bytes_of(pid, "rchar") for _, pid in sorted(job.ranks().items())]
        job.kill()
        return found

    def test_every_byte_of_the_model_is_read_by_one_rank(self):
        without = self.read_bytes("full")
        shapes = gpt2_shapes(self.config)
        weights = safetensors(shapes, value=0.02)
        size = len(weights)
        self.write("model-in/model.safetensors", weights)
        # The fingerprint of the model: 4 KiB of every tensor, by every rank.
        most = size / RANKS + len(shapes) * 4096 + size / 50
        for mode in ("none", "hybrid"):
            found = [a - b for a, b in zip(self.read_bytes(mode), without)]
            print(f"{mode:10} {[round(n / size, 3) for n in found]} of the file read")
            with self.subTest(mode=mode):
                self.assertGreaterEqual(sum(found), size)
                self.assertLess(max(found), most)


if __name__ == "__main__":
    cli_testing.main()
