#!/usr/bin/env python3
"""Spillway as it is installed: `cmake --install`, tools/package, and LibTorch found or set up. No network."""

import hashlib
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import zipfile

import cli_testing
from cli_testing import CliTest, environment, program, read_text

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SYSTEM_TORCH = "/usr/local/lib/spillway/torch"


class InstalledTest(CliTest):
    """Each case has a copy of an installed Spillway in self.prefix, and a HOME of its own."""

    made = None

    @classmethod
    def setUpClass(cls):
        cls.build = os.path.dirname(program())
        cls.torch = os.path.realpath(os.path.join(cls.build, "torch"))
        if InstalledTest.made is None:
            InstalledTest.made = tempfile.mkdtemp(prefix="spillway-package-", dir=os.environ.get("SPILLWAY_TEST_DIR") or os.getcwd())
            unittest.addModuleCleanup(shutil.rmtree, cls.made)
            os.chmod(cls.made, 0o755)
            subprocess.run(["cmake", "--install", cls.build, "--prefix", os.path.join(cls.made, "prefix"), "--strip",
                            "--component", "program"], check=True, capture_output=True)

    def setUp(self):
        super().setUp()
        self.prefix = self.path("moved")
        shutil.copytree(os.path.join(self.made, "prefix"), self.prefix, copy_function=os.link)
        self.home = self.path("home")
        os.mkdir(self.home)
        self.library_folder = os.path.join(self.prefix, "lib", "spillway")
        self.user_folder = os.path.join(self.home, ".local", "share", "spillway")

    def variables(self, **changes):
        env = {name: value for name, value in environment().items()
               if not name.startswith(("PIP_", "XDG_")) and name not in ("SPILLWAY_TORCH", "LD_LIBRARY_PATH")}
        return env | {"HOME": self.home} | changes

    def run_installed(self, *words, **changes):
        return subprocess.run([os.path.join(self.prefix, "bin", "spillway"), *map(str, words)], capture_output=True,
                              text=True, env=self.variables(**changes), timeout=600)

    def doctor(self, **changes):
        """doctor's line about LibTorch, and the folder that it was found in."""
        found = json.loads(self.run_installed("doctor", "--swap", self.swap, "--json", **changes).stdout)
        return next(line for line in found["lines"] if line["name"] == "LibTorch"), found["facts"]["torch"]["folder"]

    def fake_torch(self, folder, version):
        """What looks like LibTorch, but cannot be loaded."""
        self.write(os.path.join(folder, "lib", "libtorch_cpu.so"), "no library")
        self.write(os.path.join(folder, "version.py"), f"__version__ = '{version}+cpu'\n")
        return folder

    def torch_version(self):
        return re.search(r"\d+\.\d+\.\d+", read_text(self.torch, "version.py"))[0]


