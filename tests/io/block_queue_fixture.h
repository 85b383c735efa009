// What tests of the block queue share: requests that note what becomes of them, and files and
// memory for them. No disk is read: the tests answer for it.
#pragma once

#include <memory>

#include "gtest/gtest.h"
#include "io/block_queue.h"
#include "io/file.h"
#include "tests/io/io_testing.h"

namespace spillway {

// A request that notes what becomes of it. Its address stays: `context`.
struct Recorded : IoRequest {
  Recorded(const File* f, IoOp o, uint64_t offset, char* d, uint64_t size,
           IoClass c = IoClass::kDemand) {
    op = o;
    io_class = c;
    file = f;
    offset_bytes = offset;
    data = d;
    size_bytes = size;
    done = [](IoRequest& request, const absl::Status& status) {
      auto& self = static_cast<Recorded&>(request);
      ++self.calls;
      self.result = status;
    };
  }
  int calls = 0;
  absl::Status result = absl::UnknownError("done has not run");
};

class BlockQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    auto buffered =
        File::Open(scratch_ / "buffered", {.write = true, .create = true, .direct = false});
    ASSERT_TRUE(buffered.ok()) << buffered.status();
    file_ = *std::move(buffered);
    auto direct = File::Open(scratch_ / "direct", {.write = true, .create = true});
    ASSERT_TRUE(direct.ok()) << direct.status();
    direct_ = *std::move(direct);
  }

  // From now on the window is in force.
  void ReportDemand(BlockQueue& queue) {
    Recorded demand(file_.get(), IoOp::kRead, 0, memory_.data(), 0, IoClass::kDemand);
    queue.Add(&demand);
    queue.RunCallbacks();
  }

  ScratchDirectory scratch_;
  std::unique_ptr<File> file_;
  std::unique_ptr<File> direct_;
  AlignedMemory memory_{1 << 20};
};

}  // namespace spillway
