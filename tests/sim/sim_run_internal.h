// One seed's run: what it draws, its lives one after another, and what must hold of them.
// The parts are in sim_run.cc (drawing, from life to life), sim_life.cc and sim_judge.cc.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "swap/mover/swap_manager.h"
#include "tests/device/test_device.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_file_system.h"
#include "tests/sim/sim_model.h"
#include "tests/sim/sim_run.h"

namespace spillway {

inline constexpr char kSimCopyDirectory[] = "/sim/copy";

// A commit as the oracle has it.
struct SimCommit {
  uint64_t step;
  int64_t applied;
  SimOracle state;
};

class SimRun {
 public:
  SimRun(uint64_t seed, bool print_trace)
      : world_(seed, print_trace), random_(world_.random()), disk_(world_), files_(disk_) {}

  SimResult Go();

 private:
  // One life of the program, from its start to its end, good or bad.
  struct Life {
    UpdateMode update;
    StepSchedule schedule;
    SwapPlan plan;
    SwapManagerOptions options;
    MemoryBudget budget{"sim", uint64_t{1} << 32};
    std::unique_ptr<TestDevice> gpu;  // null: it computes in the host's memory
    std::unique_ptr<Arena> host, device;
    explicit Life(const SimShape& shape) : compute(shape) {}

    SimCompute compute;
    std::unique_ptr<SwapStore> store;
    std::unique_ptr<SwapManager> manager;
    int steps = 0;
    uint64_t salt = 0;  // in its inputs, so that no other life has the same
    bool last = false;  // nothing goes wrong any more, and it runs to its end
    bool enqueued = false;
    FirstRead first_read;  // of the training program that was enqueued last
  };

  void DrawShape();
  void DrawFaults();
  void ArmLife();
  std::unique_ptr<Life> DrawLife(bool last);
  void LiveOnce(bool last);
  absl::Status Live(Life& life);
  absl::Status OpenStore(Life& life);
  absl::Status CreateStore(Life& life);
  absl::Status CheckTile(const SwapStore& store);
  absl::Status Train(Life& life);
  absl::Status TrainStep(Life& life, bool more);
  void EnqueueTraining(Life& life);
  absl::Status RestAWhile(Life& life);
  absl::Status MaybeCommit(Life& life);
  absl::Status Commit(Life& life);
  absl::Status GiveUp(Life& life);
  absl::Status RunOps(Life& life, int count, bool train, const FirstRead& first_read = {});
  absl::Status Compare(Life& life);
  absl::Status CopyCommit();
  // What an operation does: it looks at its weights, adds to its sums, and looks again.
  struct Op {
    OpBuffers buffers;
    int number = 0;
    uint64_t step = 0, salt = 0;
    bool train = false;
    FirstRead first_read = {};  // of its program
    // [unit], as they are in the step that it belongs to
    std::shared_ptr<const std::vector<std::vector<uint16_t>>> weights;
  };
  void CheckWeights(const Op& op);
  bool AreTheOracles(const Op& op, size_t i, const std::vector<int>& tiles) const;
  void AddGradient(const Op& op, size_t i);
  void LaunchOp(Life& life, const Op& op);
  void UseInputs(const Op& op);
  void LetItGoOn(Life& life);
  void JudgeEnd(const absl::Status& status);
  void JudgeFiles();
  void JudgeCommit();
  void JudgeCommitAt(const std::string& manifest_path, const SimCommit& last,
                     const SimCommit* under_way);

  // Something that must hold does not.
  void Fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
  }

  SimWorld world_;
  SimRandom& random_;
  SimDisk disk_;
  SimFileSystem files_;
  SimTally tally_;
  std::string failure_;

  SimShape shape_;
  std::vector<std::string> directories_;
  std::string manifest_path_;
  bool refusals_ = false, lies_ = false;  // what the seed has in store

  // The oracle, and what of it is committed.
  std::optional<SimOracle> oracle_;
  uint64_t step_ = 0;
  int64_t applied_ = 0;
  std::optional<SimCommit> acknowledged_, under_way_;
  std::optional<SimCommit> copied_;  // to a store of one slot
  // Of the faults, those before this life.
  uint64_t refusals_before_ = 0, lies_before_ = 0;
  int lives_with_lies_ = 0;
};

}  // namespace spillway
