// The parts of a cluster's run: what it draws and how lives follow each other (cluster_run.cc),
// what a rank does in one (cluster_rank.cc), and what must hold afterwards (cluster_judge.cc).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/model_description.h"
#include "engine/options/train_options.h"
#include "engine/ranks/shard_grid.h"
#include "engine/run/run_state.h"
#include "engine/run/run_storage.h"
#include "swap/mover/swap_manager.h"
#include "tests/cluster/cluster_run.h"
#include "tests/cluster/sim_network.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_file_system.h"
#include "tests/sim/sim_model.h"

namespace spillway {

inline constexpr char kClusterOutput[] = "/sim/runs/out";
inline constexpr char kClusterCopies[] = "/sim/copies";
inline constexpr char kClusterExport[] = "/sim/export";

// The state of all ranks after a step.
struct ClusterState {
  int64_t step = 0;
  int64_t applied = 0;
  SimOracle oracle;
};
using ClusterStates = std::vector<std::shared_ptr<const ClusterState>>;

class ClusterRun {
 public:
  // `crash`: null: what the seed draws.
  ClusterRun(uint64_t seed, bool print_trace, const ClusterCrash* crash = nullptr)
      : world_(seed, print_trace),
        random_(world_.random()),
        disk_(world_),
        files_(disk_),
        crash_(crash) {}

  ClusterResult Go();
  bool struck() const { return struck_; }

 private:
  // One life of the ranks, from their start to the end of the last.
  struct Life {
    int ranks = 1, group = 1;
    bool persist = false, overwrite = false, last = false;
    std::vector<std::string> swap_paths;
    UpdateMode update = UpdateMode::kImmediate;
    SimShape shard;  // of every rank
    StepSchedule schedule;
    SwapPlan plan;
    SwapManagerOptions options;
    int steps = 1, commit_every = 1;
    std::unique_ptr<SimNetwork> network;
    // From the state that it began with on; whichever rank comes to a step first computes it.
    ClusterStates states;
    std::vector<absl::Status> ends;  // [rank]
  };
  // What a rank has in one.
  struct Rank {
    int number = 0;
    ShardGrid grid;
    std::unique_ptr<Collectives> world, commits;  // null: it is alone
    std::unique_ptr<RunStorage> storage;
    RunState state;
    std::unique_ptr<SwapStore> store;
    MemoryBudget budget{"sim", uint64_t{1} << 32};
    std::unique_ptr<Arena> host, device;
    std::unique_ptr<SimCompute> compute;
    std::unique_ptr<SwapManager> manager;
    size_t at = 0;  // of the life's states
  };

  // --- cluster_run.cc
  void DrawModel();
  void DrawSwapPaths();
  std::unique_ptr<Life> DrawLife(bool last);
  void ArmLife(const Life& life);
  void LiveOnce(bool last);
  void LoseScratch();
  void LosePart();

  // --- cluster_rank.cc
  absl::Status LiveRank(Life& life, Rank& rank);
  TrainOptions OptionsOf(const Life& life, int rank) const;
  absl::Status SetUp(Life& life, Rank& rank);
  void BeginFrom(Life& life, RunStorage& storage);
  absl::Status BringFirstState(Life& life, Rank& rank);
  absl::Status TakeStep(Life& life, Rank& rank);
  absl::Status RunOps(Life& life, Rank& rank, uint64_t salt);
  const ClusterState& After(Life& life, size_t at, uint64_t salt, bool skip);
  absl::Status Commit(Life& life, Rank& rank);
  absl::Status Compare(const Life& life, Rank& rank);
  absl::Status Finish(Life& life, Rank& rank);
  void Acknowledge(const Rank& rank, int64_t step, bool of_several);
  void CheckWeights(const Life& life, const Rank& rank, const OpBuffers& buffers);

  // --- cluster_judge.cc
  void JudgeEnds(const Life& life);
  void JudgeFiles(const Life& life);
  void JudgeCommit();
  // Whether the commit in `directory` opens and is one of those it may be.
  void JudgeCommitIn(const std::string& directory, const ClusterStates& allowed);
  void JudgeCopies();
  // The directories of those that have the manifests of all their ranks.
  std::vector<std::string> WholeCopies();
  void JudgeExport();

  bool Dead(int rank) const { return disk_.dead(ProcessOf(rank)); }
  // Process 0 is whoever looks at things from outside.
  static int ProcessOf(int rank) { return rank + 1; }
  void Fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
  }

  SimWorld world_;
  SimRandom& random_;
  SimDisk disk_;
  SimFileSystem files_;
  const ClusterCrash* const crash_;
  int lives_ = 0;  // so far
  bool struck_ = false;
  ClusterTally tally_;
  std::string failure_;

  ModelDescription model_;
  SimShape shape_;  // of whole units, without padding
  bool refusals_ = false, persists_ = false;
  bool moves_ = false;  // its lives are on other swap paths
  std::vector<std::string> swap_paths_;
  int keep_ = 1;            // copies
  bool has_source_ = true;  // OUTPUT has the model's files

  // Commits that may be found: the last one that a rank has acknowledged, and those begun since.
  ClusterStates may_be_found_;
  int64_t acknowledged_ = -1;  // its step
  // An --overwrite has begun and not come to its end: who asked for it asks again. Until then what
  // was there is there, in part or not at all.
  bool overwriting_ = false;
  bool part_lost_ = false;  // of the commit in OUTPUT, until another has replaced it
  // The last copy that was said to be made, and every state that was ever committed.
  int64_t copied_ = -1;
  int copies_ = 0;  // that were there then
  ClusterStates committed_;
  uint64_t refusals_before_ = 0;  // this life
};

}  // namespace spillway
