#include "engine/run/run_storage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/machine/disk_space.h"
#include "engine/machine/swap_paths.h"
#include "engine/ranks/shard_plan.h"
#include "engine/run/former_ranks.h"
#include "engine/run/rank_commit.h"
#include "engine/run/state_move.h"
#include "engine/run/swap_inventory.h"
#include "engine/tuning/path_rates.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Bytes moved each way to measure a swap path, if that is necessary, and the memory for it, before
// the run allocates its own.
constexpr uint64_t kProbeBytes = uint64_t{128} << 20;
constexpr uint64_t kProbeBufferBytes = uint64_t{32} << 20;

RankPart PartOf(const TrainOptions& options) {
  return {options.rank, options.ranks, options.shard_group_size, /*commit_id=*/""};
}

bool SameRanks(const RankPart& a, const RankPart& b) {
  return a.ranks == b.ranks && a.group == b.group;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunStorage>> RunStorage::Open(const TrainOptions& options,
                                                             const FirstRank* first,
                                                             FileSystem& files, Executor* executor,
                                                             const CheckCommit& check) {
  if (options.output.empty()) {
    return absl::InvalidArgumentError("--output is missing: where the run keeps its results");
  }
  auto storage = std::unique_ptr<RunStorage>(new RunStorage(options, files));
  const std::string output = files.Resolve(options.output);
  ASSIGN_OR_RETURN(storage->output_, OutputDirectory::Open(output, options.rank, files));
  storage->first_output_ = first ? files.Resolve(first->output) : output;
  const bool part =
      first != nullptr && first->committed && options.rank < first->committed->part.ranks;
  const bool of_output = first == nullptr || first->directory == storage->first_output_;
  if (first != nullptr && !options.overwrite && (of_output || !first->committed)) {
    // A rank without a part in the commit has nothing to settle.
    RETURN_IF_ERROR(
        SettleCommit(output, options.rank, part ? first->committed->part.commit_id : "", files));
  }
  if (!options.persist.empty()) {
    ASSIGN_OR_RETURN(storage->copies_,
                     CommitCopies::Open(files.Resolve(options.persist),
                                        {.keep = options.keep,
                                         .rank = options.rank,
                                         .ranks = options.ranks,
                                         .model_directory = options.model_directory,
                                         .files = &files,
                                         .executor = executor}));
  }
  // Checked first, so that foreign entries are reported as such, and not as a damaged commit.
  storage->earlier_ =
      std::make_unique<EarlierRun>(&storage->output_->directory(), options.rank,
                                   storage->output_->run_id(), SwapIdOf(output), &files);
  std::vector<std::string> parents = SwapParents(options, files);
  if (std::find(parents.begin(), parents.end(), output) == parents.end()) {
    parents.push_back(output);
  }
  RETURN_IF_ERROR(storage->earlier_->FindBelow(parents));
  if (storage->copies_ && first == nullptr) {
    RETURN_IF_ERROR(
        storage->earlier_->CheckCopies(*storage->copies_, options.resume, options.overwrite));
  }
  FoundCommit& found = storage->found_;
  const CheckCommit alone = [&](const CommittedRun& run) {
    return ReadThroughParts(run, 0, 1, files, options.model_directory);
  };
  const absl::Status status = FindCommit(
      output, first == nullptr ? storage->copies_.get() : nullptr,
      !options.resume || check != nullptr ? check : alone, options.model_directory, files, found);
  if (options.overwrite) {
    found.state.reset();
    found.tile_parameters = 0;
    found.in_place = {};
  } else {
    // An error in the files of a former rank of this number does not matter, nor does one in OUTPUT
    // if the run continues from a copy.
    if (first == nullptr || !first->committed || (part && of_output)) RETURN_IF_ERROR(status);
    if (first != nullptr) {
      RETURN_IF_ERROR(TakeFirstRanksCommit(*first, storage->first_output_, options.rank, output,
                                           options.model_directory, files, found));
      storage->first_directory_ = first->directory;
    } else {
      if (options.resume) RETURN_IF_ERROR(storage->RenameManifest());
      // A prepared commit found here was never committed: only the first rank renames, and it died
      // before that.
      const bool several = found.state && found.state->part.ranks > 1 &&
                           found.directory == output &&
                           found.output_manifest == storage->manifest_path();
      RETURN_IF_ERROR(
          SettleCommit(output, options.rank, several ? found.state->part.commit_id : "", files));
      storage->first_directory_ = found.directory;
      if (!found.state) {
        auto freed = ReadFreedState(output, files);
        if (freed.ok()) storage->freed_ = *std::move(freed);
      }
    }
  }
  RETURN_IF_ERROR(storage->earlier_->FindCommitted(found.output_store));
  RETURN_IF_ERROR(storage->CheckMayBegin());
  RETURN_IF_ERROR(CheckSwapParents(SwapParents(options, files), files));
  return storage;
}

absl::StatusOr<std::unique_ptr<RunStorage>> RunStorage::OpenTogether(const TrainOptions& options,
                                                                     Collectives* world,
                                                                     FileSystem& files,
                                                                     Executor* executor) {
  if (world == nullptr) return Open(options, nullptr, files, executor);
  std::unique_ptr<RunStorage> storage;
  FirstRank first;
  first.output = options.output;
  CheckTogether together(world, &files, options.model_directory);
  const bool check = options.resume && !options.persist.empty();
  CheckCommit by_all;
  if (check) by_all = [&](const CommittedRun& run) { return together.Check(run); };
  for (const bool turn_of_first : {true, false}) {
    absl::Status status;
    if (turn_of_first == (options.rank == 0)) {
      TrainOptions own = options;
      own.output = RankOutput(options.output, options.rank);
      auto opened = Open(own, options.rank > 0 ? &first : nullptr, files, executor, by_all);
      status = opened.status();
      if (opened.ok()) storage = *std::move(opened);
      if (check && turn_of_first) RETURN_IF_ERROR(together.End());
    } else if (check && turn_of_first) {
      RETURN_IF_ERROR(together.Serve());
    }
    RETURN_IF_ERROR(Agree(*world, status));
    if (!turn_of_first) break;
    const bool found = options.rank == 0 && storage->committed();
    ASSIGN_OR_RETURN(first.directory, FromFirstRank(*world, found ? storage->committed_in() : ""));
    if (first.directory.empty()) continue;
    ASSIGN_OR_RETURN(const std::string state,
                     FromFirstRank(*world, found ? EncodeRunState(*storage->committed()) : ""));
    ASSIGN_OR_RETURN(first.committed, DecodeRunState(state));
  }
  return storage;
}

absl::Status RunStorage::RenameManifest() {
  std::string& manifest = found_.output_manifest;
  if (manifest.empty() || manifest == manifest_path() || found_.output_rank > 0) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(files_.Rename(manifest, manifest_path()));
  manifest = manifest_path();
  return files_.SyncDirectory(output());
}

absl::Status RunStorage::CheckMayBegin() const {
  if (options_.overwrite) return absl::OkStatus();
  if (freed_) {
    return absl::AlreadyExistsError(
        absl::StrCat(DescribeFreed(output(), *freed_),
                     ", so there is nothing to go on from: train its model "
                     "further in another run (--model ",
                     output(),
                     "/model and another --output), or remove "
                     "it with --overwrite; nothing was touched"));
  }
  if (options_.resume) return absl::OkStatus();
  if (found_.state) {
    return absl::AlreadyExistsError(absl::StrCat(
        found_.directory, " holds a run committed at step ", found_.state->step,
        ": continue it with --resume, remove it with --overwrite, or give another --output",
        found_.directory == output() ? "" : " and --persist", "; nothing was touched"));
  }
  if (earlier_->leftover_bytes() == 0) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "an earlier run of ", output(), " left ", earlier_->DescribeLeftovers(),
      " and no commit (it was killed before its first one, or ", output(),
      " was removed since): remove that with --overwrite (or --resume, which starts at step 1, "
      "since there is nothing to resume), or give another --output; nothing was touched"));
}