class FindingTorch(InstalledTest):
    def test_every_place(self):
        """Each place goes before those that are tried above it; another version counts in SPILLWAY_TORCH alone."""
        version = self.torch_version()
        if not os.path.exists(SYSTEM_TORCH):
            self.assertEqual(self.doctor()[1], "")
        data = self.path("data")
        for parent, changes in ((self.user_folder, {}), (data + "/spillway", {"XDG_DATA_HOME": data}), (self.library_folder, {})):
            torch = self.fake_torch(os.path.join(parent, "torch"), "1.13.1")
            self.assertNotEqual(self.doctor(**changes)[1], torch)
            shutil.rmtree(torch)
            self.fake_torch(torch, version)
            self.assertEqual(self.doctor(**changes)[1], torch)
        elsewhere = self.fake_torch(self.path("elsewhere"), "1.13.1")
        self.assertEqual(self.doctor(SPILLWAY_TORCH=elsewhere)[1], elsewhere)

    def test_a_run_with_each_way_to_it(self):
        for words, changes in ((["--steps", "1"], {"SPILLWAY_TORCH": self.torch}), (["--steps", "2", "--resume"], {})):
            if not changes:
                os.symlink(self.torch, os.path.join(self.library_folder, "torch"))
            result = self.run_installed(*self.flags(steps=None), *words, **changes)
            self.assert_run(result, 0)
        self.assertEqual(len(self.rows()), 2)

    def test_missing(self):
        if os.path.exists(SYSTEM_TORCH):
            self.skipTest(f"{SYSTEM_TORCH} is there")
        self.fake_torch(os.path.join(self.user_folder, "torch"), "1.13.1")
        result = self.run_installed(*self.flags())
        self.assert_run(result, 1, f"LibTorch {self.torch_version()}", "is not installed: run `spillway setup`", "SPILLWAY_TORCH",
                        os.path.join(self.library_folder, "torch") + ", ", SYSTEM_TORCH,
                        os.path.join(self.user_folder, "torch") + " (which is LibTorch 1.13.1)")
        self.assertFalse(os.path.exists(self.output))
        line, folder = self.doctor()
        self.assertEqual((line["mark"], folder), ("bad", ""))
        self.assertIn("spillway setup", line["found"])

    def test_wrong_ones(self):
        wrong = self.path("swap")
        self.assert_run(self.run_installed(*self.flags(), SPILLWAY_TORCH=wrong), 2,
                        f"SPILLWAY_TORCH={wrong} is no LibTorch: it has no lib/libtorch_cpu.so")
        broken = self.fake_torch(self.path("broken"), self.torch_version())
        self.assert_run(self.run_installed(*self.flags(), SPILLWAY_TORCH=broken), 1,
                        f"LibTorch in {broken} does not load", "spillway setup --fetch")

    def test_without_the_library(self):
        os.unlink(os.path.join(self.library_folder, "libspillway_compute.so"))
        result = self.run_installed(*self.flags())
        self.assert_run(result, 1, os.path.join(self.library_folder, "libspillway_compute.so"), "moved together")


class Pages(InstalledTest):
    def test_completion_and_man_pages(self):
        """As the program prints them, one page a subcommand."""
        share = os.path.join(self.prefix, "share")
        commands = re.findall(r"^  ([a-z]+)  ", self.run_installed("--help").stdout, re.M)
        self.assertIn("train", commands)
        for file, words in {"bash-completion/completions/spillway": ["completion", "bash"],
                            "zsh/site-functions/_spillway": ["completion", "zsh"],
                            "fish/vendor_completions.d/spillway.fish": ["completion", "fish"],
                            "man/man1/spillway.1": ["man"],
                            **{f"man/man1/spillway-{command}.1": ["man", command] for command in commands}}.items():
            self.assertEqual(read_text(share, file), self.run_installed(*words).stdout, file)
            self.assertNotEqual(read_text(share, file), "", file)


