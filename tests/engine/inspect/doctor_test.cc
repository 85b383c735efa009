// Every line of the page and every advice, on machines made up for it.
#include "engine/inspect/doctor.h"

#include <cerrno>

#include "absl/strings/str_split.h"
#include "engine/inspect/doctor_page.h"
#include "engine/machine/machine_facts.h"
#include "io/base/format_bytes.h"
#include "io/uring_refusal.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

PathFacts GoodPath() {
  PathFacts path;
  path.path = "/nvme";
  path.exists = path.is_directory = path.writable = path.direct = path.reserves = true;
  path.filesystem = "ext4";
  path.source = "/dev/nvme0n1p1";
  path.alignment_bytes = 512;
  path.free_bytes = 900 * kGiB;
  path.total_bytes = 1000 * kGiB;
  path.free_inodes = path.total_inodes = 1000;
  path.rotational = false;
  path.drive = "Fast Drive 9";
  return path;
}

MachineFacts GoodMachine() {
  MachineFacts facts;
  facts.kernel = "6.1.0-13-amd64";
  facts.user = 1000;
  facts.uring.flags = "DEFER_TASKRUN, SINGLE_ISSUER, COOP_TASKRUN";
  facts.uring.registered_bytes = uint64_t{64} << 20;
  facts.locked_memory_bytes = {.soft = uint64_t{8} << 20, .hard = uint64_t{8} << 20};
  facts.open_files = {.soft = 1024, .hard = 1 << 20};
  facts.paths = {GoodPath()};
  facts.memory_bytes = 64 * kGiB;
  facts.available_bytes = 60 * kGiB;
  facts.spendable_bytes = 53 * kGiB;
  facts.transparent_huge_pages = "madvise";
  facts.cpu = "A Processor";
  facts.cores = facts.cores_allowed = 16;
  facts.cpu_features = {"avx2", "avx512f"};
  facts.simd = SimdTarget::kAvx512;
  facts.torch_version = "2.11.0";
  return facts;
}

// The last line of that name, which must have this mark.
DoctorLine LineOf(const MachineFacts& facts, const std::string& name, Mark mark) {
  DoctorLine found;
  for (const DoctorLine& line : Diagnose(facts)) {
    EXPECT_EQ(line.advice.empty(), line.mark == Mark::kOk) << line.name << ": " << line.advice;
    if (line.name == name) found = line;
  }
  EXPECT_EQ(found.name, name);
  EXPECT_EQ(MarkName(found.mark), MarkName(mark)) << name << ": " << found.found;
  return found;
}

void ExpectLine(const MachineFacts& facts, const std::string& name, Mark mark,
                const std::string& found, const std::string& advice) {
  const DoctorLine line = LineOf(facts, name, mark);
  EXPECT_THAT(line.found, HasSubstr(found));
  EXPECT_THAT(line.advice, HasSubstr(advice));
}

void ExpectPath(const PathFacts& path, const std::string& name, Mark mark, const std::string& found,
                const std::string& advice) {
  MachineFacts facts = GoodMachine();
  facts.paths = {path};
  ExpectLine(facts, name, mark, found, advice);
}

TEST(Doctor, AGoodMachineNeedsNoAdvice) {
  const auto lines = Diagnose(GoodMachine());
  for (const DoctorLine& line : lines) {
    EXPECT_EQ(line.mark, Mark::kOk) << line.name << ": " << line.found;
    EXPECT_FALSE(line.found.empty()) << line.name;
  }
  EXPECT_GE(lines.size(), 15u);
  EXPECT_EQ(DoctorExitCode(lines), 0);
  EXPECT_THAT(DoctorPage(lines), HasSubstr(" ok, 0 to improve, 0 bad\n"));
}

TEST(Doctor, OldKernels) {
  MachineFacts facts = GoodMachine();
  facts.kernel = "5.4.0-150-generic";
  ExpectLine(facts, "kernel", Mark::kWarn, "5.4.0", "5.6");
  facts.kernel = "5.6.0";
  LineOf(facts, "kernel", Mark::kOk);
  facts.kernel = "4.18.0-553.el8";
  LineOf(facts, "kernel", Mark::kWarn);
}