absl::Status RunStorage::RemoveEarlier() {
  if (!options_.overwrite) {
    if (copies_ && !options_.no_commit) RETURN_IF_ERROR(copies_->RemoveUnfinished());
    files_.Remove(FreedManifestPath(output(), options_.rank))
        .IgnoreError();  // if a copy is resumed
    return earlier_->RemoveLeftovers();
  }
  if (copies_) RETURN_IF_ERROR(copies_->RemoveAll());
  RETURN_IF_ERROR(earlier_->RemoveAll());
  RemoveMoreRanks();
  output_->ForgetRunId();
  found_.output_store.clear();
  found_.output_store_number = -1;
  return absl::OkStatus();
}

void RunStorage::RemoveMoreRanks() {
  if (options_.rank == 0) {
    RemoveFormerRanks(output(), options_.ranks, SwapParents(options_, files_), files_);
  }
}

absl::Status RunStorage::LockSwap(const std::vector<std::string>& paths) {
  RETURN_IF_ERROR(swap_.Lock(paths, *output_, *earlier_));
  if (copies_ == nullptr || options_.rank > 0 || options_.no_commit) return absl::OkStatus();
  if (copies_->created() && found_.state) {
    LogWarning(absl::StrCat("--persist ", copies_->directory(),
                            " was not there and is made; where it should be on a file system that "
                            "is not mounted, stop the run (Ctrl-C), mount it and --resume"));
  }
  RunRecord owner = ThisProcess();
  owner.output = output();
  owner.run = output_->run_id();
  return copies_->locked().WriteOwner(owner);
}

