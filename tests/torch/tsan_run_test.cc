// Short whole runs with LibTorch for the thread sanitizer, which does not know OpenMP: one
// compute thread, and all of ours beside it. Elsewhere they are one more check of bits.
#include "tests/torch/same_bits.h"

namespace spillway {
namespace {

class TsanRun : public SameBits {
 protected:
  TrainOptions Short(TrainOptions options) const {
    options.steps = 4;
    return options;
  }

  void Check(DType dtype, double clip, UpdateChoice update) {
    const RunOutcome plain = Run(Short(InMemory(dtype, clip)));
    TrainOptions nvme = Short(Nvme(dtype, clip));
    nvme.update = update;
    nvme.commit_every = 1;
    nvme.persist = Path("keep");
    nvme.swap_paths = {Path("a"), Path("b")};
    const RunOutcome outcome = Run(nvme);
    EXPECT_EQ(Column(plain, "loss"), Column(outcome, "loss"));
    EXPECT_EQ(plain.digests, outcome.digests);
    TrainOptions threads = Short(Nvme(dtype, clip));
    threads.io.kind = IoEngineOptions::Kind::kThreads;
    SetSmallestBudgets(threads);
    threads.output.clear();
    EXPECT_EQ(plain.digests, Run(threads).digests);
  }
};

TEST_F(TsanRun, ImmediateUpdates) { Check(DType::kBFloat16, 0, UpdateChoice::kImmediate); }
TEST_F(TsanRun, DeferredUpdates) { Check(DType::kFloat32, 0.5, UpdateChoice::kDeferred); }
TEST_F(TsanRun, HalfPrecision) { Check(DType::kFloat16, 0, UpdateChoice::kAuto); }

}  // namespace
}  // namespace spillway
