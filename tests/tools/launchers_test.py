#!/usr/bin/env python3
"""Real launchers start ranks: torchrun (on PATH, or $SPILLWAY_TORCHRUN) and SLURM on one node, of
which this starts the daemons (Debian's slurm-wlm and munge; as root). Each is skipped where it is
not installed. mpirun is in ranks_run_test.py."""

import os
import shutil
import subprocess
import unittest

import cli_testing
from cli_testing import environment, program, read_text
from ranks_testing import RanksCase, free_ports

TORCHRUN = os.environ.get("SPILLWAY_TORCHRUN") or shutil.which("torchrun")
SLURM = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "squeue")
PATH = os.environ["PATH"] + ":/usr/sbin"
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/slurm/ranks.sbatch")


class LaunchersTest(RanksCase):
    def launched(self, words, timeout=600, **variables):
        return subprocess.run(list(map(str, words)), capture_output=True, text=True,
                              timeout=timeout, env=environment() | {"PATH": PATH} | variables,
                              check=False)

    def assert_same_bits(self, result, ranks, **changes):
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        found = self.outcome()
        expected, _ = self.reference(ranks, **changes)
        self.assertEqual(found, expected)

    def words(self, ranks, **changes):
        return [program(), *self.command(ranks, launched=True, **changes)]


@unittest.skipUnless(TORCHRUN, "no torchrun here")
class TorchrunTest(LaunchersTest):
    def torchrun(self, *flags):
        return [TORCHRUN, "--no-python", *flags]

    def test_one_machine(self):
        for flags in (("--nproc-per-node", 2, "--master-port", free_ports(1)[0]),
                      ("--standalone", "--nproc-per-node", 2)):
            with self.subTest(flags=flags):
                self.begin_afresh()
                self.assert_same_bits(self.launched([*self.torchrun(*flags), *self.words(2)]), 2)

    def test_two_nodes(self):
        port, = free_ports(1)
        nodes = [subprocess.Popen(
            list(map(str, [*self.torchrun("--nnodes", 2, "--node-rank", node, "--nproc-per-node", 1,
                                          "--master-addr", "127.0.0.1", "--master-port", port),
                           *self.words(2)])),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
            for node in range(2)]
        for node in nodes:
            self.addCleanup(node.kill)
        said = [node.communicate(timeout=600)[0] for node in nodes]
        self.assertEqual([node.returncode for node in nodes], [0, 0], said)
        self.assertEqual(self.outcome(), self.reference(2)[0])


@unittest.skipUnless(all(shutil.which(name, path=PATH) for name in SLURM), "no SLURM here")
@unittest.skipUnless(os.geteuid() == 0, "SLURM's daemons are started as root")
class SlurmTest(LaunchersTest):
    def setUp(self):
        super().setUp()
        # Sockets have short names, and slurmd its scripts outside the tests' folder.
        self.slurm = f"/tmp/spillway-slurm-{os.getpid()}"
        os.mkdir(self.slurm, 0o755)
        self.addCleanup(shutil.rmtree, self.slurm, ignore_errors=True)
        self.daemons = []
        self.addCleanup(self.stop_daemons)
        with open(f"{self.slurm}/key", "wb") as key:
            os.fchmod(key.fileno(), 0o600)
            key.write(os.urandom(1024))
        host, ports = os.uname().nodename.partition(".")[0], free_ports(2)
        for folder in ("state", "spool"):
            os.mkdir(f"{self.slurm}/{folder}")
        with open(f"{self.slurm}/slurm.conf", "w", encoding="ascii") as conf:
            conf.write(f"""ClusterName=spillway
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={self.slurm}/munge
CryptoType=crypto/munge
StateSaveLocation={self.slurm}/state
SlurmdSpoolDir={self.slurm}/spool
SlurmctldPidFile={self.slurm}/slurmctld.pid
SlurmdPidFile={self.slurm}/slurmd.pid
SlurmctldLogFile={self.slurm}/slurmctld.log
SlurmdLogFile={self.slurm}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
""")
        self.variables = {"SLURM_CONF": f"{self.slurm}/slurm.conf", "SLURM_OVERLAP": "1"}
        self.daemon("munged", "--foreground", "--force", f"--key-file={self.slurm}/key",
                    f"--socket={self.slurm}/munge", f"--pid-file={self.slurm}/munged.pid",
                    f"--log-file={self.slurm}/munged.log", f"--seed-file={self.slurm}/seed")
        self.wait_for(lambda: os.path.exists(f"{self.slurm}/munge"), self.daemons[-1])
        self.daemon("slurmctld", "-D")
        self.daemon("slurmd", "-D", "-N", host)
        self.wait_for(lambda: "idle" in self.of_slurm("sinfo", "-h", "-o", "%T").stdout)

    def daemon(self, *words):
        self.daemons.append(subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment() | {"PATH": PATH} | getattr(self, "variables", {})))

    def stop_daemons(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def of_slurm(self, *words, **variables):
        return self.launched(words, **self.variables, **variables)

    def test_srun(self):
        result = self.of_slurm("srun", "-n", 2, *self.words(2))
        self.assert_same_bits(result, 2)

    def test_a_batch_script_without_srun_is_one_rank(self):
        script = self.write("one.sh", "#!/bin/sh\n#SBATCH --ntasks=2\nexec \"$@\"\n")
        result = self.of_slurm("sbatch", "--wait", "-o", self.path("said"), script, *self.words(1))
        self.assert_same_bits(result, 1)

    def test_the_example_is_put_back_into_the_queue_and_goes_on(self):
        os.symlink(program(), os.path.join(self.slurm, "spillway"))
        variables = {"MODEL": self.model, "DATA": self.data, "OUTPUT": self.output,
                     "SWAP": self.swap, "PATH": f"{self.slurm}:{PATH}"}
        flags = dict(model=None, data=None, output=None, swap=None, threads=None, steps=400,
                     commit_every=20, no_export=True)
        result = self.of_slurm("sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=2",
                               "--cpus-per-task=1", "-o", self.path("said"), EXAMPLE,
                               *self.command(2, launched=True, **flags)[1:], **variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        job = result.stdout.strip()

        def said():
            return read_text(self.path("said")) if os.path.exists(self.path("said")) else ""

        def state():
            return self.of_slurm("squeue", "-h", "-j", job, "-o", "%T").stdout.strip()
        self.wait_for(lambda: len(self.rows()) >= 10 or not state())
        self.of_slurm("scancel", "-s", "USR1", job)
        self.wait_for(lambda: state() == "PENDING" or "exit" in said())
        stopped = self.inspect()["step"]
        self.assertGreaterEqual(stopped, 10, said())
        self.assertLess(stopped, 400)
        # SLURM waits two minutes before it starts a job again; a person need not.
        self.of_slurm("scontrol", "update", f"JobId={job}", "StartTime=now")
        self.wait_for(lambda: not state(), seconds=600)
        self.assertEqual(self.inspect()["step"], 400, said())
        self.assertIn(f"resuming after step {stopped}", said())
        self.assertEqual([row["step"] for row in self.rows()], list(range(1, 401)))


if __name__ == "__main__":
    cli_testing.main()
