#include "engine/run/run_storage.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/machine/swap_paths.h"
#include "engine/ranks/reshard.h"
#include "engine/ranks/shard_plan.h"
#include "engine/run/committed_run.h"
#include "engine/run/rank_commit.h"
#include "engine/run/swap_runs.h"
#include "engine/run/written_bytes.h"
#include "engine/tuning/path_rates.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "swap/store/store_reader.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// What a swap path moves each way to be measured, where it must be, and the memory for that,
// before any of the run's own is taken.
constexpr uint64_t kProbeBytes = uint64_t{128} << 20;
constexpr uint64_t kProbeBufferBytes = uint64_t{32} << 20;

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path), error);
  return error ? path : real.string();
}

// Parents as given, absolute. What is still {rank} is that of a run of one rank.
std::vector<std::string> Parents(const TrainOptions& options) {
  std::vector<std::string> parents;
  for (const std::string& path : options.swap_paths) {
    parents.push_back(AbsolutePath(SwapPathOfRank(path, 0)));
  }
  // Without a swap path commits go to OUTPUT.
  if (parents.empty()) parents.push_back(AbsolutePath(options.output));
  return parents;
}

// In the names of directories below swap paths.
std::string IdOf(const std::string& output) {
  return absl::StrFormat("%016x", Checksum(output.data(), output.size()));
}

absl::Status CheckLayout(const SwapStore& store, const StateLayout& layout) {
  if (store.layout() == layout) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the commit's state has another layout than this run's model and optimizer");
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunStorage>> RunStorage::Open(const TrainOptions& options,
                                                             const FirstRank* first) {
  if (options.output.empty()) {
    return absl::InvalidArgumentError("--output is missing: where the run keeps its results");
  }
  auto storage = std::unique_ptr<RunStorage>(new RunStorage(options));
  const std::string output = AbsolutePath(options.output);
  std::error_code error;
  for (fs::path path = output; path.has_relative_path(); path = path.parent_path()) {
    if (fs::exists(path, error)) break;
    storage->created_.push_back(path.string());
  }
  if (storage->created_.empty() && !fs::is_directory(output, error)) {
    return absl::InvalidArgumentError(absl::StrCat("--output ", output, " is not a directory"));
  }
  storage->output_was_empty_ = !storage->created_.empty() || fs::is_empty(output, error);
  fs::create_directories(fs::path(output).parent_path(), error);
  if (error) {
    return ErrnoStatus(error.value(),
                       absl::StrCat("create ", fs::path(output).parent_path().string()));
  }
  ASSIGN_OR_RETURN(storage->output_, RunDirectory::Open(output, {.output = output}));
  RETURN_IF_ERROR(storage->output_->CheckEntries(OutputFileNames(output), OutputDirectoryNames(),
                                                 OtherNames::kIgnored));
  storage->first_output_ = first ? AbsolutePath(first->output) : output;
  const bool part =
      first != nullptr && first->committed && options.rank < first->committed->part.ranks;
  if (first != nullptr && !options.overwrite) {
    // A rank that the commit has no part of has nothing to settle.
    RETURN_IF_ERROR(SettleCommit(output, part ? first->committed->part.commit_id : ""));
  }
  storage->id_ = IdOf(output);
  storage->run_id_ = ReadRunId(output);

  if (!options.persist.empty()) {
    ASSIGN_OR_RETURN(storage->copies_,
                     CommitCopies::Open(AbsolutePath(options.persist), options.keep));
  }
  // First: what was planted there is named for what it is, and not as a damaged commit.
  RETURN_IF_ERROR(storage->FindEarlier());
  const absl::Status found = storage->FindCommit();
  if (options.overwrite) {
    storage->committed_.reset();
    storage->committed_tile_parameters_ = 0;
  } else {
    // What a former rank of this number left doesn't matter, whatever it is like.
    if (first == nullptr || part || !first->committed) RETURN_IF_ERROR(found);
    RETURN_IF_ERROR(storage->TakeFirstRanksCommit(first));
  }
  RETURN_IF_ERROR(storage->earlier_->FindCommitted(storage->output_store_));
  RETURN_IF_ERROR(storage->CheckMayBegin());
  return storage;
}

// The commit is the first rank's: where it has no part of this one, this one takes that of all.
absl::Status RunStorage::TakeFirstRanksCommit(const FirstRank* first) {
  if (first == nullptr) {
    if (committed_ && committed_->part.ranks > 1)
      return SettleCommit(output(), committed_->part.commit_id);
    return absl::OkStatus();
  }
  if (!first->committed) {
    // Nothing was decided: a manifest of its own is none.
    if (committed_) {
      return absl::FailedPreconditionError(
          absl::StrCat(output(), " holds this rank's part of a commit that ", first_output_,
                       " does not hold: bring that back, or remove both with --overwrite"));
    }
    return absl::OkStatus();
  }
  if (committed_ && committed_->part.commit_id == first->committed->part.commit_id) {
    return absl::OkStatus();
  }
  committed_ = first->committed;
  committed_in_ = first_output_;
  return absl::OkStatus();
}

absl::Status RunStorage::FindEarlier() {
  std::vector<std::string> parents = Parents(options_);
  if (std::find(parents.begin(), parents.end(), output()) == parents.end()) {
    parents.push_back(output());
  }
  earlier_ = std::make_unique<EarlierRun>(output_.get(), run_id_, id_);
  return earlier_->FindBelow(parents);
}

absl::Status RunStorage::CheckMayBegin() const {
  if (options_.resume || options_.overwrite) return absl::OkStatus();
  if (committed_) {
    return absl::AlreadyExistsError(absl::StrCat(
        committed_in_, " holds a run committed at step ", committed_->step,
        ": continue it with --resume, remove it with --overwrite, or give another --output",
        committed_in_ == output() ? "" : " and --persist", "; nothing was touched"));
  }
  if (earlier_->leftover_bytes() == 0) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "an earlier run of ", output(), ", killed before its first commit, left ",
      earlier_->DescribeLeftovers(),
      ": remove that with --overwrite (or --resume, which starts at step 1, since there is "
      "nothing to resume), or give another --output; nothing was touched"));
}

