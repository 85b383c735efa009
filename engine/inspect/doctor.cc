#include "engine/inspect/doctor.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/machine/compute_precision.h"
#include "io/base/format_bytes.h"
#include "swap/store/manifest.h"

namespace spillway {
namespace {

// A model of a few million parameters with commits (24 bytes each) fits into this space.
constexpr uint64_t kLittleSpaceBytes = kGiB;
constexpr uint64_t kLittleMemoryBytes = kGiB;
constexpr uint64_t kFewFiles = 256;
// LibTorch 2.11 is built for CUDA 13.
constexpr int kCudaNeeded = 13000;
constexpr char kTorchTested[] = "2.11.";

std::string LimitText(uint64_t limit, bool bytes) {
  if (limit == UINT64_MAX) return "unlimited";
  return bytes ? FormatBytes(limit) : absl::StrCat(limit);
}

// Collects the lines, one section after the other.
class Page {
 public:
  void Section(std::string name) { section_ = std::move(name); }
  void Ok(absl::string_view name, std::string found) { Add(name, Mark::kOk, found, ""); }
  void Warn(absl::string_view name, std::string found, std::string advice) {
    Add(name, Mark::kWarn, found, advice);
  }
  void Bad(absl::string_view name, std::string found, std::string advice) {
    Add(name, Mark::kBad, found, advice);
  }
  std::vector<DoctorLine> Take() { return std::move(lines_); }

