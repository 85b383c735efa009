// What a commit says of a run beside its tiles: how far it is, what it is, and what a
// resumed run must agree with. JSON inside the manifest.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_description.h"
#include "engine/model/state_buffer.h"
#include "engine/numeric/loss_scale.h"
#include "engine/numeric/metric_schedule.h"
#include "engine/options/run_change.h"
#include "engine/options/train_options.h"
#include "io/file_system.h"

namespace spillway {

// Of a commit of several ranks, what this one's manifest is of it.
struct RankPart {
  int rank = 0;
  int ranks = 1;
  int group = 1;          // as in ShardGrid
  std::string commit_id;  // the same in the manifests of all ranks, and in no other commit's

  friend bool operator==(const RankPart&, const RankPart&) = default;
};

struct RunState {
  int64_t step = 0;           // steps behind it
  int64_t samples = 0;        // of all epochs, that they have taken: the data cursor
  int64_t applied_steps = 0;  // of these, not skipped: what bias corrections count
  bool finished = false;
  LossScaleState loss_scale;
  MetricScheduleState metric_schedule = {};  // of a schedule that follows evaluations
  DType dtype = DType::kBFloat16;
  int threads = 0;
  // (name, value) pairs that must be the same on resume.
  std::vector<std::pair<std::string, std::string>> identity;
  std::vector<RunChange> changes = {};  // of it, since the run began
  ModelDescription model;
  std::vector<StateBuffer> buffers = {};
  std::vector<float> factored_moments = {};  // FactoredMoments::values()
  // Where the store is: the parents, and how often the run has moved.
  std::vector<std::string> parents;
  int store_number = 0;
  RankPart part;
};

// Where rank `rank` writes the manifest of its commits, in an OUTPUT or a copy of a commit or, of a
// later rank, its own directory there (RankOutput).
std::string ManifestPath(const std::string& directory, int rank);
// Where it waits until the first rank's has been renamed, which decides that the commit is one
// (engine/run/rank_commit.h).
std::string PreparedManifestPath(const std::string& directory, int rank);
// The manifest's name after a finished run's state was freed (engine/run/kept_state.h).
std::string FreedManifestPath(const std::string& directory, int rank);

// The rank whose own directory this is, by its name, 0 of any other. An OUTPUT may be called so,
// too.
int RankByName(const std::string& directory);
// Of that rank.
std::string PreparedManifestPath(const std::string& directory);
// The manifest of the commit in `directory`: the first rank's, which no later rank's own directory
// has; else that of RankByName; else where MovedManifestPath says.
std::string CommitManifestPath(const std::string& directory,
                               FileSystem& files = FileSystem::Real());
// A manifest in `directory` of another rank than RankByName: that of an OUTPUT which is called as
// a rank's directory is, or was when a version before this one made the commit. "": there is none.
absl::StatusOr<std::string> MovedManifestPath(const std::string& directory, FileSystem& files);

// Where rank r keeps what is its own of a run: OUTPUT, and OUTPUT/ranks/r of the others.
std::string RankOutput(const std::string& output, int rank);
inline constexpr char kRanksName[] = "ranks";

// REQUIRES: CheckEncodable.
std::string EncodeRunState(const RunState& state);
// kInvalidArgument that names what of the paths and values in `state` is no UTF-8, as JSON is.
absl::Status CheckEncodable(const RunState& state);
// kDataLoss for what EncodeRunState would not have written, kInvalidArgument for another
// version. Pure.
absl::StatusOr<RunState> DecodeRunState(const std::string& text);

// Names in an identity of what a run that is resumed takes from its commit where nothing is said:
// how samples lie ("padded", "packed to the maximum"; windows are not named), and the day that its
// chat template writes.
inline constexpr char kSamplesName[] = "samples", kChatDateName[] = "chat-date";

// The values of `options` that decide a run's bits, by the flags' names, with
// options.identity in front. The version of the identity is one of them.
std::vector<std::pair<std::string, std::string>> RunIdentity(const TrainOptions& options);

// The differences that `allowed` (names of ChangeableNames) covers, as changes from the step after
// the commit on; kInvalidArgument that names every other one, with what may be done. What is the
// machine's (device, LibTorch, instruction set) is no reason to refuse: a warning names it. What a
// commit of an earlier version does not say is taken to be the same, with a notice. `data_name`:
// the files that the data are in.
absl::StatusOr<std::vector<RunChange>> CompareIdentity(
    const RunState& committed, const std::vector<std::pair<std::string, std::string>>& now,
    const std::vector<std::string>& allowed = {}, const std::string& data_name = "");

}  // namespace spillway
