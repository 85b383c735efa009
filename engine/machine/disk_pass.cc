#include "engine/machine/disk_pass.h"

#include <algorithm>

#include "io/base/check.h"
#include "io/base/clock.h"
#include "io/base/status.h"

namespace spillway {
absl::StatusOr<std::unique_ptr<File>> OpenNamelessFile(const std::string& folder,
                                                       uint64_t size_bytes) {
  ASSIGN_OR_RETURN(auto file, File::CreateNameless(folder, /*direct=*/true));
  RETURN_IF_ERROR(file->Preallocate(size_bytes));
  return file;
}

double DiskPassResult::bytes_per_second() const {
  return static_cast<double>(bytes()) / std::max(1e-9, seconds);
}

DiskPass::DiskPass(IoEngine* engine, std::vector<const File*> files, char* buffer,
                   uint64_t block_bytes, int window)
    : engine_(engine), files_(std::move(files)), buffer_(buffer), block_bytes_(block_bytes) {
  SPILLWAY_CHECK(!files_.empty() && window > 0);
  slots_.resize(window);
}

absl::StatusOr<DiskPassResult> DiskPass::Run(const DiskPassOptions& options) {
  const uint64_t files = files_.size();
  rows_ = std::max<uint64_t>(options.file_bytes / block_bytes_, 1);
  result_ = DiskPassResult();
  for (Slot& slot : slots_) slot.busy = false;
  const double began = MonotonicSeconds();
  const double processor_began = ProcessorSeconds();
  const uint64_t half = (slots_.size() + 1) / 2;  // kBoth: this many slots read
  // With kBoth reads and writes go through the files separately, the writes half a file ahead;
  // otherwise there is one sequence, [0].
  uint64_t next[2] = {0, rows_ / 2 * files};
  uint64_t started = 0;
  while (true) {
    for (size_t i = 0; i < slots_.size() && failure_.ok(); ++i) {
      if (slots_[i].busy) continue;
      if (options.blocks > 0 && started >= options.blocks) break;
      if (started > 0 && MonotonicSeconds() - began > options.seconds) break;
      if (options.stopped && options.stopped()) {
        failure_.Update(absl::CancelledError("stopped"));
        break;
      }
      const bool both = options.mix == PassMix::kBoth;
      const int line = both && i >= half ? 1 : 0;
      const uint64_t block = next[line]++;
      const bool read = both ? line == 0
                             : options.mix == PassMix::kRead ||
                                   (options.mix == PassMix::kAlternate && block / files % 2 == 0);
      Submit(slots_[i], i, block, read);
      ++started;
    }
    if (engine_->pending() == 0) break;
    engine_->Poll(absl::Seconds(1));
  }
  RETURN_IF_ERROR(failure_);
  result_.seconds = MonotonicSeconds() - began;
  result_.processor_seconds = ProcessorSeconds() - processor_began;
  return result_;
}

void DiskPass::Submit(Slot& slot, size_t index, uint64_t block, bool read) {
  slot.pass = this;
  slot.busy = true;
  slot.request = IoRequest();
  slot.request.op = read ? IoOp::kRead : IoOp::kWrite;
  slot.request.io_class = read ? IoClass::kPrefetch : IoClass::kWriteBack;
  slot.request.file = files_[block % files_.size()];
  slot.request.offset_bytes = block / files_.size() % rows_ * block_bytes_;
  slot.request.data = buffer_ + index * block_bytes_;
  slot.request.size_bytes = block_bytes_;
  slot.request.context = &slot;
  slot.request.done = [](IoRequest& request, const absl::Status& status) {
    auto* slot = static_cast<Slot*>(request.context);
    slot->busy = false;
    slot->pass->failure_.Update(status);
    (request.op == IoOp::kRead ? slot->pass->result_.read_bytes
                               : slot->pass->result_.written_bytes) += request.size_bytes;
  };
  engine_->Submit(&slot.request);
}

}  // namespace spillway