class Setup(InstalledTest):
    """`spillway setup` with wheels of a few bytes from a folder."""

    def setUp(self):
        super().setUp()
        if subprocess.run(["python3", "-c", "import pip"], capture_output=True).returncode != 0 and not (
                os.path.isdir("/usr/share/python-wheels")):
            self.skipTest("no pip")
        self.wheels = self.path("wheels")
        version = self.torch_version()
        lines = [
            self.wheel("torch", version, "cp311-cp311-manylinux_2_28_x86_64", {
                "torch/version.py": f"__version__ = '{version}+cu130'\n", "torch/lib/libtorch_cpu.so": "cpu",
                "torch/lib/libc10.so": "c10", "torch/lib/libgomp.so.1": "gomp", "torch/lib/libtorch_cuda.so": "cuda",
                "torch/include/torch/script.h": "", "torch/nn.py": ""}),
            self.wheel("nvidia_cuda_runtime", "13.0.96", "py3-none-manylinux2014_x86_64",
                       {"nvidia/cu13/lib/libcudart.so.13": "cudart"}),
            self.wheel("nvidia_cuda_cupti", "13.0.85", "py3-none-manylinux2014_x86_64",
                       {"nvidia/cu13/lib/libcupti.so.13": "cupti"})]
        # Not linked: the list is another one.
        listed = os.path.join(self.library_folder, "libtorch-wheels.txt")
        os.unlink(listed)
        self.write(listed, "".join(lines))

    def wheel(self, name, version, tag, files):
        os.makedirs(self.wheels, exist_ok=True)
        path = os.path.join(self.wheels, f"{name}-{version}-{tag}.whl")
        info = f"{name}-{version}.dist-info/"
        project = name.replace("_", "-")
        with zipfile.ZipFile(path, "w") as archive:
            for inner, text in {**files, info + "LICENSE": "terms", info + "RECORD": "",
                                info + "METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n",
                                info + "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n"}.items():
                archive.writestr(inner, text)
        with open(path, "rb") as file:
            return f"{project}=={version} --hash=sha256:{hashlib.sha256(file.read()).hexdigest()}\n"

    def offline(self, python="plain"):
        return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.wheels, "PATH": self.python(python) + ":" + os.environ["PATH"]}

    def python(self, kind):
        """A folder with a python3 to be put before the real one's."""
        folder = self.path("python-" + kind)
        if not os.path.exists(folder):
            real = shutil.which("python3")
            fails = 'case "$*" in *" download "*) exit 1 ;; esac'
            action = {
                # Says that no PyTorch is installed.
                "plain": 'case "$*" in *find_spec*) exit 0 ;; esac',
                # Has fetched a part, and hangs.
                "hangs": 'case "$*" in *find_spec*) exit 0 ;; *" download "*) mkdir "$TMPDIR/../lib"; '
                         ': >"$TMPDIR/../lib/libold.so"; echo part >"$TMPDIR/part"; sleep 600 ;; esac',
                "none": f'echo called >>"{self.path("called")}"; exit 1',
                "offline": fails,
                "installed": f'case "$*" in *find_spec*) echo "{self.path("site/torch")}"; exit 0 ;; esac\n{fails}',
            }[kind]
            self.write(f"python-{kind}/python3", f'#!/bin/bash\n{action}\nexec "{real}" "$@"\n')
            os.chmod(os.path.join(folder, "python3"), 0o755)
        return folder

    def placed(self, folder):
        return sorted(os.path.relpath(os.path.join(where, name), folder) for where, _, names in os.walk(folder) for name in names)

    EXPECTED = ["LICENSE", "lib/libc10.so", "lib/libgomp.so.1", "lib/libtorch_cpu.so", "runtime/libcudart.so.13",
                "runtime/libcupti.so.13", "version.py"]

    def setup(self, *words, python="plain", **changes):
        return self.run_installed("setup", "--prefix", self.prefix, *words, **(self.offline(python) | changes))

    def left(self):
        return [name for name in os.listdir(self.library_folder) if name.startswith("torch")]

    def test_killed_half_way_and_once_more(self):
        torch = os.path.join(self.library_folder, "torch")
        part = os.path.join(self.library_folder, "torch.new", "tmp", "part")
        for signal_number, left in ((signal.SIGTERM, []), (signal.SIGKILL, ["torch.new"])):
            process = self.start(["setup", "--prefix", self.prefix], os.path.join(self.prefix, "bin", "spillway"),
                                 start_new_session=True, env=self.variables(**self.offline("hangs")))
            self.wait_for(lambda: os.path.exists(part), process)
            os.killpg(process.pid, signal_number)
            process.wait()
            self.assertEqual(self.left(), left)
        result = self.setup()
        self.assert_run(result, 0, f"fetching 531 MB, unpacked 460 MB, into {torch}", "LibTorch is there")
        self.assertEqual(self.placed(torch), self.EXPECTED)
        self.assertEqual(self.left(), ["torch"])
        self.assertEqual(self.doctor()[1], torch)
        # Once more nothing is fetched, whether the place is said or not.
        self.assert_run(self.setup(python="none"), 0, "nothing to do", torch)
        self.assert_run(self.run_installed("setup", **self.offline("none")), 0, "nothing to do", torch)
        self.assertFalse(os.path.exists(self.path("called")))

    def test_an_ordinary_users_place(self):
        given = self.fake_torch(self.path("given"), self.torch_version())

        def become_nobody():
            os.setgid(pwd.getpwnam("nobody").pw_gid)
            os.setuid(pwd.getpwnam("nobody").pw_uid)

        as_nobody = os.geteuid() == 0
        if as_nobody:
            os.chown(self.home, pwd.getpwnam("nobody").pw_uid, -1)
            if subprocess.run(["test", "-r", given], preexec_fn=become_nobody).returncode != 0:
                self.skipTest("nobody cannot reach this folder")
        result = subprocess.run([os.path.join(self.prefix, "bin", "spillway"), "setup", "--torch", given], capture_output=True,
                                text=True, env=self.variables(), preexec_fn=become_nobody if as_nobody else None)
        torch = os.path.join(self.user_folder, "torch")
        self.assert_run(result, 0, f"{torch} is a link to {given}")
        self.assertEqual(self.doctor()[1], given)
        if as_nobody:
            result = subprocess.run([os.path.join(self.prefix, "bin", "spillway"), "setup", "--prefix", self.prefix], text=True,
                                    capture_output=True, env=self.variables(), preexec_fn=become_nobody)
            self.assert_run(result, 1, "cannot write into " + self.library_folder, "--prefix DIR")

    def test_links_to_an_installed_pytorch(self):
        torch = os.path.join(self.library_folder, "torch")
        installed = self.fake_torch(self.path("site/torch"), self.torch_version())
        self.assert_run(self.setup(python="installed"), 0,
                        f"is a link to the PyTorch {self.torch_version()} of python3, {installed}")
        self.assertEqual(os.readlink(torch), installed)
        # As asked for, over the link; and fetched over that.
        other = self.fake_torch(self.path("other"), self.torch_version())
        self.assert_run(self.setup("--torch", other), 0)
        self.assertEqual(os.readlink(torch), other)
        self.assert_run(self.setup("--fetch"), 0, "fetching")
        self.assertEqual(self.placed(torch), self.EXPECTED)
        self.assertTrue(os.path.exists(os.path.join(other, "version.py")))
        # Not one of another version.
        shutil.rmtree(installed)
        self.fake_torch(installed, "2.0.1")
        self.assert_run(self.setup("--torch", installed), 1, f"--torch {installed} is LibTorch 2.0.1")
        self.assertEqual(self.placed(torch), self.EXPECTED)
        shutil.rmtree(torch)
        self.assert_run(self.setup(python="installed"), 1, "fetching 531 MB", "pip could not fetch")
        self.assertEqual(self.left(), [])

    def test_errors(self):
        self.assert_run(self.setup("--fetch", "--torch", "x"), 2, "give one of the two")
        self.assert_run(self.setup(python="offline"), 1, "pip could not fetch torch==", "when the network is back")
        self.write("python-plain/df", "#!/bin/sh\necho; echo x 1 1 20480 1 x\n")
        os.chmod(self.path("python-plain/df"), 0o755)
        self.assert_run(self.setup(), 1, "LibTorch needs 1100 MiB in", "and 20 MiB are free")
        os.unlink(self.path("python-plain/df"))
        # Another content than the list's.
        self.wheel("torch", self.torch_version(), "cp311-cp311-manylinux_2_28_x86_64", {"torch/version.py": "other"})
        self.assert_run(self.setup(), 1, "hash", "pip could not fetch")
        self.assertEqual(self.left(), [])
        # A build is no installed program.
        self.assert_run(cli_testing.run("setup", "--prefix", self.dir), 1, "in a clone tools/setup fetches LibTorch")


