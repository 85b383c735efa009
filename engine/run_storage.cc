#include "engine/run_storage.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "engine/state_source.h"
#include "io/checksum.h"
#include "io/log.h"
#include "io/status.h"
#include "swap/format_bytes.h"
#include "swap/store_reader.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path), error);
  return error ? path : real.string();
}

// Parents as given, absolute and with {rank} filled in.
std::vector<std::string> Parents(const TrainOptions& options) {
  std::vector<std::string> parents;
  for (const std::string& path : options.swap_paths) {
    parents.push_back(AbsolutePath(absl::StrReplaceAll(path, {{"{rank}", "0"}})));
  }
  // Without a swap path commits go to OUTPUT.
  if (parents.empty()) parents.push_back(AbsolutePath(options.output));
  return parents;
}

absl::Status CheckParent(const std::string& parent) {
  std::error_code error;
  if (!fs::exists(parent, error)) {
    return absl::NotFoundError(absl::StrCat("the swap path ", parent,
                                            " does not exist: create it, or give another --swap"));
  }
  if (!fs::is_directory(parent, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the swap path ", parent, " is not a directory"));
  }
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the swap path ", parent, " is not writable for this user: choose another --swap"));
  }
  return absl::OkStatus();
}

absl::Status CheckLayout(const SwapStore& store, const StateLayout& layout) {
  if (store.layout() == layout) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the commit's state has another layout than this run's model and optimizer");
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunStorage>> RunStorage::Open(const TrainOptions& options) {
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
  ASSIGN_OR_RETURN(storage->output_, RunDirectory::Open(output));
  storage->id_ = absl::StrFormat("%016x", Checksum(output.data(), output.size()));

  if (!options.persist.empty()) {
    ASSIGN_OR_RETURN(storage->copies_,
                     CommitCopies::Open(AbsolutePath(options.persist), options.keep));
  }
  RETURN_IF_ERROR(storage->FindCommit());
  if (storage->committed_ && !options.resume) {
    return absl::AlreadyExistsError(absl::StrCat(
        storage->committed_in_, " holds a run committed at step ", storage->committed_->step,
        ": continue it with --resume, or give another --output",
        storage->committed_in_ == output ? "" : " and --persist", "; nothing was touched"));
  }
  return storage;
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
  for (const CommitCopies::Copy& copy : copies_->found()) {
    if (copy.step == committed_->step) return copies_->Prune(copy.step);
  }
  copies_->Start(manifest_path());
  return absl::OkStatus();
}

std::string RunStorage::DirectoryBelow(const std::string& parent, int store_number) const {
  return absl::StrCat(parent, "/spillway-", id_, "-rank0.", store_number);
}

absl::StatusOr<std::vector<std::string>> RunStorage::Lock(const std::vector<std::string>& parents,
                                                          int store_number) {
  std::vector<std::string> paths;
  for (const std::string& parent : parents) {
    RETURN_IF_ERROR(CheckParent(parent));
    ASSIGN_OR_RETURN(auto directory, RunDirectory::Open(DirectoryBelow(parent, store_number)));
    paths.push_back(directory->path());
    directories_.push_back(std::move(directory));
  }
  return paths;
}

absl::StatusOr<std::unique_ptr<SwapStore>> RunStorage::OpenStore(
    const StateLayout& layout, const std::vector<bool>& spill_gradients, RunState& state) {
  const std::vector<std::string> parents = Parents(options_);
  for (size_t i = 0; i < parents.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (parents[i] == parents[j]) {
        return absl::InvalidArgumentError(
            absl::StrCat("the swap path ", parents[i], " is given twice"));
      }
    }
  }
  state.parents = parents;
  StoreOptions store_options;
  store_options.two_slots = !options_.no_commit;
  store_options.spill_gradients = spill_gradients;

  if (copies_) RETURN_IF_ERROR(copies_->CheckSpace(layout));
  if (committed_ && committed_in_ == output() && committed_->parents == parents) {
    state.store_number = committed_->store_number;
    RETURN_IF_ERROR(Lock(parents, state.store_number).status());
    CommitRecord record;
    ASSIGN_OR_RETURN(auto store, SwapStore::Open(manifest_path(), false, spill_gradients, &record));
    RETURN_IF_ERROR(CheckLayout(*store, layout));
    return store;
  }

  // Another than that of any commit in OUTPUT, which stays until this one has replaced it.
  state.store_number = committed_ ? committed_->store_number + 1 : 0;
  if (const auto here = OpenCommittedRun(output()); here.ok()) {
    state.store_number = std::max(state.store_number, here->state.store_number + 1);
  }
  ASSIGN_OR_RETURN(store_options.directories, Lock(parents, state.store_number));
  for (const std::string& directory : store_options.directories) {
    std::error_code error;
    uint64_t left = 0;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      if (entry.is_regular_file(error)) left += entry.file_size(error);
    }
    if (left > 4096) {
      LogInfo(absl::StrCat("removing ", FormatBytes(left),
                           " that a run of this output, killed "
                           "before its first commit, left in ",
                           directory));
    }
    RETURN_IF_ERROR(SwapStore::RemoveLeftovers(directory));
  }
  ASSIGN_OR_RETURN(auto store, SwapStore::Create(layout, store_options));
  if (!committed_) return store;

  RETURN_IF_ERROR(MoveInto(*store, state));
  return store;
}

