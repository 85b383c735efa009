// The data about a run in a commit, beside its tiles: progress, identity, and the settings that a
// resumed run must match. JSON inside the manifest.
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

// For a commit of several ranks, the part of this manifest.
struct RankPart {
  int rank = 0;
  int ranks = 1;
  int group = 1;          // as in ShardGrid
  std::string commit_id;  // the same in the manifests of all ranks, and unique to the commit

  friend bool operator==(const RankPart&, const RankPart&) = default;
};

struct RunState {
  int64_t step = 0;           // steps completed
  int64_t samples = 0;        // samples consumed over all epochs: the data cursor
  int64_t applied_steps = 0;  // steps that were not skipped; bias corrections use this count
  bool finished = false;
  LossScaleState loss_scale;
  MetricScheduleState metric_schedule = {};  // of a schedule that depends on evaluations
  DType dtype = DType::kBFloat16;
  int threads = 0;
  // (name, value) pairs that must be the same on resume.
  std::vector<std::pair<std::string, std::string>> identity;
  std::vector<RunChange> changes = {};  // changes of the identity since the run began
  ModelDescription model;
  std::vector<StateBuffer> buffers = {};
  std::vector<float> factored_moments = {};  // FactoredMoments::values()
  // Place of the store: its parents, and how often the run has moved.
  std::vector<std::string> parents;
  int store_number = 0;
  RankPart part;
};

// The manifest of rank `rank`'s commits: in an OUTPUT or a copy of a commit, or, for
// a later rank, in its own directory there (RankOutput).
std::string ManifestPath(const std::string& directory, int rank);
// The prepared manifest, until the first rank's has been renamed, which commits all parts
// (engine/run/rank_commit.h).
std::string PreparedManifestPath(const std::string& directory, int rank);
// The manifest's name after a finished run's state was freed (engine/run/kept_state.h).
std::string FreedManifestPath(const std::string& directory, int rank);

// The rank whose own directory this is, by its name; 0 for others. An OUTPUT may have such a name,
// too.
int RankByName(const std::string& directory);
// The prepared manifest of that rank.
std::string PreparedManifestPath(const std::string& directory);
// The manifest of the commit in `directory`: the first rank's, which a later rank's own directory
// never has; else that of RankByName; else MovedManifestPath.
std::string CommitManifestPath(const std::string& directory,
                               FileSystem& files = FileSystem::Real());
// A manifest in `directory` of another rank than RankByName: of an OUTPUT which is named like a
// rank's directory, or was when an earlier version made the commit. "": none.
absl::StatusOr<std::string> MovedManifestPath(const std::string& directory, FileSystem& files);

// Directory of rank r's own files of a run: OUTPUT, or OUTPUT/ranks/r for later ranks.
std::string RankOutput(const std::string& output, int rank);
inline constexpr char kRanksName[] = "ranks";

// REQUIRES: CheckEncodable.
std::string EncodeRunState(const RunState& state);
// kInvalidArgument that names the paths and values in `state` that are not UTF-8, as JSON requires.
absl::Status CheckEncodable(const RunState& state);
// kDataLoss for text that EncodeRunState cannot have written, kInvalidArgument for another version.
// Pure.
absl::StatusOr<RunState> DecodeRunState(const std::string& text);

// Names in an identity of values that a resumed run takes from its commit if no flag sets them: how
// samples are laid out ("padded", "packed to the maximum"; windows are not named), and the date
// that its chat template writes.
inline constexpr char kSamplesName[] = "samples", kChatDateName[] = "chat-date";

// The values of `options` that decide a run's bits, by the flags' names, after options.identity.
// They include the version of the identity.
std::vector<std::pair<std::string, std::string>> RunIdentity(const TrainOptions& options);

// The differences that `allowed` (names of ChangeableNames) covers, as changes from the step after
// the commit on; kInvalidArgument that names every other difference, with the remedy. Values of the
// machine (device, LibTorch, instruction set) may differ, with a warning. Values missing in a
// commit of an earlier version are taken as equal, with a notice. `data_name`: the data's files.
absl::StatusOr<std::vector<RunChange>> CompareIdentity(
    const RunState& committed, const std::vector<std::pair<std::string, std::string>>& now,
    const std::vector<std::string>& allowed = {}, const std::string& data_name = "");

}  // namespace spillway