class Packages(InstalledTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dist = os.path.join(cls.made, "dist")
        result = cls.package("deb", "tar")
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        cls.said = result.stderr

    @classmethod
    def package(cls, *kinds):
        return subprocess.run([os.path.join(SOURCE, "tools", "package"), *kinds, "--build", cls.build, "--to", cls.dist],
                              capture_output=True, text=True, env=dict(os.environ, SPILLWAY_PACKAGE_LEVEL="0"))

    def file(self, ending):
        (found,) = [name for name in os.listdir(self.dist) if name.endswith(ending)]
        return os.path.join(self.dist, found)

    @unittest.skipUnless(shutil.which("dpkg-deb"), "needs dpkg-deb")
    def test_deb(self):
        deb = self.file("_amd64.deb")
        listed = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout
        modes = {line.split()[-1]: line.split()[:2] for line in listed.splitlines()}
        for name, mode in (("bin/spillway", "-rwxr-xr-x"), ("lib/spillway/libspillway_compute.so", "-rw-r--r--"),
                           ("lib/spillway/setup_torch", "-rwxr-xr-x"), ("lib/spillway/libtorch-wheels.txt", "-rw-r--r--"),
                           ("share/doc/spillway/README.md", "-rw-r--r--"), ("share/doc/spillway/docs/INSTALL.md", "-rw-r--r--"),
                           ("share/doc/spillway/examples/gpt_lite/config.json", "-rw-r--r--")):
            self.assertEqual(modes["./usr/" + name], [mode, "root/root"], name)
        self.assertFalse([name for name in modes if "libtorch_cpu" in name or "libicu" in name])
        field = lambda name: subprocess.run(["dpkg-deb", "-f", deb, name], capture_output=True, text=True, check=True).stdout.strip()
        self.assertEqual("spillway " + field("Version"), cli_testing.run("--version").stdout.strip())
        self.assertIn("python3-pip-whl", field("Recommends"))
        # The packages of the libraries that program and library need, and no LibTorch.
        depends = {name.split()[0] for name in field("Depends").split(", ")}
        needed = set()
        for file in (program(), os.path.join(self.build, "libspillway_compute.so")):
            needs = subprocess.run(["objdump", "-p", file], capture_output=True, text=True, check=True).stdout
            needed |= set(re.findall(r"NEEDED +(\S+)", needs))
        found = {}
        for line in subprocess.run(["ldd", program()], capture_output=True, text=True, check=True).stdout.splitlines():
            name, _, path = line.strip().partition(" => ")
            if name in needed and path:
                # Packages name a file below / or /usr.
                path = os.path.realpath(path.split()[0])
                owners = subprocess.run(["dpkg-query", "-S", path, path.removeprefix("/usr")], capture_output=True, text=True).stdout
                found[name] = owners.split(":")[0]
        self.assertIn("libc.so.6", found)
        self.assertEqual(depends, set(found.values()) | {"libsoxr0"})
        # From the extracted files, too.
        subprocess.run(["dpkg-deb", "-x", deb, self.path("root")], check=True)
        self.prefix = self.path("root/usr")
        self.assertEqual(self.doctor(SPILLWAY_TORCH=self.torch)[1], self.torch)

    def test_tar(self):
        subprocess.run(["tar", "-xf", self.file(".tar.xz"), "-C", self.dir], check=True)
        (name,) = [name for name in os.listdir(self.dir) if name.startswith("spillway-")]
        self.prefix = self.path(name)
        folder = os.path.join(self.prefix, "lib", "spillway")
        libraries = subprocess.run(["ldd", os.path.join(self.prefix, "bin", "spillway")], capture_output=True, text=True,
                                   check=True, env=self.variables()).stdout
        runtime = r"^(linux-vdso|ld-linux|lib(c|m|mvec|dl|rt|pthread|gcc_s|stdc\+\+)\.so)"
        outside = [line.split()[0] for line in libraries.splitlines() if "/bin/../lib/spillway/" not in line]
        self.assertEqual([name for name in outside if not re.match(runtime, os.path.basename(name))], [])
        for name in ("libsoxr.so.0", "libsndfile.so.1", "setup_torch"):
            self.assertTrue(os.path.isfile(os.path.join(folder, name)), name)
        result = self.run_installed(*self.flags(steps=1), SPILLWAY_TORCH=self.torch)
        self.assert_run(result, 0)
        self.assertRegex(self.said, r"needs glibc 2\.\d+ and libstdc\+\+ with GLIBCXX_3\.4\.\d+, or later")


if __name__ == "__main__":
    cli_testing.main()
