#!/usr/bin/env python3
"""How ranks start, from outside: launchers' environments, --ranks, --hostfile, bad input."""

import os

import cli_testing
from cli_testing import CliTest, run

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
            "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
            "TORCHELASTIC_RUN_ID": "none"}


class RanksTest(CliTest):
    def launched(self, variables, **changes):
        return run(*self.flags(**changes), variables=variables)

    def refuse(self, variables, *words, **changes):
        result = self.launched(variables, **changes)
        self.assert_run(result, 2, *words)
        self.assert_nothing_left()
        return result

    def test_contradictions_name_the_variables(self):
        """launch_environment_test.cc has them all."""
        self.refuse({"WORLD_SIZE": "4"}, "WORLD_SIZE=4", "RANK is not", "--ranks 4")
        self.refuse(TORCHRUN, "--ranks 3", "torchrun", "WORLD_SIZE=2", ranks=3)
        self.refuse({}, "--ranks", ranks=0)

    def test_a_launcher_of_one_process_leaves_room_for_ranks(self):
        pod = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "pod-0", "MASTER_PORT": "29500"}
        self.assert_run(self.launched(pod, ranks=2), 0, "done: step 4")
        self.assertEqual(os.listdir(self.path("out/ranks")), ["1"])

    def test_what_is_wrong_is_said_once(self):
        # By the process that would start the ranks, before it does.
        result = self.refuse({}, "--shard 'zero3'", ranks=3, shard="zero3")
        self.assertEqual(result.stderr.count("zero3"), 1, result.stderr)
        result = self.refuse({}, "groups of 2", "3 ranks", ranks=3, shard="hybrid",
                             shard_group_size=2)
        self.assertEqual(result.stderr.count("groups of 2"), 1, result.stderr)

    def test_errors_say_whose_they_are(self):
        result = self.refuse(TORCHRUN, "--shard 'zero3'", shard="zero3")
        self.assertTrue(result.stderr.startswith("rank 1: spillway: error: "), result.stderr)


class HostfileTest(CliTest):
    def hosts(self, text, *flags, variables=None):
        return run(*self.flags(hostfile=self.write("hosts", text)), *flags, variables=variables)

    def test_prints_the_command_alone(self):
        result = self.hosts("# two\nn1 slots=2\nn2 slots=2\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 1)
        self.assertTrue(lines[0].startswith("mpirun -n 4 --host n1:2,n2:2 "), lines)
        self.assertIn("-x MASTER_ADDR=n1 -x MASTER_PORT=29500", lines[0])
        self.assertTrue(lines[0].endswith(" ".join(map(str, self.flags()))), lines)
        self.assertNotIn("--hostfile", lines[0])
        self.assertIn("--launch", result.stderr)
        self.assert_nothing_left()

    def test_launch_runs_it(self):
        # An mpirun that says how it was called.
        os.mkdir(self.path("bin"))
        os.chmod(self.write("bin/mpirun", '#!/bin/sh\necho "called: $*"\nexit 75\n'), 0o755)
        path = {"PATH": self.path("bin") + ":" + os.environ["PATH"]}
        result = self.hosts("n1 slots=1\nn2 slots=3\n", "--ranks", 2, "--launch", variables=path)
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertTrue(result.stdout.startswith("called: -n 2 --host n1:1,n2:3 "), result.stdout)
        for word in ("--launch", "--hostfile", "--ranks"):
            self.assertNotIn(word, result.stdout)
        result = self.hosts("n1 slots=1\n", "--launch", variables={"PATH": self.path("nothing")})
        self.assert_run(result, 2, "mpirun", "openmpi-bin")

    def test_bad_input(self):
        self.assert_run(self.hosts("n1\n"), 2, "hosts:1:", "slots=N")
        self.assert_run(self.hosts("n1 slots=2\n", "--ranks", 3), 2, "--ranks 3", "2 slots")
        self.assert_run(self.hosts("n1 slots=2\n", variables=TORCHRUN), 2, "torchrun", "2 ranks")
        self.assert_run(self.hosts("n1 slots=2\n", "--shard", "zero3"), 2, "--shard")
        self.assert_run(run(*self.flags(hostfile=self.path("none"))), 2, "--hostfile", "none")
        self.assert_run(run(*self.flags(), "--launch"), 2, "--hostfile")
        self.assert_nothing_left()


if __name__ == "__main__":
    cli_testing.main()
