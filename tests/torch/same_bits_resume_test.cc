// The promise "exact" over commits: a run that was stopped ends with the bits of one that
// never was, wherever it goes on.
#include <filesystem>

#include "tests/torch/same_bits.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

class SameBitsResume : public SameBits {
 protected:
  // A signal after `stop_after` steps commits; the run then goes on from there.
  void CheckResume(DType dtype, double clip, const TrainOptions& first,
                   const TrainOptions& second) {
    constexpr int kStopAfter = 5;
    const RunOutcome plain = Run(InMemory(dtype, clip));
    TrainOptions options = first;
    options.output = Path(absl::StrCat("run", ++runs_));
    MadeTokens stopping(50, kSeqLen, kVocabulary);
    // The dry run may read a batch too: the step is checked below.
    stopping.StopAt(kStopAfter * options.accumulate);
    const RunOutcome stopped = TrainToTheEnd(model_, stopping, nullptr, nullptr, options);
    ASSERT_EQ(stopped.result.end, TrainResult::End::kStopped);
    EXPECT_EQ(stopped.result.stop_signal, SIGTERM);
    ASSERT_GE(stopped.result.step, kStopAfter - 1);
    ASSERT_LE(stopped.result.step, kStopAfter + 1);
    EXPECT_EQ(stopped.inspected["step"], stopped.result.step);
    EXPECT_EQ(stopped.inspected["finished"], false);

    TrainOptions resumed = second;
    resumed.output = options.output;
    resumed.resume = true;
    const RunOutcome outcome = Run(resumed);
    ExpectSameBits(plain, outcome, "resumed");
    // It did only what was left.
    EXPECT_EQ(Column(stopped, "loss").size(), stopped.result.step);
    EXPECT_EQ(outcome.result.first_loss, plain.rows[stopped.result.step]["loss"].get<double>());
  }
};

TEST_F(SameBitsResume, Bf16Immediate) {
  CheckResume(DType::kBFloat16, 0, Nvme(DType::kBFloat16), Nvme(DType::kBFloat16));
}
TEST_F(SameBitsResume, Bf16Clipped) {
  CheckResume(DType::kBFloat16, 0.5, Nvme(DType::kBFloat16, 0.5), Nvme(DType::kBFloat16, 0.5));
}
TEST_F(SameBitsResume, Fp16) {
  CheckResume(DType::kFloat16, 0, Nvme(DType::kFloat16), Nvme(DType::kFloat16));
}
TEST_F(SameBitsResume, FromMemoryToOtherSwapPaths) {
  TrainOptions first = InMemory(DType::kFloat32);
  first.no_commit = false;
  first.offload_optimizer = Offload::kCpu;
  TrainOptions second = Nvme(DType::kFloat32);
  second.swap_paths = {Path("b"), Path("c")};
  second.update = UpdateChoice::kDeferred;
  CheckResume(DType::kFloat32, 0, first, second);
}

TEST_F(SameBits, CommitsOnTheWayChangeNothing) {
  for (double clip : {0.0, 0.5}) {
    const RunOutcome plain = Run(InMemory(DType::kBFloat16, clip));
    TrainOptions options = Nvme(DType::kBFloat16, clip);
    options.commit_every = 2;
    const RunOutcome outcome = Run(options);
    ExpectSameBits(plain, outcome, absl::StrCat("clip ", clip));
    int commits = 0;
    for (const auto& row : outcome.rows) commits += row["commit_seconds"] > 0.0;
    EXPECT_GE(commits, 3);
  }
}

// --- Copies of commits.

class SameBitsPersist : public SameBits {
 protected:
  TrainOptions WithCopies() {
    TrainOptions options = Nvme(DType::kBFloat16, 0.5);
    options.output = Path("run");
    options.persist = Path("keep");
    options.keep = 2;
    options.commit_every = 2;
    return options;
  }

  // Stopped after step 6 at the latest, with copies of two commits at least.
  void RunAPart() {
    TrainOptions options = WithCopies();
    MadeTokens stopping(50, kSeqLen, kVocabulary);
    stopping.StopAt(5 * options.accumulate);
    const RunOutcome stopped = TrainToTheEnd(model_, stopping, nullptr, nullptr, options);
    ASSERT_EQ(stopped.result.end, TrainResult::End::kStopped);
    stopped_after_ = stopped.result.step;
    const auto copies = Copies();
    ASSERT_EQ(copies.size(), 2u);
    EXPECT_EQ(copies.rbegin()->first, stopped_after_);
  }