absl::Status RunStorage::RemoveEarlier() {
  if (!options_.overwrite) {
    if (copies_ && !options_.no_commit) RETURN_IF_ERROR(copies_->RemoveUnfinished());
    return earlier_->RemoveLeftovers();
  }
  if (copies_) RETURN_IF_ERROR(copies_->RemoveAll());
  RETURN_IF_ERROR(earlier_->RemoveAll());
  RemoveFormerRanks();
  run_id_.clear();
  output_store_.clear();
  output_store_number_ = -1;
  return absl::OkStatus();
}

// Newest first; of the same step that of OUTPUT, which can be continued where it is.
absl::Status RunStorage::FindCommit() {
  std::vector<CommittedRun> runs;
  std::vector<std::string> directories = {output()};
  absl::Status bad;
  if (copies_) {
    for (const CommitCopies::Copy& copy : copies_->found()) directories.push_back(copy.directory);
  }
  for (const std::string& directory : directories) {
    auto run = OpenCommittedRun(directory);
    if (run.ok() && directory == output()) {
      output_store_ = run->store->directories();
      output_store_number_ = run->state.store_number;
    }
    if (run.ok()) {
      runs.push_back(*std::move(run));
    } else if (!absl::IsNotFound(run.status())) {
      if (bad.ok()) bad = run.status();
      if (copies_) LogWarning(absl::StrCat(run.status().message()));
    }
  }
  std::stable_sort(runs.begin(), runs.end(), [](const CommittedRun& a, const CommittedRun& b) {
    return a.state.step > b.state.step;
  });
  for (CommittedRun& run : runs) {
    if (copies_ && options_.resume) {
      LogInfo(absl::StrCat("checking the commit of step ", run.state.step, " in ", run.directory));
      const int planes = run.store->layout().num_planes();
      const absl::Status status =
          ReadStore(*run.store, 0, planes, [](const TileView&) { return absl::OkStatus(); });
      if (!status.ok()) {
        if (bad.ok()) bad = status;
        LogWarning(absl::StrCat("that commit is not good: ", status.message()));
        continue;
      }
    }
    committed_tile_parameters_ = run.store->layout().tile_parameters();
    committed_ = std::move(run.state);
    committed_in_ = run.directory;
    return absl::OkStatus();
  }
  return bad;
}

