#!/usr/bin/env python3
"""Two machines, as far as the network can tell: two network namespaces joined by a veth pair,
a rank in each. Skipped where such can't be made (not root, no `ip`, a container without leave)."""

import os
import subprocess

import cli_testing
from cli_testing import CliTest

ADDRESSES = ("10.213.77.1", "10.213.77.2")


def ip(*words, check=True):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


class TwoHostsTest(CliTest):
    def setUp(self):
        super().setUp()
        self.hosts = [f"spillway-{os.getpid()}-{host}" for host in range(2)]
        self.links = [f"sw{os.getpid() % 100000}{host}" for host in "ab"]
        try:
            for host in self.hosts:
                ip("netns", "add", host)
                self.addCleanup(ip, "netns", "del", host, check=False)
            ip("link", "add", self.links[0], "type", "veth", "peer", "name", self.links[1])
            for host, link, address in zip(self.hosts, self.links, ADDRESSES):
                ip("link", "set", link, "netns", host)
                ip("-n", host, "addr", "add", address + "/24", "dev", link)
                ip("-n", host, "link", "set", link, "up")
                ip("-n", host, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no network namespaces here: {error}")

    def start_ranks(self, **changes):
        processes = []
        for rank, host in enumerate(self.hosts):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                         "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": ADDRESSES[0],
                         "MASTER_PORT": "29511"}  # nobody else is in these namespaces
            words = self.flags(**{"threads": 1, "dtype": "fp32", "accumulate": 2, **changes})
            processes.append(self.start(["netns", "exec", host, cli_testing.program(), *words],
                                        program_="ip", env=cli_testing.environment() | variables))
        return processes

    def ends(self, processes, timeout=600):
        outputs = [process.communicate(timeout=timeout)[1] for process in processes]
        return [process.returncode for process in processes], outputs

    def test_a_cut_link_ends_both_and_loses_no_commit(self):
        processes = self.start_ranks(steps=100000, commit_every=5, collective_timeout="8s",
                               no_export=True)
        self.wait_for_rows(processes[0], 12)
        ip("-n", self.hosts[0], "link", "set", self.links[0], "down")
        codes, outputs = self.ends(processes)
        self.assertEqual(codes, [1, 1], outputs)
        for rank, text in enumerate(outputs):
            self.assertIn(f"rank {1 - rank}", text.splitlines()[-1])
            self.assertIn("--collective-timeout", text.splitlines()[-1])
        step = self.inspect()["step"]
        self.assertGreaterEqual(step, 5)
        ip("-n", self.hosts[0], "link", "set", self.links[0], "up")
        codes, outputs = self.ends(self.start_ranks(steps=step + 5, resume=True, commit_every=5,
                                              no_export=True))
        self.assertEqual(codes, [0, 0], outputs)
        self.assertEqual(outputs[1], "")  # rank 0 alone talks
        self.assertEqual(self.inspect()["step"], step + 5)

    def test_a_host_without_a_way_is_named(self):
        ip("-n", self.hosts[1], "link", "set", self.links[1], "down")
        codes, outputs = self.ends(self.start_ranks(steps=4, collective_timeout="4s"))
        self.assertEqual(codes, [1, 1], outputs)
        self.assertIn("rank 1 of 2 did not come", outputs[0])
        self.assertIn("does not reach rank 0 at " + ADDRESSES[0], outputs[1])


if __name__ == "__main__":
    cli_testing.main()