  std::map<int64_t, fs::path> Copies() {
    std::map<int64_t, fs::path> copies;
    for (const auto& entry : fs::directory_iterator(Path("keep"))) {
      const auto run = OpenCommittedRun(entry.path().string());
      if (run.ok()) copies[run->state.step] = entry.path();
    }
    return copies;
  }

  // Goes on after step `from`, on other swap paths, and ends like an undisturbed run.
  void ResumeFrom(int64_t from) {
    const RunOutcome plain = Run(InMemory(DType::kBFloat16, 0.5));
    TrainOptions options = WithCopies();
    options.swap_paths = {Path("b"), Path("c")};
    options.resume = true;
    const RunOutcome outcome = Run(options);
    EXPECT_EQ(plain.digests, outcome.digests);
    EXPECT_TRUE(plain.exported == outcome.exported);
    EXPECT_EQ(outcome.result.first_loss, plain.rows[from]["loss"].get<double>());
    const auto copies = Copies();
    ASSERT_EQ(copies.size(), 2u);
    EXPECT_EQ(copies.rbegin()->first, kSteps);
    EXPECT_EQ((*InspectRun(copies.rbegin()->second.string()))["digests"], plain.digests);
  }

  // Changes one byte of the last file of `directory`'s state.
  void Damage(const fs::path& directory) {
    const fs::path tiles = directory / "tiles";
    std::fstream file(tiles, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(5000);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(5000);
    file.put(byte);
    ASSERT_TRUE(file.good());
  }

  int64_t stopped_after_ = 0;
};

TEST_F(SameBitsPersist, TheCopyIsUsedWhenTheSwapPathsAreWiped) {
  RunAPart();
  fs::remove_all(Path("a"));
  ResumeFrom(stopped_after_);
}

TEST_F(SameBitsPersist, TheCopyIsUsedWhenOutputIsGoneToo) {
  RunAPart();
  fs::remove_all(Path("a"));
  fs::remove_all(Path("run"));
  // A copy is whole in itself, wherever it is.
  fs::rename(Path("keep"), Path("moved"));
  TrainOptions options = WithCopies();
  options.persist = Path("moved");
  options.swap_paths = {Path("b")};
  options.resume = true;
  const RunOutcome plain = Run(InMemory(DType::kBFloat16, 0.5)), outcome = Run(options);
  EXPECT_EQ(plain.digests, outcome.digests);
}

TEST_F(SameBitsPersist, AnOlderGoodCommitWinsOverNewerDamagedOnes) {
  RunAPart();
  const auto copies = Copies();
  Damage(copies.rbegin()->second);
  for (const auto& entry : fs::directory_iterator(Path("a"))) Damage(entry.path());
  // Whatever slot the byte is in, the commit in OUTPUT must not be the one.
  fs::remove(Path("run") + "/manifest-rank0");
  ResumeFrom(copies.begin()->first);
}

TEST_F(SameBitsPersist, TheCommitInOutputIsUsedWhereItIsTheNewest) {
  RunAPart();
  const auto copies = Copies();
  fs::remove_all(copies.rbegin()->second);
  ResumeFrom(stopped_after_);
}

TEST_F(SameBitsPersist, WithoutAGoodCommitNothingIsTrained) {
  RunAPart();
  for (const auto& [step, directory] : Copies()) Damage(directory);
  fs::remove_all(Path("a"));
  TrainOptions options = WithCopies();
  options.swap_paths = {Path("b")};
  options.resume = true;
  MadeTokens data(50, kSeqLen, kVocabulary);
  const auto refused = Train(model_, data, nullptr, nullptr, options);
  EXPECT_EQ(ExitCodeOf(refused.status()), 4) << refused.status();
  options.resume = false;
  const auto in_the_way = Train(model_, data, nullptr, nullptr, options);
  EXPECT_EQ(ExitCodeOf(in_the_way.status()), 2) << in_the_way.status();
  EXPECT_EQ(Copies().size(), 2u);
}

}  // namespace
}  // namespace spillway