absl::Status RunStorage::FinishCopies(Collectives* ranks) {
  if (copies_ == nullptr || !found_.state || options_.no_commit) return absl::OkStatus();
  absl::StatusOr<bool> copied = false;
  if (options_.rank == 0) copied = copies_->GoOnFrom(found_.state->step);
  RETURN_IF_ERROR(AgreeAll(ranks, copied.status()));
  std::string said = *copied ? "copied" : "";
  if (ranks != nullptr) {
    ASSIGN_OR_RETURN(said, FromFirstRank(*ranks, said));
  }
  if (said.empty()) copies_->Start(manifest_path());
  return absl::OkStatus();
}

absl::Status RunStorage::CheckRoom(const StateLayout& layout, const StoreOptions& store,
                                   const std::vector<std::string>& existing) const {
  std::vector<SpaceNeed> needs;
  const std::vector<uint64_t> needed = SwapStore::FileBytes(layout, store);
  for (size_t i = 0; i < needed.size(); ++i) {
    uint64_t there = 0;
    if (i < existing.size()) {
      const auto file = files_.Stat(absl::StrCat(existing[i], "/", SwapFileNames()[0]));
      if (file.ok()) there = file->size_bytes;
    }
    needs.push_back({store.directories[i], needed[i] - std::min(there, needed[i]),
                     absl::StrCat("swap", store.two_slots ? " (two copies of the state)" : "",
                                  " in ", ParentPath(store.directories[i]))});
  }
  uint64_t parameters = 0;
  for (const UnitLayout& unit : layout.units()) parameters += unit.parameters;
  uint64_t export_bytes = parameters * options_.export_bytes_per_parameter;
  const std::string model = output() + "/model";
  const auto names = files_.List(model);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const auto file = files_.Stat(absl::StrCat(model, "/", name), SymbolicLink::kFollow);
    if (file.ok()) export_bytes -= std::min(export_bytes, file->size_bytes);
  }
  needs.push_back({output(), export_bytes, absl::StrCat("the model in ", output())});
  if (copies_) {
    needs.push_back({copies_->directory(),
                     copies_->NeededBytes(layout, store.in_place, options_.overwrite),
                     absl::StrCat("copies of commits in ", copies_->directory())});
  }
  return CheckSpace(needs, earlier_->Returned(options_.overwrite), files_,
                    absl::StrCat(options_.no_commit ? "" : "halve the swap with --no-commit, ",
                                 "name a path on another drive (--swap, --output), or remove what "
                                 "dead runs hold (spillway clean --swap PATH)"));
}