// The commit is a copy, or on other swap paths: brings its state over, then commits it here.
absl::Status RunStorage::MoveInto(SwapStore& store, const RunState& state) {
  CommitRecord record;
  ASSIGN_OR_RETURN(const auto old,
                   SwapStore::Open(CommitManifestPath(committed_in_), true, {}, &record));
  RETURN_IF_ERROR(CheckLayout(*old, store.layout()));
  const StateLayout& layout = store.layout();
  LogInfo(absl::StrCat(
      "moving ",
      FormatBytes(layout.TotalPaddedParameters() * layout.PlaneRangeBytes(0, layout.num_planes())),
      " of state to the swap paths"));
  RETURN_IF_ERROR(CopyStore(*old, store));
  if (options_.no_commit) return absl::OkStatus();
  RunState moved = *committed_;
  moved.parents = state.parents;
  moved.store_number = state.store_number;
  RETURN_IF_ERROR(store.Commit(manifest_path(), {record.step, EncodeRunState(moved)}));
  RemoveOtherStores(committed_->parents);
  RemoveOtherStores(state.parents);
  return absl::OkStatus();
}

// Of this run, which no commit in OUTPUT names any more.
void RunStorage::RemoveOtherStores(const std::vector<std::string>& parents) {
  const std::string prefix = absl::StrCat("spillway-", id_, "-rank0.");
  for (const std::string& parent : parents) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(parent, error)) {
      const std::string path = entry.path().string();
      const bool ours = absl::StartsWith(entry.path().filename().string(), prefix);
      const bool in_use = std::any_of(directories_.begin(), directories_.end(),
                                      [&](const auto& used) { return used->path() == path; });
      if (!ours || in_use || !RunDirectory::Open(path).ok()) continue;
      (void)SwapStore::RemoveLeftovers(path);
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  }
}

bool RunStorage::CommitRefersToSwap() const {
  CommitRecord record;
  const auto store = SwapStore::Open(manifest_path(), /*read_only=*/true, {}, &record);
  // A commit that can't be read is none of ours to judge.
  if (!store.ok()) return !absl::IsNotFound(store.status());
  for (const std::string& used : (*store)->directories()) {
    for (const auto& directory : directories_) {
      if (directory->path() == used) return true;
    }
  }
  return false;
}

RunStorage::~RunStorage() {
  if (output_ == nullptr) return;
  if (!directories_.empty() && !CommitRefersToSwap()) RemoveSwap();
  std::error_code error;
  const std::string lock = output() + "/lock";
  for (const auto& entry : fs::directory_iterator(output(), error)) {
    if (entry.path() != lock) return;
  }
  if (!output_was_empty_) return;
  fs::remove(lock, error);
  for (const std::string& path : created_) {
    if (rmdir(path.c_str()) != 0) break;  // not empty: somebody else uses it
  }
}

void RunStorage::RemoveSwap() {
  for (const auto& directory : directories_) {
    (void)SwapStore::RemoveLeftovers(directory->path());
    std::error_code error;
    fs::remove_all(directory->path(), error);
  }
  directories_.clear();
}

}  // namespace spillway