absl::Status RunStorage::FinishCopies() {
  if (copies_ == nullptr || !committed_ || options_.no_commit) return absl::OkStatus();
  RETURN_IF_ERROR(copies_->RemoveUnfinished());
  for (const CommitCopies::Copy& copy : copies_->found()) {
    if (copy.step == committed_->step) return copies_->Prune(copy.step);
  }
  copies_->Start(manifest_path());
  return absl::OkStatus();
}

std::string RunStorage::DirectoryBelow(const std::string& parent, int store_number) const {
  return absl::StrCat(parent, "/", SwapDirectoryName(id_, store_number));
}

absl::Status RunStorage::Lock(const std::vector<std::string>& directories) {
  if (run_id_.empty()) {
    ASSIGN_OR_RETURN(run_id_, CreateRunId(output()));
    run_id_created_ = true;
  }
  RunRecord owner = ThisProcess();
  owner.output = output();
  owner.run = run_id_;
  for (const std::string& path : directories) {
    std::unique_ptr<RunDirectory> directory = earlier_->Take(path);
    if (directory == nullptr) {
      ASSIGN_OR_RETURN(directory, RunDirectory::Open(path, {.output = output()}));
    }
    directories_.push_back(std::move(directory));
    const RunDirectory& locked = *directories_.back();
    ASSIGN_OR_RETURN(const auto before, locked.ReadOwner());
    const bool noted = before && before->output == owner.output && before->run == owner.run &&
                       before->host == owner.host && before->machine == owner.machine;
    if (!noted) RETURN_IF_ERROR(locked.WriteOwner(owner));
  }
  return absl::OkStatus();
}

// The commit in OUTPUT, where it is.
absl::StatusOr<std::unique_ptr<SwapStore>> RunStorage::OpenCommitted(const StateLayout& layout,
                                                                     const SpillRoom& spill) {
  // A copy of a commit beside its manifest; the store says that it cannot be continued.
  const bool is_copy =
      std::find(output_store_.begin(), output_store_.end(), output()) != output_store_.end();
  if (is_copy) {
    CommitRecord ignored;
    return SwapStore::Open(manifest_path(), false, spill, &ignored);
  }
  StoreOptions now;
  now.directories = output_store_;
  now.two_slots = true;
  now.spill = spill;
  RETURN_IF_ERROR(CheckRoom(layout, now, output_store_));
  RETURN_IF_ERROR(Lock(output_store_));
  RETURN_IF_ERROR(RemoveEarlier());
  CommitRecord record;
  ASSIGN_OR_RETURN(auto store, SwapStore::Open(manifest_path(), false, spill, &record));
  RETURN_IF_ERROR(CheckLayout(*store, layout));
  return store;
}

absl::StatusOr<std::unique_ptr<SwapStore>> RunStorage::OpenStore(const StateLayout& layout,
                                                                 const SpillRoom& spill,
                                                                 RunState& state) {
  const std::vector<std::string> parents = Parents(options_);
  RETURN_IF_ERROR(CheckSwapParents(parents));
  WarnOfSwapParents(parents);
  for (const std::string& parent : parents) WarnOfDeadRuns(parent);
  if (copies_) RETURN_IF_ERROR(copies_->CheckSpace(layout, options_.overwrite));
  state.parents = parents;
  state.part.rank = options_.rank;
  state.part.ranks = options_.ranks;
  state.part.group = options_.shard_group_size;
  const bool same_part = committed_ && committed_->part.rank == options_.rank &&
                         committed_->part.ranks == options_.ranks &&
                         committed_->part.group == options_.shard_group_size;
  if (same_part && committed_in_ == output() && committed_->parents == parents) {
    state.store_number = committed_->store_number;
    return OpenCommitted(layout, spill);
  }

  // Another than that of any commit in OUTPUT, which stays until this one has replaced it.
  StoreOptions store_options;
  store_options.two_slots = !options_.no_commit;
  store_options.spill = spill;
  state.store_number = committed_ ? committed_->store_number + 1 : 0;
  if (!options_.overwrite) {
    state.store_number = std::max(state.store_number, output_store_number_ + 1);
  }
  for (const std::string& parent : parents) {
    store_options.directories.push_back(DirectoryBelow(parent, state.store_number));
  }
  store_options.rates = SwapPathRates(parents, options_.io, kProbeBytes, kProbeBufferBytes);
  RETURN_IF_ERROR(CheckRoom(layout, store_options, {}));
  RETURN_IF_ERROR(RemoveEarlier());
  RETURN_IF_ERROR(Lock(store_options.directories));
  ASSIGN_OR_RETURN(auto store, SwapStore::Create(layout, store_options));
  if (!committed_) return store;

  RETURN_IF_ERROR(MoveInto(*store, state));
  // Nobody to wait for.
  if (options_.ranks == 1) RETURN_IF_ERROR(CommitMove(store.get(), nullptr));
  return store;
}

