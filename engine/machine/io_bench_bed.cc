#include "engine/machine/io_bench_bed.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/machine/disk_pass.h"
#include "io/base/clock.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/create_io_engine.h"

namespace spillway {
namespace {

ChecksumIdentity IdentityOf(uint64_t block) { return {.tile = block}; }

// A file without a name in `directory`, with `size_bytes` reserved.
absl::StatusOr<std::unique_ptr<File>> MakeNameless(const std::string& directory,
                                                   uint64_t size_bytes) {
  ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeSpaceBytes(directory));
  if (size_bytes > free_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the benchmark's file needs ", size_bytes >> 20, " MiB in ", directory, ", and ",
        free_bytes >> 20, " MiB are free there: choose a smaller --size or another --path"));
  }
  return OpenNamelessFile(directory, size_bytes);
}

void FillWithNoise(char* data, uint64_t size_bytes) {
  // splitmix64: incompressible for any drive.
  uint64_t state = 0x5b111a;
  for (uint64_t at = 0; at + 8 <= size_bytes; at += 8) {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    std::memcpy(data + at, &z, 8);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<IoBenchBed>> IoBenchBed::Create(const IoBenchOptions& options,
                                                               uint32_t slots) {
  std::unique_ptr<IoBenchBed> bed(new IoBenchBed(options));
  if (options.directories.empty()) return absl::InvalidArgumentError("name at least one --path");
  const uint64_t paths = options.directories.size();
  const uint64_t row_bytes = options.io.block_bytes * paths;
  bed->num_blocks_ = options.size_bytes / row_bytes * paths;
  const uint64_t least = options.io.depth + (options.op == IoBenchOp::kDemand ? 1 : 0);
  if (bed->num_blocks_ < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--size ", FormatBytes(options.size_bytes), " is too little for ", least, " blocks of ",
        FormatBytes(options.io.block_bytes), " at a time: use at least ",
        FormatBytesForFlag((least + paths - 1) / paths * row_bytes),
        ", or a smaller --block or --depth"));
  }
  slots = static_cast<uint32_t>(std::min<uint64_t>(slots, bed->num_blocks_));
  RETURN_IF_ERROR(bed->MakeFiles());
  RETURN_IF_ERROR(bed->MakeBuffer(slots));
  IoEngineOptions io = options.io;
  io.memory = {{bed->buffer_, bed->buffer_bytes_}};
  for (const auto& file : bed->files_) io.files.push_back(file.get());
  io.announce = false;
  ASSIGN_OR_RETURN(bed->engine_, CreateIoEngine(io));
  RETURN_IF_ERROR(bed->FillFiles());
  return bed;
}

IoBenchBed::~IoBenchBed() {
  engine_ = nullptr;
  if (buffer_ != nullptr) ::munmap(buffer_, buffer_bytes_);
}

absl::Status IoBenchBed::MakeFiles() {
  const uint64_t file_bytes = num_blocks_ / options_.directories.size() * options_.io.block_bytes;
  for (const std::string& directory : options_.directories) {
    ASSIGN_OR_RETURN(std::unique_ptr<File> file, MakeNameless(directory, file_bytes));
    if (options_.io.block_bytes % file->alignment_bytes() != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--block ", options_.io.block_bytes, ": direct I/O in ", directory,
                       " needs a multiple of ", file->alignment_bytes(), " bytes"));
    }
    files_.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status IoBenchBed::MakeBuffer(uint32_t slots) {
  buffer_bytes_ = uint64_t{slots} * options_.io.block_bytes;
  void* memory =
      ::mmap(nullptr, buffer_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return ErrnoStatus(errno, absl::StrCat("get a buffer of ", buffer_bytes_, " bytes"));
  }
  ::madvise(memory, buffer_bytes_, MADV_HUGEPAGE);
  buffer_ = static_cast<char*>(memory);
  FillWithNoise(buffer_, buffer_bytes_);
  slots_.resize(slots);
  for (uint32_t i = 0; i < slots; ++i) {
    slots_[i].data = buffer_ + uint64_t{i} * options_.io.block_bytes;
    slots_[i].size_bytes = options_.io.block_bytes;
  }
  under_way_.resize(num_blocks_);
  if (options_.verify) checksums_.resize(num_blocks_);
  return absl::OkStatus();
}

uint64_t IoBenchBed::Submit(BenchSlot& slot, IoOp op, IoClass io_class, uint64_t wanted) {
  uint64_t block = wanted % num_blocks_;
  while (under_way_[block]) block = (block + 1) % num_blocks_;
  under_way_[block] = true;
  slot.bed = this;
  slot.done = [](IoRequest& request, const absl::Status& status) {
    auto& slot = static_cast<BenchSlot&>(request);
    slot.bed->under_way_[slot.block] = false;
    slot.finished(slot, status);
  };
  slot.op = op;
  slot.io_class = io_class;
  slot.block = block;
  slot.file = files_[block % files_.size()].get();
  slot.offset_bytes = block / files_.size() * options_.io.block_bytes;
  slot.submitted_ns = MonotonicNanoseconds();
  if (op == IoOp::kWrite && options_.verify) {
    ++writes_;
    std::memcpy(slot.data, &writes_, sizeof(writes_));
    checksums_[block] = Checksum(IdentityOf(block), slot.data, slot.size_bytes);
  }
  engine_->Submit(&slot);
  return block;
}

absl::Status IoBenchBed::Check(const BenchSlot& slot) const {
  if (!options_.verify ||
      Checksum(IdentityOf(slot.block), slot.data, slot.size_bytes) == checksums_[slot.block]) {
    return absl::OkStatus();
  }
  return WrongBytesError(absl::StrCat("read ", slot.size_bytes, " bytes at offset ",
                                      slot.offset_bytes, " of ", slot.file->path(),
                                      ": not what was written there"));
}

bool IoBenchBed::direct() const {
  for (const auto& file : files_) {
    if (!file->direct()) return false;
  }
  return true;
}

// Written as prefetch, which no window limits.
absl::Status IoBenchBed::FillFiles() {
  struct Fill {
    IoBenchBed* bed;
    uint64_t next = 0;
    absl::Status status = {};
    void Submit(BenchSlot& slot) {
      if (status.ok() && bed->stopped()) status = absl::CancelledError("stopped");
      if (next < bed->num_blocks_ && status.ok()) {
        bed->Submit(slot, IoOp::kWrite, IoClass::kPrefetch, next++);
      }
    }
  } fill = {.bed = this};
  for (BenchSlot& slot : slots_) {
    slot.context = &fill;
    slot.finished = [](BenchSlot& slot, const absl::Status& status) {
      auto& fill = *static_cast<Fill*>(slot.context);
      fill.status.Update(status);
      fill.Submit(slot);
    };
    fill.Submit(slot);
  }
  while (engine_->pending() > 0) engine_->Poll(absl::Seconds(1));
  RETURN_IF_ERROR(fill.status);
  for (const auto& file : files_) RETURN_IF_ERROR(file->Sync());
  return absl::OkStatus();
}

}  // namespace spillway