absl::Status RunStorage::CheckStillThere() const {
  RETURN_IF_ERROR(CheckStillNamed(output_->directory(), "OUTPUT"));
  return swap_.CheckStillThere();
}

bool RunStorage::StoreIsBelow(const std::vector<std::string>& parents) const {
  const std::vector<std::string>& store = found_.output_store;
  // A state that is entirely read in place has no files, and a copy of a commit stays in its place.
  if (store.empty() || std::find(store.begin(), store.end(), output()) != store.end()) {
    return found_.state->parents == parents;
  }
  return std::equal(store.begin(), store.end(), parents.begin(), parents.end(),
                    [](const std::string& directory, const std::string& parent) {
                      return directory == absl::StrCat(parent, "/", FileName(directory));
                    });
}

absl::StatusOr<std::unique_ptr<SwapStore>> RunStorage::OpenCommitted(const StateLayout& layout,
                                                                     const SpillRoom& spill) {
  // A copy of a commit is beside its manifest; its store reports that it cannot be continued.
  const std::vector<std::string>& directories = found_.output_store;
  CommitRecord record;
  if (std::find(directories.begin(), directories.end(), output()) != directories.end()) {
    return SwapStore::Open(manifest_path(), false, spill, &record, files_,
                           options_.model_directory);
  }
  StoreOptions now;
  now.directories = directories;
  now.two_slots = true;
  now.spill = spill;
  now.in_place = found_.in_place;
  RETURN_IF_ERROR(CheckRoom(layout, now, directories));
  RETURN_IF_ERROR(LockSwap(directories));
  RETURN_IF_ERROR(RemoveEarlier());
  ASSIGN_OR_RETURN(auto store, SwapStore::Open(manifest_path(), false, spill, &record, files_,
                                               options_.model_directory));
  RETURN_IF_ERROR(CheckLayout(*store, layout));
  return store;
}

absl::StatusOr<std::unique_ptr<SwapStore>> RunStorage::OpenStore(const StateLayout& layout,
                                                                 const SpillRoom& spill,
                                                                 RunState& state,
                                                                 const InPlaceUnits& in_place) {
  const std::vector<std::string> parents = SwapParents(options_, files_);
  WarnOfSwapParents(parents);
  for (const std::string& parent : parents) WarnOfDeadRuns(parent);
  const std::optional<RunState>& committed = found_.state;
  const RankPart part = PartOf(options_);
  state.parents = parents;
  state.part.rank = part.rank;
  state.part.ranks = part.ranks;
  state.part.group = part.group;
  if (!options_.no_commit) RETURN_IF_ERROR(CheckEncodable(state));
  const bool same_part =
      committed && SameRanks(committed->part, part) && committed->part.rank == part.rank;
  if (same_part && found_.directory == output() && StoreIsBelow(parents)) {
    if (copies_) {
      RETURN_IF_ERROR(copies_->CheckSpace(layout, found_.in_place, options_.overwrite));
    }
    state.store_number = committed->store_number;
    return OpenCommitted(layout, spill);
  }

  // The commit is a copy, of another number of ranks, or on other swap paths. For other ranks all
  // parts are read; otherwise only this rank's own.
  const bool resharded = committed && !SameRanks(committed->part, part);
  CommittedRun from;
  if (committed) {
    ASSIGN_OR_RETURN(from, OpenCommittedRun(resharded ? first_directory_ : found_.directory, files_,
                                            options_.model_directory));
    if (resharded) RETURN_IF_ERROR(from.OpenOtherParts(files_, options_.model_directory));
  }

  // A number that no commit in OUTPUT uses: that commit stays until this one has replaced it.
  StoreOptions store_options;
  store_options.in_place = committed ? StaysInPlace(from, resharded, in_place) : in_place;
  if (copies_) {
    RETURN_IF_ERROR(copies_->CheckSpace(layout, store_options.in_place, options_.overwrite));
  }
  store_options.two_slots = !options_.no_commit;
  store_options.spill = spill;
  store_options.files = &files_;
  state.store_number = committed ? committed->store_number + 1 : 0;
  if (!options_.overwrite) {
    state.store_number = std::max(state.store_number, found_.output_store_number + 1);
  }
  for (const std::string& parent : parents) {
    store_options.directories.push_back(
        absl::StrCat(parent, "/", SwapDirectoryName(SwapIdOf(output()), state.store_number)));
  }
  store_options.rates = SwapPathRates(parents, options_.io, kProbeBytes, kProbeBufferBytes);
  RETURN_IF_ERROR(CheckRoom(layout, store_options, {}));
  RETURN_IF_ERROR(RemoveEarlier());
  RETURN_IF_ERROR(LockSwap(store_options.directories));
  ASSIGN_OR_RETURN(auto store, SwapStore::Create(layout, store_options));
  if (!committed) return store;

  RETURN_IF_ERROR(MoveState(from, resharded, GridOf(options_), *store));
  if (!options_.no_commit) {
    moved_ = *committed;
    moved_->parents = state.parents;
    moved_->store_number = state.store_number;
    moved_->part = state.part;
  }
  // With one rank there are no others to wait for.
  if (part.ranks == 1) RETURN_IF_ERROR(CommitMove(store.get(), nullptr));
  return store;
}