absl::Status RunStorage::OpenNone() { return RemoveEarlier(); }

// The commit is a copy, or on other swap paths: brings its state over, then commits it here.
absl::Status RunStorage::MoveInto(SwapStore& store, const RunState& state) {
  // Of other ranks, all of their parts; of as many, and of one, just its own.
  const bool resharded = committed_->part.ranks != options_.ranks ||
                         committed_->part.group != options_.shard_group_size;
  ASSIGN_OR_RETURN(
      CommittedRun old,
      OpenCommittedRun(resharded && options_.ranks > 1 ? first_output_ : committed_in_));
  const StateLayout& layout = store.layout();
  if (resharded) {
    RETURN_IF_ERROR(old.OpenOtherParts());
    if (old.store->layout().planes() != layout.planes()) {
      return absl::InvalidArgumentError(
          "the commit's state has another layout than this run's model and optimizer");
    }
  } else {
    RETURN_IF_ERROR(CheckLayout(*old.store, layout));
  }
  LogInfo(absl::StrCat(
      "moving ",
      FormatBytes(layout.TotalPaddedParameters() * layout.PlaneRangeBytes(0, layout.num_planes())),
      " of state to the swap paths"));
  if (resharded) {
    std::vector<uint64_t> parameters;
    for (const UnitDescription& unit : old.state.model.units) {
      parameters.push_back(unit.flat_parameters);
    }
    RETURN_IF_ERROR(Reshard(old.shards(), old.grid(), parameters, GridOf(options_), store));
  } else {
    RETURN_IF_ERROR(CopyStore(*old.store, store));
  }
  if (options_.no_commit) return absl::OkStatus();
  moved_ = *committed_;
  moved_->parents = state.parents;
  moved_->store_number = state.store_number;
  moved_->part = state.part;
  return absl::OkStatus();
}

absl::Status RunStorage::CommitMove(SwapStore* store, Collectives* ranks) {
  const bool any = moved_.has_value();
  // No commit needs them, unless there is one that does not get replaced.
  const auto remove_former_ranks = [this] {
    if (!committed_ || !options_.no_commit) RemoveFormerRanks();
  };
  if (ranks != nullptr) {
    // One that has moved alone commits with the others all the same: their parts are as they were.
    ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(*ranks, any));
    if (std::all_of(all.begin(), all.end(), [](int64_t moved) { return moved == 0; })) {
      remove_former_ranks();
      return absl::OkStatus();
    }
    if (!any) moved_ = *committed_;
    ASSIGN_OR_RETURN(moved_->part.commit_id, NewCommitId(*ranks, moved_->step));
  } else if (!any) {
    remove_former_ranks();
    return absl::OkStatus();
  }
  const CommitRecord record{static_cast<uint64_t>(moved_->step), EncodeRunState(*moved_)};
  moved_.reset();
  RETURN_IF_ERROR(AgreeAll(
      ranks,
      store->Commit(ranks != nullptr ? PreparedManifestPath(output()) : manifest_path(), record)));
  if (ranks != nullptr) RETURN_IF_ERROR(PublishCommit(output(), *ranks));
  remove_former_ranks();
  if (!any) return absl::OkStatus();
  // What the replaced commit was on, of this run.
  for (const std::string& path : output_store_) {
    if (auto directory = earlier_->Take(path)) {
      const auto removed = RunDirectory::Remove(std::move(directory), SwapFileNames());
      if (removed.ok()) {
        LogInfo(absl::StrCat("the state has moved: removed ", FormatBytes(*removed), " in ", path));
      } else {
        LogWarning(absl::StrCat("the state has moved; ", removed.status().message()));
      }
    }
  }
  return absl::OkStatus();
}