TEST(Doctor, RefusedIoUringHasItsCause) {
  MachineFacts facts = GoodMachine();
  facts.uring = {.status = UringRefused(EPERM, -1, 0)};
  ExpectLine(facts, "io_uring", Mark::kWarn, "EPERM", "seccomp");
  facts.uring = {.status = UringRefused(EPERM, 2, 0)};
  ExpectLine(facts, "io_uring", Mark::kWarn, "refused", "sysctl kernel.io_uring_disabled=0");
  facts.uring = {.status = UringRefused(ENOSYS, -1, 0)};
  ExpectLine(facts, "io_uring", Mark::kWarn, "ENOSYS", "newer kernel");
  facts.uring = {.status = UringRefused(ENOMEM, -1, 65536)};
  ExpectLine(facts, "io_uring", Mark::kWarn, "ENOMEM", "ulimit -l");
  EXPECT_EQ(DoctorExitCode(Diagnose(facts)), 0) << "threads do the work";
}

TEST(Doctor, TooLittleLockedMemory) {
  MachineFacts facts = GoodMachine();
  facts.uring.register_error = ENOMEM;
  ExpectLine(facts, "locked memory", Mark::kWarn, "8 MiB, hard limit 8 MiB; too little",
             "limits.conf");
  EXPECT_THAT(LineOf(facts, "locked memory", Mark::kWarn).advice, HasSubstr("--ulimit memlock=-1"));
  facts.uring.register_error = EPERM;
  ExpectLine(facts, "locked memory", Mark::kWarn, "64 MiB", "io_uring_register");
  facts.uring.register_error = 0;
  facts.locked_memory_bytes = {};
  ExpectLine(facts, "locked memory", Mark::kOk, "unlimited", "");
}

TEST(Doctor, FewOpenFiles) {
  MachineFacts facts = GoodMachine();
  facts.open_files = {.soft = 64, .hard = 4096};
  ExpectLine(facts, "open files", Mark::kWarn, "64", "`ulimit -n 1024`");
  facts.open_files.hard = 64;
  ExpectLine(facts, "open files", Mark::kWarn, "64", "raising the hard limit");
}

TEST(Doctor, PathsWhereNoFileCanBeMade) {
  PathFacts path = GoodPath();
  path.exists = path.is_directory = path.writable = false;
  path.status = absl::NotFoundError("look at /nvme: No such file; check the path");
  ExpectPath(path, "directory", Mark::kBad, "No such file", "mkdir -p /nvme");
  MachineFacts missing = GoodMachine();
  missing.paths = {path};
  EXPECT_EQ(LineOf(missing, "directory", Mark::kBad).found, "look at /nvme: No such file");

  path.exists = true;
  ExpectPath(path, "directory", Mark::kBad, "is a file", "--swap");

  path = GoodPath();
  path.writable = false;
  path.owner = 7;
  path.status = absl::PermissionDeniedError("create a file in /nvme: EACCES; general remedy");
  ExpectPath(path, "directory", Mark::kBad, "EACCES (it belongs to user 7)", "user 1000 must");
  path.status = absl::ResourceExhaustedError("create a file in /nvme: ENOSPC");
  ExpectPath(path, "directory", Mark::kBad, "ENOSPC", "free some space");

  path.writable = true;
  path.status = absl::DataLossError("a file in /nvme gives other bytes than were written");
  ExpectPath(path, "trial file", Mark::kBad, "other bytes", "dmesg");

  MachineFacts facts = GoodMachine();
  facts.paths = {GoodPath(), path};
  EXPECT_EQ(DoctorExitCode(Diagnose(facts)), 1) << "one bad path of two";
}

TEST(Doctor, FileSystemsThatSwapBadly) {
  PathFacts path = GoodPath();
  path.filesystem = path.source = "tmpfs";
  ExpectPath(path, "file system", Mark::kWarn, "tmpfs: memory", "drive");
  path.filesystem = "nfs4";
  path.source = "server:/home";
  ExpectPath(path, "file system", Mark::kWarn, "nfs4 on server:/home: over the network",
             "--persist");
  path.filesystem = path.source = "overlay";
  ExpectPath(path, "file system", Mark::kWarn, "the container's own layer", "docker run -v");
  path.filesystem = path.source = "";
  ExpectPath(path, "file system", Mark::kOk, "unknown", "");
}

TEST(Doctor, DirectIoAndReserving) {
  PathFacts path = GoodPath();
  path.direct = false;
  ExpectPath(path, "O_DIRECT", Mark::kWarn, "refused", "page cache");
  path.direct = true;
  path.alignment_bytes = 16384;
  ExpectPath(path, "O_DIRECT", Mark::kBad, "multiples of 16384", "4096");
  path.alignment_bytes = 4096;
  ExpectPath(path, "O_DIRECT", Mark::kOk, "multiples of 4096", "");
  path.reserves = false;
  ExpectPath(path, "reserving space", Mark::kWarn, "not possible", "ext4 or xfs");
}