absl::Status RunStorage::OpenNone() { return RemoveEarlier(); }

absl::Status RunStorage::CommitMove(SwapStore* store, Collectives* ranks) {
  const bool any = moved_.has_value();
  bool commit = any;
  if (ranks != nullptr) {
    // A rank that alone has moved still commits with the others, whose parts are unchanged.
    ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(*ranks, any));
    commit = std::any_of(all.begin(), all.end(), [](int64_t moved) { return moved != 0; });
    if (commit) {
      if (!any) moved_ = *found_.state;
      ASSIGN_OR_RETURN(moved_->part.commit_id, NewCommitId(*ranks, moved_->step, files_));
    }
  }
  if (commit) {
    const CommitRecord record{static_cast<uint64_t>(moved_->step), EncodeRunState(*moved_)};
    moved_.reset();
    const absl::Status made =
        store->Commit(ranks != nullptr ? prepared_manifest_path() : manifest_path(), record);
    bool only_lost = false;
    RETURN_IF_ERROR(ranks != nullptr ? PublishCommit(output(), *ranks, made, &only_lost, files_)
                                     : made);
  }
  // No commit needs them, unless there is one that is not replaced.
  if (commit || !found_.state || !options_.no_commit) RemoveMoreRanks();
  if (any) RemoveFormerSwap();
  return absl::OkStatus();
}

void RunStorage::RemoveFormerSwap() {
  for (const std::string& path : found_.output_store) {
    auto directory = earlier_->Take(path);
    if (directory == nullptr) continue;
    const auto removed = RunDirectory::Remove(std::move(directory), SwapFileNames());
    if (removed.ok()) {
      LogInfo(absl::StrCat("the state has moved: removed ", FormatBytes(*removed), " in ", path));
    } else {
      LogWarning(absl::StrCat("the state has moved; ", removed.status().message()));
    }
  }
}

bool RunStorage::CommitRefersToSwap() const {
  // If OUTPUT was moved during the run, the commit moved, too.
  const OwnDirectory& own = output_->directory().own();
  if (!own.IsStillNamed() && !own.IsRemoved()) return true;
  // A prepared commit may have been decided on after this rank lost contact.
  for (const std::string& path : {manifest_path(), prepared_manifest_path()}) {
    CommitRecord record;
    const auto store = SwapStore::Open(path, /*read_only=*/true, {}, &record, files_);
    if (absl::IsNotFound(store.status())) continue;
    // A commit that cannot be read may be good.
    if (!store.ok() || swap_.AnyIn(DirectoriesOf(**store, files_))) return true;
  }
  return false;
}

RunStorage::~RunStorage() {
  if (swap_.empty() || (!CommitRefersToSwap() && swap_.Remove())) return;
  output_->Keep();
}

}  // namespace spillway