void RunStorage::RemoveFormerRanks() {
  if (options_.rank > 0) return;
  const fs::path parent = fs::path(RankOutput(output(), 1)).parent_path();
  std::error_code error;
  std::vector<std::string> former;
  for (fs::directory_iterator entry(parent, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    int rank = 0;
    const std::string name = entry->path().filename().string();
    if (absl::SimpleAtoi(name, &rank) && rank >= options_.ranks) former.push_back(name);
  }
  for (const std::string& rank : former) {
    const std::string directory = (parent / rank).string();
    const auto removed = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(auto own,
                       RunDirectory::Open(directory, {.output = output(), .create = false}));
      EarlierRun earlier(own.get(), ReadRunId(directory), IdOf(directory));
      std::vector<std::string> parents = Parents(options_);
      parents.push_back(directory);
      RETURN_IF_ERROR(earlier.FindBelow(parents));
      const auto run = OpenCommittedRun(directory);
      if (run.ok()) RETURN_IF_ERROR(earlier.FindCommitted(run->store->directories()));
      RETURN_IF_ERROR(earlier.RemoveAll());
      return RunDirectory::Remove(std::move(own), {}).status();
    }();
    if (!removed.ok()) {
      LogWarning(absl::StrCat("the former rank ", rank, "'s files stay: ", removed.message()));
    }
  }
  rmdir(parent.c_str());  // where it is empty
}

bool RunStorage::CommitRefersToSwap() const {
  // One that waits may have been decided on, where this rank was not told any more.
  for (const std::string& path : {manifest_path(), PreparedManifestPath(output())}) {
    CommitRecord record;
    const auto store = SwapStore::Open(path, /*read_only=*/true, {}, &record);
    if (absl::IsNotFound(store.status())) continue;
    // A commit that can't be read is none of ours to judge.
    if (!store.ok()) return true;
    for (const std::string& used : (*store)->directories()) {
      for (const auto& directory : directories_) {
        if (directory->path() == used) return true;
      }
    }
  }
  return false;
}

RunStorage::~RunStorage() {
  if (output_ == nullptr) return;
  if (!directories_.empty() && !CommitRefersToSwap()) RemoveSwap();
  std::error_code error;
  const std::string lock = output() + "/lock";
  std::vector<std::string> marks;
  if (run_id_created_) {
    marks = {absl::StrCat(output(), "/", kRunIdName), WrittenBytes::PathIn(output())};
  }
  const std::string ranks = fs::path(RankOutput(output(), 1)).parent_path().string();
  const auto holds_only = [&](const std::vector<std::string>& paths) {
    for (const auto& entry : fs::directory_iterator(output(), error)) {
      const std::string path = entry.path().string();
      if (path != lock && std::find(paths.begin(), paths.end(), path) == paths.end()) return false;
    }
    return true;
  };
  std::vector<std::string> others = marks;
  others.push_back(ranks);
  if (!holds_only(others)) return;
  // Ranks that give up together take theirs back at the same time.
  for (int i = 0; i < 500 && options_.rank == 0 && fs::exists(ranks, error); ++i) usleep(10'000);
  if (!holds_only(marks)) return;
  for (const std::string& mark : marks) fs::remove(mark, error);
  if (!output_was_empty_) return;
  fs::remove(lock, error);
  for (const std::string& path : created_) {
    if (rmdir(path.c_str()) != 0) break;  // not empty: somebody else uses it
  }
  // The last of the ranks that leave, whichever made it.
  if (options_.rank > 0) rmdir(fs::path(output()).parent_path().c_str());
}

void RunStorage::RemoveSwap() {
  for (auto& directory : directories_) {
    const auto removed = RunDirectory::Remove(std::move(directory), SwapFileNames());
    if (!removed.ok()) LogWarning(removed.status().message());
  }
  directories_.clear();
}

}  // namespace spillway