 private:
  void Add(absl::string_view name, Mark mark, const std::string& found, const std::string& advice) {
    lines_.push_back({section_, std::string(name), mark, found, advice});
  }
  std::string section_;
  std::vector<DoctorLine> lines_;
};

void Kernel(const MachineFacts& facts, Page& page) {
  int major = 0, minor = 0;
  std::sscanf(facts.kernel.c_str(), "%d.%d", &major, &minor);
  if (major < 5 || (major == 5 && minor < 6)) {
    page.Warn("kernel", facts.kernel,
              "io_uring came with Linux 5.6: until then threads move the bytes, at more cost of "
              "processor time");
  } else {
    page.Ok("kernel", facts.kernel);
  }
}

// The message of a refusal is "set up io_uring: CAUSE; REMEDY".
void Uring(const MachineFacts& facts, Page& page) {
  const UringFacts& uring = facts.uring;
  if (!uring.status.ok()) {
    const std::string message(uring.status.message());
    const size_t cut = message.find("; ");
    const bool both = cut != std::string::npos;
    page.Warn("io_uring", absl::StrCat("refused: ", both ? message.substr(0, cut) : message),
              absl::StrCat(both ? message.substr(cut + 2) : "use Linux 5.6 or newer",
                           " (runs do that by themselves, and are slower)"));
    return;
  }
  page.Ok("io_uring", absl::StrCat("works: ", uring.flags));
  const Limit& limit = facts.locked_memory_bytes;
  const std::string locked =
      absl::StrCat(LimitText(limit.soft, true), ", hard limit ", LimitText(limit.hard, true));
  const std::string size = FormatBytes(uring.registered_bytes);
  if (uring.register_error == 0) {
    page.Ok("locked memory", absl::StrCat(locked, "; ", size, " registered with io_uring"));
    return;
  }
  const std::string cause =
      uring.register_error == ENOMEM
          ? "raise it: `ulimit -l unlimited` where the hard limit allows, \"* - memlock "
            "unlimited\" in /etc/security/limits.conf, LimitMEMLOCK=infinity for a service, "
            "--ulimit memlock=-1 for a container"
          : absl::StrCat("the kernel answers ", strerror(uring.register_error),
                         ": allow io_uring_register in this container's seccomp profile");
  page.Warn("locked memory",
            absl::StrCat(locked, "; too little to register ", size, " with io_uring"),
            absl::StrCat("transfers work all the same, at a little more cost each; ", cause));
}

void OpenFiles(const MachineFacts& facts, Page& page) {
  const Limit& limit = facts.open_files;
  if (limit.soft >= kFewFiles) {
    page.Ok("open files", LimitText(limit.soft, false));
    return;
  }
  page.Warn(
      "open files", LimitText(limit.soft, false),
      absl::StrCat("a run with many shards and swap paths needs some dozens: `ulimit -n ",
                   limit.hard >= 1024 ? "1024`" : "` with more, after raising the hard limit"));
}

// A status without its general remedy: the line has a particular one.
std::string Cause(const absl::Status& status) {
  return std::string(status.message().substr(0, status.message().find("; ")));
}

// The kernel's rotation flag of a virtual drive is a default, and no finding.
bool IsVirtualDrive(const PathFacts& path) {
  return absl::StartsWith(path.source, "/dev/vd") || absl::StartsWith(path.source, "/dev/xvd");
}

// False if nothing more can be found out about the path.
bool PathIsThere(const PathFacts& path, uint32_t user, Page& page) {
  if (!path.exists) {
    page.Bad("directory", Cause(path.status), absl::StrCat("create it: mkdir -p ", path.path));
    return false;
  }
  if (!path.is_directory) {
    page.Bad("directory", "is a file", "give a directory to --swap; files are made below it");
    return false;
  }
  if (path.writable) {
    page.Ok("directory", absl::StrCat("writable, of user ", path.owner));
    return true;
  }
  const std::string found = Cause(path.status);
  if (path.status.code() == absl::StatusCode::kResourceExhausted) {
    page.Bad("directory", found, "free some space there, or choose another path");
  } else {
    page.Bad("directory", absl::StrCat(found, " (it belongs to user ", path.owner, ")"),
             absl::StrCat("user ", user, " must be allowed to write there: chown or chmod it, ",
                          "remount it if it is read-only, or make a directory of your own below"));
  }
  return true;
}

void PathFilesystem(const PathFacts& path, Page& page) {
  const std::string name = path.filesystem.empty() ? "unknown" : path.filesystem;
  const std::string found = path.source.empty() || path.source == path.filesystem
                                ? name
                                : absl::StrCat(name, " on ", path.source);
  switch (KindOfFilesystem(path.filesystem)) {
    case FilesystemKind::kDisk:
      page.Ok("file system", found);
      return;
    case FilesystemKind::kMemory:
      page.Warn("file system", absl::StrCat(found, ": memory, not a disk"),
                "swapping there frees no memory: choose a path on a drive");
      return;
    case FilesystemKind::kNetwork:
      page.Warn(
          "file system", absl::StrCat(found, ": over the network"),
          "swap at the network's rate, shared with others: use a local NVMe drive for --swap, "
          "and this path for --output or --persist");
      return;
    case FilesystemKind::kOverlay:
      page.Warn("file system", absl::StrCat(found, ": the container's own layer"),
                "it is slow and gone with the container: mount a directory of the host "
                "(docker run -v /nvme:/nvme) and give that");
      return;
  }
}

void PathDirect(const PathFacts& path, Page& page) {
  if (!path.writable) return;
  if (!path.status.ok()) {
    page.Bad("trial file", std::string(path.status.message()),
             "a file could not be written and read back: look at the drive (dmesg, smartctl) or "
             "choose another path");
    return;
  }
  if (!path.direct) {
    page.Warn("O_DIRECT", "refused",
              "transfers go through the page cache, slower and with memory outside the budget: "
              "ext4 and xfs take O_DIRECT (ZFS from 2.3, with direct=standard)");
  } else if (kStoreAlignment % path.alignment_bytes != 0) {
    page.Bad(
        "O_DIRECT", absl::StrCat("in multiples of ", path.alignment_bytes, " bytes only"),
        absl::StrCat("tiles are aligned to ", kStoreAlignment, " bytes: choose another drive, ",
                     "or format its namespace with 4096-byte blocks (nvme format)"));
  } else {
    page.Ok("O_DIRECT", absl::StrCat("works, in multiples of ", path.alignment_bytes, " bytes"));
  }
  if (!path.reserves) {
    page.Warn(
        "reserving space", "not possible on this file system",
        "a disk that fills up ends a run in the middle: keep room for it, or use ext4 or xfs");
  }
}

void PathSpace(const PathFacts& path, Page& page) {
  const std::string found =
      absl::StrCat(FormatBytes(path.free_bytes), " free of ", FormatBytes(path.total_bytes));
  if (path.free_bytes < kLittleSpaceBytes) {
    page.Warn("free space", found,
              "a run takes 24 bytes a parameter with commits, 12 with --no-commit (bf16, AdamW): "
              "free some, or give several paths");
  } else {
    page.Ok("free space", found);
  }
  if (path.total_inodes > 0 && path.free_inodes < 16) {
    page.Bad("inodes", absl::StrCat(path.free_inodes, " free of ", path.total_inodes),
             "no file can be made there however much space is free: remove small files");
  }
  if (IsVirtualDrive(path)) {
    page.Ok("drive", "virtual: only a measurement tells how fast it is");
  } else if (path.rotational.has_value() && *path.rotational) {
    page.Warn("drive",
              absl::StrCat(path.drive.empty() ? "it" : path.drive, " says that it rotates"),
              "a hard disk gives 0.1 to 0.2 GB/s, an NVMe drive 3 to 14: use one if there is one");
  } else if (path.rotational.has_value()) {
    page.Ok("drive", path.drive.empty() ? "solid state" : path.drive + ", solid state");
  }
}

void Memory(const MachineFacts& facts, Page& page) {
  page.Section("Memory");
  std::string found = absl::StrCat(FormatBytes(facts.available_bytes), " available of ",
                                   FormatBytes(facts.memory_bytes));
  if (facts.cgroup_limit_bytes < facts.memory_bytes) {
    absl::StrAppend(&found, "; this cgroup may use ", FormatBytes(facts.cgroup_limit_bytes));
  }
  if (facts.spendable_bytes < kLittleMemoryBytes) {
    page.Warn("memory", found,
              "that is little to train with: end other programs, or raise the container's or job's "
              "limit (docker run -m, srun --mem)");
  } else {
    page.Ok("memory", found);
  }
  const std::string spendable = FormatBytes(facts.spendable_bytes);
  if (facts.device.ok() && facts.device->gpu) {
    const uint64_t device_bytes = GpuBudgetBytes(facts.device->gpu->free_bytes);
    page.Ok("budgets", absl::StrCat("without flags device memory gets ", FormatBytes(device_bytes),
                                    " of the GPU, host memory ", spendable));
  } else {
    page.Ok("budgets",
            absl::StrCat("without flags device and host memory get ", spendable, " together"));
  }
  const std::string& huge = facts.transparent_huge_pages;
  if (huge == "never") {
    page.Warn("huge pages", "transparent ones: never",
              "large buffers then cost more TLB misses: as root `echo madvise > "
              "/sys/kernel/mm/transparent_hugepage/enabled`");
  } else {
    page.Ok("huge pages", absl::StrCat("transparent ones: ", huge.empty() ? "unknown" : huge));
  }
  if (facts.huge_pages_free_bytes > facts.memory_bytes / 20) {
    page.Warn(
        "reserved pages",
        absl::StrCat(FormatBytes(facts.huge_pages_free_bytes), " in huge pages are held back"),
        "Spillway does not use them, and nobody else can: as root `sysctl vm.nr_hugepages=0`");
  }
}

void Processor(const MachineFacts& facts, Page& page) {
  page.Section("Processor");
  page.Ok("processor", facts.cpu.empty() ? "unknown" : facts.cpu);
  const std::string cores = absl::StrCat(facts.cores_allowed, " of ", facts.cores, " cores");
  if (facts.cores_quota > 0 && facts.cores_quota < facts.cores_allowed) {
    const int threads = std::max(1, static_cast<int>(facts.cores_quota));
    page.Warn("cores",
              absl::StrFormat("%s, and time for %.3g of them (cgroup)", cores, facts.cores_quota),
              absl::StrCat("more threads than that stand still in turns: train with --threads ",
                           threads, ", or raise the limit (docker run --cpus)"));
  } else {
    page.Ok("cores", cores);
  }
  const std::string features = absl::StrJoin(facts.cpu_features, " ");
  if (facts.simd == SimdTarget::kBaseline) {
    page.Warn("instructions", features.empty() ? "no AVX2" : features,
              "arithmetic is several times slower without AVX2: give a virtual machine the host's "
              "processor type (-cpu host), or use another machine");
  } else {
    page.Ok("instructions", features);
    page.Ok("update loops", absl::StrCat("run with ", SimdTargetName(facts.simd)));
  }
  std::string products;
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const DType compute = ChooseCompute(std::nullopt, dtype, false, facts.products);
    const std::string why = ComputeRemark(compute, dtype, false, facts.products);
    absl::StrAppend(&products, products.empty() ? "" : "; ", "--dtype ", DTypeName(dtype), " in ",
                    IsComputeMeasured(dtype, false, facts.products)
                        ? absl::StrCat(DTypeName(dtype), " or fp32, as measured for each model")
                        : DTypeName(compute),
                    why.empty() ? "" : ": ", why);
  }
  page.Ok("matrix products", products);
}

void Gpu(const MachineFacts& facts, Page& page) {
  const GpuFacts& gpu = facts.gpu;
  if (!gpu.management_library) {
    if (!gpu.kernel_driver) {
      page.Ok("GPU", "none: runs compute on the CPU");
      return;
    }
    page.Warn("GPU", "a driver is loaded, but libnvidia-ml.so.1 is not found",
              "start the container with the driver's libraries (docker run --gpus all, "
              "nvidia-container-toolkit on the host), or install the driver's user-space packages");
    return;
  }
  if (!gpu.error.empty()) {
    page.Warn("GPU driver", gpu.error,
              "the driver does not answer: nvidia-smi says more; after an update of the driver "
              "reboot, or reload its kernel modules");
    if (gpu.devices.empty()) return;
  }
  const std::string driver = absl::StrFormat(
      "%s, CUDA %d.%d", gpu.driver_version.empty() ? "unknown version" : gpu.driver_version,
      gpu.cuda_version / 1000, gpu.cuda_version % 1000 / 10);
  if (gpu.devices.empty()) {
    page.Warn("GPU", absl::StrCat("none, though there is a driver (", driver, ")"),
              "give the container or the job its GPUs (docker run --gpus all, srun --gpus 1)");
    return;
  }
  if (!gpu.compute_library) {
    page.Warn("GPU driver", absl::StrCat(driver, ", but libcuda.so.1 is not found"),
              "add the capability `compute` to the container (NVIDIA_DRIVER_CAPABILITIES="
              "compute,utility)");
  } else if (gpu.cuda_version < kCudaNeeded) {
    page.Warn("GPU driver", driver, "LibTorch wants CUDA 13: update the driver to 580 or newer");
  } else {
    page.Ok("GPU driver", driver);
  }
  for (size_t i = 0; i < gpu.devices.size(); ++i) {
    const GpuFacts::Device& device = gpu.devices[i];
    page.Ok(absl::StrCat("GPU ", i), absl::StrCat(device.name, ", ", FormatBytes(device.free_bytes),
                                                  " free of ", FormatBytes(device.total_bytes)));
  }
}

// Reports the device that computes. A GPU that exists and is not used deserves a warning.
void ComputeDevice(const MachineFacts& facts, Page& page) {
  if (!facts.device.ok()) {
    page.Bad("device", std::string(facts.device.status().message()),
             "mend that, or compute on the CPU: --device cpu");
  } else if (!facts.device->why_not_gpu.empty() && !facts.gpu.devices.empty()) {
    page.Warn("device", facts.device->Sentence(),
              "mend that to compute on the GPU; --device cpu says that the CPU is meant");
  } else {
    const std::string notice = facts.device->Notice(facts.gpu.hardware);
    page.Ok("device", notice.empty() ? "computing on the CPU" : notice);
  }
}

void Compute(const MachineFacts& facts, Page& page) {
  page.Section("Compute");
  const std::string torch =
      absl::StrCat(facts.torch_version, facts.torch_has_cuda ? ", with CUDA" : ", for the CPU",
                   facts.torch_folder.empty() ? "" : ", in ", facts.torch_folder);
  if (!facts.compute_library.ok()) {
    page.Bad("LibTorch", std::string(facts.compute_library.message()),
             "mend that: without it nothing is trained, generated or estimated");
  } else if (absl::StartsWith(facts.torch_version, kTorchTested)) {
    page.Ok("LibTorch", torch);
  } else {
    page.Warn("LibTorch", torch,
              absl::StrCat("Spillway is tested with ", kTorchTested,
                           "0: build with that one (tools/setup fetches it)"));
  }
  Gpu(facts, page);
  ComputeDevice(facts, page);
  const std::string launcher = absl::StrJoin(facts.launcher, ", ", absl::PairFormatter("="));
  page.Ok("launcher", launcher.empty() ? "none" : launcher);
}

}  // namespace

absl::string_view MarkName(Mark mark) {
  switch (mark) {
    case Mark::kOk:
      return "ok";
    case Mark::kWarn:
      return "warn";
    case Mark::kBad:
      return "bad";
  }
  return "";
}

std::vector<DoctorLine> Diagnose(const MachineFacts& facts) {
  Page page;
  page.Section("System");
  Kernel(facts, page);
  Uring(facts, page);
  OpenFiles(facts, page);
  for (const PathFacts& path : facts.paths) {
    page.Section(absl::StrCat("Path ", path.path));
    if (!PathIsThere(path, facts.user, page)) continue;
    PathFilesystem(path, page);
    PathDirect(path, page);
    PathSpace(path, page);
  }
  Memory(facts, page);
  Processor(facts, page);
  Compute(facts, page);
  return page.Take();
}

int DoctorExitCode(const std::vector<DoctorLine>& lines) {
  for (const DoctorLine& line : lines) {
    if (line.mark == Mark::kBad) return 1;
  }
  return 0;
}

}  // namespace spillway
