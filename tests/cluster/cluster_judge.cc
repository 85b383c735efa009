// What must hold when a life of a cluster has ended, and of its commit, its copies and an export.
#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/run/committed_run.h"
#include "engine/run/swap_inventory.h"
#include "engine/weights/model_files.h"
#include "io/own_files.h"
#include "tests/cluster/cluster_run_internal.h"

namespace spillway {

void ClusterRun::JudgeEnds(const Life& life) {
  const bool refused = disk_.faults().refusals() > refusals_before_;
  const bool sync_failed = disk_.faults().counts()[static_cast<int>(SimFault::kSyncError)] > 0;
  bool all = true;
  for (int rank = 0; rank < life.ranks; ++rank) {
    const absl::Status& end = life.ends[rank];
    all &= end.ok();
    if (end.ok() || Dead(rank)) continue;
    if (!refused && !disk_.any_crashed()) {
      Fail(absl::StrCat("rank ", rank, ", an error without a fault: ", end.ToString()));
    }
    if (absl::IsDataLoss(end) && !sync_failed) {
      Fail(absl::StrCat("rank ", rank, ", wrong bytes: ", end.ToString()));
    }
  }
  tally_.finished += all;
}

// Nothing is open; and where nothing went wrong, nothing is there but what belongs to the run.
void ClusterRun::JudgeFiles(const Life& life) {
  if (disk_.open_handles != 0) Fail(absl::StrCat(disk_.open_handles, " files are still open"));
  bool waiting = false;
  for (const std::string& name : disk_.Names()) {
    waiting |= absl::EndsWith(name, FileName(PreparedManifestPath(ParentPath(name))));
  }
  tally_.parts_waiting += waiting;
  const bool all = std::all_of(life.ends.begin(), life.ends.end(),
                               [](const absl::Status& end) { return end.ok(); });
  if (!all || disk_.any_crashed() || disk_.faults().refusals() > refusals_before_) return;
  std::set<std::string> used;
  for (int rank = 0; rank < life.ranks; ++rank) {
    const auto run = OpenCommit(CommitManifestPath(RankOutput(kClusterOutput, rank)), files_);
    if (!run.ok()) return Fail(absl::StrCat("no commit at the end: ", run.status().ToString()));
    for (const std::string& directory : run->store->directories()) used.insert(directory);
  }
  for (const std::string& name : disk_.Names()) {
    const std::string parent = ParentPath(name);
    if (IsSwapDirectoryName(FileName(parent))) {
      // What is left on a path that is used no more is found by `spillway clean` alone.
      if (moves_) continue;
      if (!used.contains(parent)) Fail(absl::StrCat(name, " is of no commit"));
    }
    if (IsAtomicWriteLeftover(name) || FileName(name) == FileName(PreparedManifestPath(parent))) {
      Fail(absl::StrCat(name, " was left behind"));
    }
    const std::string ranks = absl::StrCat(kClusterOutput, "/", kRanksName, "/");
    if (absl::StartsWith(name, ranks)) {
      const int rank = std::atoi(name.c_str() + ranks.size());
      if (rank >= life.ranks) Fail(absl::StrCat(name, " is of a rank that there is no more"));
    }
  }
}

void ClusterRun::JudgeCommitIn(const std::string& directory, const ClusterStates& allowed) {
  auto run = OpenCommittedRun(directory, files_);
  absl::Status status = run.status();
  if (status.ok()) status = run->OpenOtherParts(files_);
  if (!status.ok()) {
    return Fail(absl::StrCat("the commit in ", directory, " does not open: ", status.ToString()));
  }
  for (auto state = allowed.rbegin(); state != allowed.rend(); ++state) {
    if ((*state)->step != run->state.step) continue;
    bool same = true;
    status = run->source().read(0, shape_.num_planes(), [&](const TileView& tile) {
      same &= SimSameTile(tile, (*state)->oracle);
      return absl::OkStatus();
    });
    if (!status.ok()) {
      return Fail(absl::StrCat("the commit in ", directory, " can't be read: ", status.ToString()));
    }
    if (same && run->state.applied_steps == (*state)->applied) return;
  }
  Fail(absl::StrCat("the commit of step ", run->state.step, " in ", directory,
                    " is none of those that may be there"));
}

void ClusterRun::JudgeCommit() {
  if (!failure_.empty() || overwriting_ || part_lost_) return;
  const auto run = OpenCommittedRun(kClusterOutput, files_);
  if (absl::IsNotFound(run.status())) {
    // Of a run that goes on from a copy OUTPUT has none before it has moved.
    if (acknowledged_ > copied_)
      Fail(absl::StrCat("the commit of step ", acknowledged_, " is gone"));
    return;
  }
  JudgeCommitIn(kClusterOutput, may_be_found_);
}

std::vector<std::string> ClusterRun::WholeCopies() {
  std::vector<std::string> whole;
  for (const std::string& name : disk_.NamesIn(kClusterCopies)) {
    const std::string directory = absl::StrCat(kClusterCopies, "/", name);
    // A fault that is still armed may strike what is read here.
    if (disk_.Find(CommitManifestPath(directory)) == nullptr) continue;
    const auto run = OpenCommittedRun(directory, files_);
    bool all = true;
    for (int rank = 1; run.ok() && rank < run->state.part.ranks; ++rank) {
      const auto part = OpenCommittedRun(RankOutput(directory, rank), files_);
      const bool there = disk_.Find(CommitManifestPath(RankOutput(directory, rank))) != nullptr;
      // A name that came back with the power's loss may have no tiles.
      all &= there && (part.ok() ? part->state.part.commit_id == run->state.part.commit_id
                                 : !absl::IsDataLoss(part.status()));
    }
    if (all) whole.push_back(directory);
  }
  return whole;
}

// Each has a state that was committed, the last that was said to be made is among them, or later
// ones, and they are no fewer than then.
void ClusterRun::JudgeCopies() {
  if (!failure_.empty() || overwriting_) return;
  int64_t newest = -1;
  const std::vector<std::string> whole = WholeCopies();
  for (const std::string& directory : whole) {
    JudgeCommitIn(directory, committed_);
    newest =
        std::max<int64_t>(newest, std::atoll(FileName(directory).c_str() + std::strlen("step-")));
  }
  if (newest < copied_) Fail(absl::StrCat("the copy of step ", copied_, " is gone"));
  if (whole.size() < static_cast<size_t>(copies_)) {
    Fail(absl::StrCat("of ", copies_, " copies ", whole.size(), " are there"));
  }
}

// The model of the last commit, written by a process that may be killed, or whose machine loses its
// power: where config.json is there afterwards, all is.
void ClusterRun::JudgeExport() {
  if (shape_.residual) return;  // whose weights are not the exported numbers
  const int exporter = ProcessOf(4);
  absl::Status status;
  if (random_.OneIn(2)) {
    const auto kind = random_.OneIn(2) ? SimDisk::CrashKind::kKill : SimDisk::CrashKind::kPowerLoss;
    disk_.ArmCrash(kind, random_.Below(60), SimDisk::CrashAt::kCalls, exporter);
  }
  disk_.AddDirectory(ParentPath(kClusterExport));
  int64_t step = -1;
  world_.fibers().Begin(exporter, "an export", [&] {
    auto run = OpenCommittedRun(kClusterOutput, files_);
    status = run.status();
    if (status.ok()) status = run->OpenOtherParts(files_);
    if (!status.ok()) return;
    step = run->state.step;
    status = ExportModel(run->source(), SourceDirectory(kClusterOutput), kClusterExport,
                         {.dtype = DType::kBFloat16}, files_)
                 .status();
  });
  world_.RunFibers();
  const bool died = disk_.dead(exporter);
  disk_.Boot();
  if (!died && random_.OneIn(2)) disk_.LosePower();
  if (!died && !status.ok()) return Fail(absl::StrCat("no export: ", status.ToString()));
  if (disk_.Find(absl::StrCat(kClusterExport, "/config.json")) == nullptr) {
    if (!died) Fail("what was exported is gone");
    return;
  }
  const auto text = files_.ReadSmallFile(absl::StrCat(kClusterExport, "/model.safetensors"));
  if (!text.ok())
    return Fail(absl::StrCat("the export has no weights: ", text.status().ToString()));
  for (const auto& state : committed_) {
    if (state->step != step) continue;
    uint64_t found = 0;
    // In the order of the state, behind the header.
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, text->data(), 8);
    const char* at = text->data() + 8 + header_bytes;
    for (size_t unit = 0; unit < model_.units.size(); ++unit) {
      const uint64_t elements = model_.units[unit].parameters[0].elements;
      if (at + elements * 2 > text->data() + text->size()) break;
      bool same = true;
      for (uint64_t i = 0; i < elements; ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, at + 2 * i, 2);
        const uint16_t expected = state->oracle.weights[unit][i];
        const bool is_nan = (expected & 0x7f80) == 0x7f80;  // whose bits are nobody's concern
        same &= bits == expected || is_nan;
      }
      at += elements * 2;
      found += same;
    }
    if (found == model_.units.size()) {
      ++tally_.exports;
      return;
    }
  }
  Fail("what was exported is not what was committed");
}

}  // namespace spillway