TEST(Doctor, SpaceAndDrives) {
  PathFacts path = GoodPath();
  path.free_bytes = kGiB - 1;
  ExpectPath(path, "free space", Mark::kWarn, "free of 1000 GiB", "24 bytes a parameter");
  path.free_bytes = kGiB;
  ExpectPath(path, "free space", Mark::kOk, "1 GiB free", "");
  path.free_inodes = 3;
  ExpectPath(path, "inodes", Mark::kBad, "3 free of 1000", "small files");
  path.rotational = true;
  ExpectPath(path, "drive", Mark::kWarn, "Fast Drive 9 says that it rotates", "NVMe");
  path.source = "/dev/vda1";
  ExpectPath(path, "drive", Mark::kOk, "virtual", "");
  path = GoodPath();
  ExpectPath(path, "drive", Mark::kOk, "Fast Drive 9, solid state", "");
}

TEST(Doctor, MemoryAndItsLimits) {
  MachineFacts facts = GoodMachine();
  facts.cgroup_limit_bytes = 2 * kGiB;
  facts.available_bytes = kGiB;
  facts.spendable_bytes = kGiB / 2;
  ExpectLine(facts, "memory", Mark::kWarn, "this cgroup may use 2 GiB", "docker run -m");
  ExpectLine(facts, "budgets", Mark::kOk, "512 MiB together", "");
  facts.transparent_huge_pages = "never";
  ExpectLine(facts, "huge pages", Mark::kWarn, "never", "echo madvise");
  facts.huge_pages_free_bytes = 8 * kGiB;
  ExpectLine(facts, "reserved pages", Mark::kWarn, "8 GiB", "vm.nr_hugepages=0");
}

TEST(Doctor, Processors) {
  MachineFacts facts = GoodMachine();
  facts.cores_allowed = 4;
  ExpectLine(facts, "cores", Mark::kOk, "4 of 16 cores", "");
  facts.cores_quota = 2.5;
  ExpectLine(facts, "cores", Mark::kWarn, "time for 2.5 of them", "--threads 2,");
  facts.cores_quota = 0.5;
  ExpectLine(facts, "cores", Mark::kWarn, "0.5", "--threads 1,");
  ExpectLine(facts, "update loops", Mark::kOk, "avx512", "");
  facts.simd = SimdTarget::kBaseline;
  facts.cpu_features = {};
  ExpectLine(facts, "instructions", Mark::kWarn, "no AVX2", "-cpu host");
}

TEST(Doctor, LibTorchAndLaunchers) {
  MachineFacts facts = GoodMachine();
  ExpectLine(facts, "LibTorch", Mark::kOk, "2.11.0, for the CPU", "");
  facts.torch_folder = "/opt/torch";
  ExpectLine(facts, "LibTorch", Mark::kOk, "2.11.0, for the CPU, in /opt/torch", "");
  facts.torch_version = "2.9.1";
  ExpectLine(facts, "LibTorch", Mark::kWarn, "2.9.1, for the CPU", "2.11.0");
  facts.compute_library = absl::UnavailableError("libspillway_compute.so is missing");
  ExpectLine(facts, "LibTorch", Mark::kBad, "libspillway_compute.so is missing", "mend that");
  EXPECT_EQ(DoctorExitCode(Diagnose(facts)), 1);
  ExpectLine(facts, "launcher", Mark::kOk, "none", "");
  facts.launcher = {{"WORLD_SIZE", "2"}, {"RANK", "0"}};
  ExpectLine(facts, "launcher", Mark::kOk, "WORLD_SIZE=2, RANK=0", "");
}

TEST(Doctor, GpusAndTheirDriver) {
  MachineFacts facts = GoodMachine();
  ExpectLine(facts, "GPU", Mark::kOk, "none", "");
  facts.gpu.kernel_driver = true;
  ExpectLine(facts, "GPU", Mark::kWarn, "libnvidia-ml.so.1", "--gpus all");
  facts.gpu.management_library = facts.gpu.compute_library = true;
  facts.gpu.driver_version = "580.95.05";
  facts.gpu.cuda_version = 13000;
  ExpectLine(facts, "GPU", Mark::kWarn, "none, though there is a driver (580.95.05, CUDA 13.0)",
             "srun --gpus 1");
  facts.gpu.devices = {{"Some GPU", 80 * kGiB, 79 * kGiB}};
  ExpectLine(facts, "GPU driver", Mark::kOk, "580.95.05, CUDA 13.0", "");
  ExpectLine(facts, "GPU 0", Mark::kOk, "Some GPU, 79 GiB free of 80 GiB", "");
  facts.gpu.cuda_version = 12080;
  ExpectLine(facts, "GPU driver", Mark::kWarn, "CUDA 12.8", "580");
  facts.gpu.compute_library = false;
  ExpectLine(facts, "GPU driver", Mark::kWarn, "libcuda.so.1", "NVIDIA_DRIVER_CAPABILITIES");
  facts.gpu.devices = {};
  facts.gpu.error = "Driver/library version mismatch";
  ExpectLine(facts, "GPU driver", Mark::kWarn, "mismatch", "reboot");
}

TEST(Doctor, OnWhatRunsCompute) {
  MachineFacts facts = GoodMachine();
  ExpectLine(facts, "device", Mark::kOk, "computing on the CPU", "");
  // No GPU, no reproach.
  facts.device->why_not_gpu = "this build has no CUDA";
  const auto device = [&] {
    for (const DoctorLine& line : Diagnose(facts)) {
      if (line.name == "device") return line.found;
    }
    return std::string();
  };
  EXPECT_EQ(device(), "computing on the CPU");
  facts.gpu.hardware = true;  // on the bus, without a driver
  ExpectLine(facts, "device", Mark::kOk, "the CPU: this build has no CUDA", "");
  facts.gpu.devices = {{"Some GPU", 80 * kGiB, 79 * kGiB}};
  ExpectLine(facts, "device", Mark::kWarn, "this build has no CUDA", "--device cpu");
  EXPECT_EQ(DoctorJson(facts, {})["facts"]["device"], "cpu");
  facts.device = absl::FailedPreconditionError("--device cuda: this build has no CUDA");
  ExpectLine(facts, "device", Mark::kBad, "--device cuda", "--device cpu");
  EXPECT_EQ(DoctorJson(facts, {})["facts"]["device"], nullptr);
  ComputeGpu gpu;
  gpu.name = "Some GPU";
  gpu.total_bytes = 80 * kGiB;
  gpu.free_bytes = 40 * kGiB;
  facts.device = DeviceChoice{gpu, ""};
  ExpectLine(facts, "device", Mark::kOk, "GPU 0: Some GPU, 40 GiB free of 80 GiB", "");
  ExpectLine(facts, "budgets", Mark::kOk,
             "device memory gets 38 GiB of the GPU, host memory 53 GiB", "");
}

// All advice at once stays within a terminal's width.
TEST(DoctorPage, Has80Columns) {
  MachineFacts facts = GoodMachine();
  facts.uring = {.status = UringRefused(EPERM, 2, 0)};
  facts.open_files = {.soft = 64, .hard = 64};
  PathFacts path = GoodPath();
  path.filesystem = path.source = "overlay";
  path.direct = path.reserves = false;
  path.rotational = true;
  path.free_bytes = 0;
  facts.paths = {path};
  facts.spendable_bytes = 0;
  facts.transparent_huge_pages = "never";
  facts.simd = SimdTarget::kBaseline;
  facts.gpu.kernel_driver = true;
  const std::string page = DoctorPage(Diagnose(facts));
  for (const auto& line : absl::StrSplit(page, '\n')) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(page, HasSubstr("\nPath /nvme\n  ok    directory       writable, of user 0\n"));
  EXPECT_THAT(page, HasSubstr("\n        -> "));
  EXPECT_THAT(page, HasSubstr(" to improve, 0 bad\n"));
}

TEST(DoctorJson, HasLinesAndNumbers) {
  const MachineFacts facts = GoodMachine();
  const auto lines = Diagnose(facts);
  const nlohmann::json json = DoctorJson(facts, lines);
  EXPECT_EQ(json["ok"], lines.size());
  EXPECT_EQ(json["bad"], 0);
  EXPECT_EQ(json["lines"].size(), lines.size());
  EXPECT_EQ(json["lines"][0]["name"], "kernel");
  EXPECT_EQ(json["facts"]["paths"][0]["free_bytes"], 900 * kGiB);
  EXPECT_EQ(json["facts"]["cgroup_limit_bytes"], nullptr);
  EXPECT_EQ(json["facts"]["budget_bytes"], 53 * kGiB);
}

}  // namespace
}  // namespace spillway
