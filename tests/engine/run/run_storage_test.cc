// Who owns what on disk: several runs below one parent, what earlier ones left, what was
// planted. No training: stores are made, written and committed by hand.
#include "engine/run/run_storage.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/machine/memory_limits.h"
#include "engine/run/swap_inventory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/forwarding_file_system.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Replaces a word in a small file.
void Edit(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = *ReadSmallFile(path);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << text;
  std::ofstream(path, std::ios::trunc) << text.replace(at, from.size(), to);
}

class RunStorageTest : public testing::Test {
 protected:
  RunStorageTest() {
    fs::create_directory(folder_ / "swap");
    fs::create_directory(folder_ / "other");
  }

  TrainOptions Options(const std::string& output = "out") const {
    TrainOptions options;
    options.output = folder_ / output;
    options.swap_paths = {folder_ / "swap"};
    return options;
  }

  // A run as far as its store, in a process of its own that is killed then; with `steps`, it
  // commits before that. What stopped it otherwise.
  std::string Killed(const TrainOptions& options, int steps = 0) const {
    return InChildKilled([&]() -> absl::Status {
      auto opened = RunStorage::Open(options);
      if (!opened.ok()) return opened.status();
      RunStorage* const storage = opened->release();  // a killed process runs no destructors
      RunState state = State();
      auto made = storage->OpenStore(SmallLayout(), {}, state);
      if (!made.ok()) return made.status();
      SwapStore* const store = made->release();
      WriteEverything(*store, 1);
      if (steps == 0) return absl::OkStatus();
      state.step = steps;
      return store->Commit(storage->manifest_path(),
                           {static_cast<uint64_t>(steps), EncodeRunState(state)});
    });
  }

  static RunState State() {
    RunState state;
    const StateLayout layout = SmallLayout();
    for (const UnitLayout& unit : layout.units()) {
      UnitDescription description;
      description.name = unit.name;
      description.parameters.push_back(
          {unit.name + ".weight", {static_cast<int64_t>(unit.parameters)}});
      state.model.units.push_back(description);
    }
    SPILLWAY_CHECK(LayOutParameters(state.model).ok());
    return state;
  }

  static std::string InChildKilled(const std::function<absl::Status()>& body) {
    int ends[2];
    SPILLWAY_CHECK(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string failure(body().message());
      (void)!::write(ends[1], failure.data(), failure.size());
      ::kill(::getpid(), SIGKILL);
    }
    ::close(ends[1]);
    std::string failure;
    char buffer[4096];
    ssize_t got;
    while ((got = ::read(ends[0], buffer, sizeof(buffer))) > 0) failure.append(buffer, got);
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return failure;
  }

  std::vector<std::string> In(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / name)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  std::string OnlyRun() const { return folder_ / ("swap/" + In("swap").at(0)); }

  // Opens storage and store; the storage holds both locks.
  absl::StatusOr<std::unique_ptr<RunStorage>> Begin(const TrainOptions& options) {
    auto storage = RunStorage::Open(options);
    if (!storage.ok()) return storage;
    RunState state = State();
    if (absl::Status status = (*storage)->OpenStore(SmallLayout(), {}, state).status();
        !status.ok()) {
      return status;
    }
    return storage;
  }

  ScratchDirectory folder_;
};

TEST_F(RunStorageTest, WhatAKilledRunLeftIsNamedAndTakenOnlyWhenTold) {
  TrainOptions options = Options();
  ASSERT_EQ(Killed(options), "");
  const std::string left = OnlyRun();
  const absl::Status refused = Begin(options).status();
  EXPECT_EQ(ExitCodeOf(refused), 2) << refused;
  for (const std::string& word : {left, std::string("KiB"), std::string("--overwrite"),
                                  std::string("--resume"), std::string("nothing was touched")}) {
    EXPECT_THAT(std::string(refused.message()), HasSubstr(word));
  }
  EXPECT_TRUE(fs::exists(left + "/tiles"));
  for (bool resume : {true, false}) {
    options.resume = resume;
    options.overwrite = !resume;
    EXPECT_EQ(Killed(options), "") << resume;
    EXPECT_THAT(In("swap"), SizeIs(1));
    options.resume = options.overwrite = false;
    EXPECT_FALSE(Begin(options).ok());
  }
}

TEST_F(RunStorageTest, OverwriteRemovesARunAndNothingElse) {
  TrainOptions options = Options();
  ASSERT_EQ(Killed(options, /*steps=*/3), "");
  fs::create_directories(folder_ / "out/model/additional_chat_templates");
  for (const char* name : {"metrics.jsonl", "report.html", "model/model.safetensors",
                           "model/config.json", "model/notes.pdf", "slurm-17.out",
                           // What a tokenizer is kept in, and templates beside its own.
                           "model/chat_template.jinja", "model/tokenizer.model",
                           "model/spiece.model", "model/sentencepiece.bpe.model",
                           "model/merges.txt", "model/additional_chat_templates/tool_use.jinja"}) {
    std::ofstream(folder_ / absl::StrCat("out/", name)) << "x";
  }
  EXPECT_EQ(Begin(options).status().code(), absl::StatusCode::kAlreadyExists);
  options.overwrite = true;
  options.swap_paths = {folder_ / "other"};
  auto storage = Begin(options);
  ASSERT_TRUE(storage.ok()) << storage.status();
  EXPECT_FALSE((*storage)->committed().has_value());
  EXPECT_THAT(In("swap"), SizeIs(0));
  EXPECT_THAT(In("other"), SizeIs(1));
  EXPECT_THAT(In("out"), testing::UnorderedElementsAre("lock", "run-id", "model", "slurm-17.out"));
  EXPECT_THAT(In("out/model"), testing::ElementsAre("notes.pdf"));
}

TEST_F(RunStorageTest, ARunningOwnerIsRefusedWithOverwriteToo) {
  TrainOptions options = Options();
  auto first = Begin(options);
  ASSERT_TRUE(first.ok()) << first.status();
  fs::create_directory_symlink(folder_ / "out", folder_ / "link");
  for (const std::string name : {"out", "link", "swap/../out"}) {
    options.output = folder_ / name;
    for (const bool overwrite : {false, true}) {
      options.overwrite = overwrite;
      const absl::Status status = RunStorage::Open(options).status();
      EXPECT_EQ(ExitCodeOf(status), 2);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("in use by process ", ::getpid())));
      EXPECT_THAT(std::string(status.message()), HasSubstr("runs " + folder_ / "out"));
    }
  }
}

// Both machines say /out, and see the same swap path.
TEST_F(RunStorageTest, ARunOfAnotherMachineWithTheSameOutputIsLeftAlone) {
  TrainOptions options = Options();
  ASSERT_EQ(Killed(options), "");
  const std::string left = OnlyRun();
  fs::remove_all(folder_ / "out");  // ours never was; theirs is not to be seen
  Edit(left + "/owner", "host ", "host other-");
  for (int way = 0; way < 3; ++way) {
    options.resume = way == 1;
    options.overwrite = way == 2;
    const absl::Status status = Begin(options).status();
    EXPECT_EQ(ExitCodeOf(status), 2) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("on other-"));
    EXPECT_TRUE(fs::exists(left + "/tiles"));
  }
  const auto runs = FindSwapRuns(folder_ / "swap");
  ASSERT_TRUE(runs.ok());
  ASSERT_THAT(*runs, SizeIs(1));
  EXPECT_EQ((*runs)[0].state, SwapRun::State::kElsewhere);
  EXPECT_FALSE(RemoveDeadRun((*runs)[0]).ok());
  EXPECT_TRUE(fs::exists(left + "/tiles"));
}

// The same OUTPUT, shared by machines: a job that was requeued elsewhere.
TEST_F(RunStorageTest, TheSameRunGoesOnOnAnotherMachine) {
  TrainOptions options = Options();
  ASSERT_EQ(Killed(options), "");
  Edit(OnlyRun() + "/owner", "host ", "host other-");
  options.resume = true;
  ASSERT_EQ(Killed(options, 2), "");
  Edit(OnlyRun() + "/owner", "host ", "host other-");
  auto storage = Begin(options);
  ASSERT_TRUE(storage.ok()) << storage.status();
  EXPECT_EQ((*storage)->committed()->step, 2);
}

// With the store on a swap path, or in OUTPUT itself.
TEST_F(RunStorageTest, AMovedOutputGoesOnAndACopiedOneDoesNot) {
  for (const bool in_output : {false, true}) {
    SCOPED_TRACE(in_output);
    const auto options = [&](const std::string& output) {
      TrainOptions options = Options(output);
      if (in_output) options.swap_paths.clear();
      options.resume = true;
      return options;
    };
    ASSERT_EQ(Killed(options("out"), 2), "");
    fs::copy(folder_ / "out", folder_ / "copy", fs::copy_options::recursive);
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "copy")) {
      if (entry.is_directory()) fs::permissions(entry.path(), fs::perms::owner_all);
    }
    fs::permissions(folder_ / "copy", fs::perms::owner_all);
    const absl::Status refused = Begin(options("copy")).status();
    EXPECT_EQ(ExitCodeOf(refused), 2) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("is a copy"));
    fs::remove_all(folder_ / "copy");
    fs::rename(folder_ / "out", folder_ / "moved");
    ASSERT_EQ(Killed(options("moved"), 4), "");
    const auto runs = FindSwapRuns(folder_ / (in_output ? "moved" : "swap"));
    ASSERT_TRUE(runs.ok()) << runs.status();
    ASSERT_THAT(*runs, SizeIs(1));
    EXPECT_EQ((*runs)[0].state, SwapRun::State::kResumable);
    EXPECT_EQ((*runs)[0].output, folder_ / "moved");
    {
      const auto again = Begin(options("moved"));
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ((*again)->committed()->step, 4);
    }
    fs::remove_all(folder_ / "moved");
    fs::remove_all(folder_ / "swap");
    fs::create_directory(folder_ / "swap");
  }
}

// The paths that the run noted lead there by the link.
TEST_F(RunStorageTest, WhatALinkHasReplacedIsWhereTheLinkLeads) {
  for (const char* const moved : {"home", "home/out", "swap"}) {
    SCOPED_TRACE(moved);
    fs::create_directory(folder_ / "home");
    TrainOptions options = Options("home/out");
    ASSERT_EQ(Killed(options, 2), "");
    const std::string store = FileName(OnlyRun());
    fs::rename(folder_ / moved, folder_ / "disk2");
    fs::create_directory_symlink(folder_ / "disk2", folder_ / moved);
    if (std::string(moved) == "home/out") {
      fs::copy(folder_ / "disk2", folder_ / "copy");
      fs::permissions(folder_ / "copy", fs::perms::owner_all);
      TrainOptions copy = Options("copy");
      copy.resume = true;
      EXPECT_THAT(std::string(Begin(copy).status().message()), HasSubstr("is a copy"));
    }
    options.resume = true;
    EXPECT_EQ(Begin(options).status(), absl::OkStatus());  // ends without a commit of its own
    ASSERT_EQ(Killed(options, 4), "");
    EXPECT_EQ(Begin(options).status(), absl::OkStatus());
    EXPECT_THAT(In("swap"), testing::ElementsAre(store));
    options.resume = false;
    options.overwrite = true;
    EXPECT_EQ(Begin(options).status(), absl::OkStatus());
    EXPECT_THAT(In("swap"), SizeIs(0));
    for (const char* const name : {"home", "disk2", "swap"}) fs::remove_all(folder_ / name);
    fs::create_directory(folder_ / "swap");
  }
}

TEST_F(RunStorageTest, WhatAKilledRunLeftIsFoundWhenItsOutputWasMoved) {
  for (const bool in_output : {false, true}) {
    SCOPED_TRACE(in_output);
    const auto options = [&](const std::string& output) {
      TrainOptions options = Options(output);
      if (in_output) options.swap_paths.clear();
      return options;
    };
    const std::string parent = in_output ? "moved" : "swap";
    ASSERT_EQ(Killed(options("out")), "");
    fs::rename(folder_ / "out", folder_ / "moved");
    const auto left = FindSwapRuns(folder_ / parent);
    ASSERT_THAT(*left, SizeIs(1));
    TrainOptions moved = options("moved");
    const absl::Status refused = Begin(moved).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr((*left)[0].path));
    moved.resume = true;
    ASSERT_EQ(Killed(moved, 2), "");
    EXPECT_FALSE(fs::exists((*left)[0].path));
    EXPECT_THAT(*FindSwapRuns(folder_ / parent), SizeIs(1));
    fs::remove_all(folder_ / "moved");
  }
  // A copy has no part in what the original left.
  ASSERT_EQ(Killed(Options("out")), "");
  const auto before = FindSwapRuns(folder_ / "swap");
  fs::copy(folder_ / "out", folder_ / "copy");
  fs::permissions(folder_ / "copy", fs::perms::owner_all);
  TrainOptions copy = Options("copy");
  copy.resume = true;
  ASSERT_EQ(Killed(copy, 2), "");
  EXPECT_TRUE(fs::exists(before->back().path));
  EXPECT_THAT(*FindSwapRuns(folder_ / "swap"), SizeIs(before->size() + 1));
}

// Which run's copies are in --persist.
class PersistedRunTest : public RunStorageTest {
 protected:
  TrainOptions Persisted(const std::string& output) const {
    TrainOptions options = Options(output);
    options.persist = folder_ / "copies";
    return options;
  }
  // A run that commits, copies that and is killed.
  std::string CopiedAndKilled(const TrainOptions& options, int step) const {
    return InChildKilled([&]() -> absl::Status {
      auto opened = RunStorage::Open(options);
      if (!opened.ok()) return opened.status();
      RunStorage* const storage = opened->release();
      RunState state = State();
      auto made = storage->OpenStore(SmallLayout(), {}, state);
      if (!made.ok()) return made.status();
      SwapStore* const store = made->release();
      WriteEverything(*store, 1);
      state.step = step;
      const absl::Status committed = store->Commit(
          storage->manifest_path(), {static_cast<uint64_t>(step), EncodeRunState(state)});
      if (!committed.ok()) return committed;
      storage->copies()->Start(storage->manifest_path());
      return storage->copies()->Wait();
    });
  }
  bool HasCopy(int step) const {
    return fs::exists(folder_ / absl::StrFormat("copies/step-%012d/manifest-rank0", step));
  }
};

TEST_F(PersistedRunTest, AnotherRunsCopiesStayAndTheOtherRunIsNamed) {
  ASSERT_EQ(CopiedAndKilled(Persisted("out"), 3), "");
  TrainOptions other = Persisted("second");
  for (const bool overwrite : {false, true}) {
    other.overwrite = overwrite;
    const absl::Status refused = Begin(other).status();
    EXPECT_EQ(ExitCodeOf(refused), 2) << refused;
    for (const std::string& word :
         {folder_ / "copies", "the run in " + folder_ / "out", std::string("step 3"),
          std::string("another --persist"), std::string("nothing was touched")}) {
      EXPECT_THAT(std::string(refused.message()), HasSubstr(word));
    }
    EXPECT_THAT(std::string(refused.message()), testing::Not(HasSubstr("--overwrite")));
    EXPECT_TRUE(HasCopy(3));
    EXPECT_FALSE(fs::exists(folder_ / "second"));
  }
  // One that has commits of its own goes on from these.
  ASSERT_EQ(Killed(Options("second"), 2), "");
  other.overwrite = false;
  other.resume = true;
  const absl::Status refused = Begin(other).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the run in " + folder_ / "out"));
  // Its own run goes on, and may remove its own.
  TrainOptions own = Persisted("out");
  own.resume = true;
  ASSERT_EQ(CopiedAndKilled(own, 5), "");
  EXPECT_TRUE(HasCopy(5));
  own.resume = false;
  own.overwrite = true;
  EXPECT_EQ(Begin(own).status(), absl::OkStatus());
  EXPECT_FALSE(HasCopy(5));
}

TEST_F(PersistedRunTest, ANewOutputTakesThemOver) {
  ASSERT_EQ(CopiedAndKilled(Persisted("out"), 3), "");
  fs::remove_all(folder_ / "out");
  fs::remove_all(folder_ / "swap");
  fs::create_directory(folder_ / "swap");
  TrainOptions second = Persisted("second");
  second.resume = true;
  ASSERT_EQ(CopiedAndKilled(second, 4), "");
  TrainOptions third = Persisted("third");
  third.overwrite = true;
  EXPECT_THAT(std::string(Begin(third).status().message()),
              HasSubstr("the run in " + folder_ / "second"));
  second.resume = false;
  second.overwrite = true;
  EXPECT_EQ(Begin(second).status(), absl::OkStatus());
  EXPECT_FALSE(HasCopy(4));
}

// The same path, made anew; moved; of another machine, whose path says nothing here.
TEST_F(PersistedRunTest, TheRunIsKnownByItsIdAndByItsPathOnOneMachine) {
  ASSERT_EQ(CopiedAndKilled(Persisted("out"), 3), "");
  fs::rename(folder_ / "out", folder_ / "moved");
  TrainOptions moved = Persisted("moved");
  moved.resume = true;
  ASSERT_EQ(CopiedAndKilled(moved, 4), "");
  fs::remove_all(folder_ / "moved");
  fs::remove_all(folder_ / "swap");
  fs::create_directory(folder_ / "swap");
  TrainOptions anew = Persisted("moved");
  EXPECT_EQ(Begin(anew).status().code(), absl::StatusCode::kAlreadyExists);
  anew.overwrite = true;
  Edit(folder_ / "copies/owner", "host ", "host other-");
  EXPECT_THAT(std::string(Begin(anew).status().message()), HasSubstr("on other-"));
  EXPECT_TRUE(HasCopy(4));
  Edit(folder_ / "copies/owner", "host other-", "host ");
  EXPECT_EQ(Begin(anew).status(), absl::OkStatus());
  EXPECT_FALSE(HasCopy(4));
}

// Copies of a version that wrote no record belong to whoever names them.
TEST_F(PersistedRunTest, WithoutARecordTheyAreWhoseTheyWere) {
  ASSERT_EQ(CopiedAndKilled(Persisted("out"), 3), "");
  fs::remove(folder_ / "copies/owner");
  TrainOptions other = Persisted("second");
  EXPECT_EQ(Begin(other).status().code(), absl::StatusCode::kAlreadyExists);
  other.overwrite = true;
  EXPECT_EQ(Begin(other).status(), absl::OkStatus());
  EXPECT_FALSE(HasCopy(3));
}

TEST_F(RunStorageTest, ALinkInPlaceOfTheRanksFolderIsRefused) {
  fs::create_directories(folder_ / "elsewhere");
  for (const char* const kind : {"link", "file"}) {
    fs::create_directories(folder_ / "out");
    fs::permissions(folder_ / "out", fs::perms::owner_all);
    if (std::string(kind) == "link") {
      fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "out/ranks");
    } else {
      std::ofstream(folder_ / "out/ranks") << "x";
    }
    const absl::Status refused = RunStorage::Open(Options()).status();
    EXPECT_EQ(ExitCodeOf(refused), 2) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(folder_ / "out/ranks"));
    fs::remove_all(folder_ / "out");
  }
  EXPECT_THAT(In("elsewhere"), SizeIs(0));
}

// Whatever comes into the place where it was: it has no need of that.
TEST_F(RunStorageTest, AMovedOutputTakesTheStoreInItAlong) {
  TrainOptions out = Options("out"), moved = Options("moved");
  out.swap_paths = moved.swap_paths = {};
  moved.resume = true;
  ASSERT_EQ(Killed(out, 2), "");
  fs::rename(folder_ / "out", folder_ / "moved");
  const auto commit = [&](const std::string& output) {
    CommitRecord record;
    auto store = SwapStore::Open(CommitManifestPath(folder_ / output), true, {}, &record);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  };
  const auto is_resumable = [&] {
    const auto runs = FindSwapRuns(folder_ / "moved");
    EXPECT_THAT(*runs, SizeIs(1));
    EXPECT_EQ((*runs)[0].output, folder_ / "moved");
    EXPECT_FALSE(RemoveDeadRun((*runs)[0]).ok());
    return (*runs)[0].state == SwapRun::State::kResumable;
  };
  const std::string store = commit("moved")->directories().at(0);
  EXPECT_EQ(ParentPath(store), folder_ / "moved");
  EXPECT_TRUE(is_resumable());
  ASSERT_EQ(Killed(out, 7), "");
  EXPECT_EQ(FileName(commit("out")->directories().at(0)), FileName(store));
  EXPECT_TRUE(is_resumable());
  EXPECT_EQ(ReadEverything(*commit("moved"), 1), absl::OkStatus());
  ASSERT_EQ(Killed(moved, 4), "");
  EXPECT_EQ(commit("moved")->directories(), std::vector<std::string>{store}) << "it went on there";
  EXPECT_TRUE(is_resumable());
  // A commit of an earlier version names its files from the root.
  fs::remove_all(folder_ / "out");
  const std::string path = CommitManifestPath(folder_ / "moved");
  Manifest manifest = *DecodeManifest(*ReadSmallFile(path), path);
  manifest.files[0].path = store + "/tiles";
  ASSERT_EQ(WriteFileAtomically(path, *EncodeManifest(manifest)), absl::OkStatus());
  fs::rename(folder_ / "moved", folder_ / "again");
  moved.output = folder_ / "again";
  ASSERT_EQ(Killed(moved, 6), "");
  EXPECT_EQ(ParentPath(commit("again")->directories().at(0)), folder_ / "again");
}

// Whoever has moved it has the commit there; where it was removed there is none.
TEST_F(RunStorageTest, AnOutputThatIsMovedUnderARunKeepsItsState) {
  for (const bool removed : {false, true}) {
    TrainOptions options = Options();
    options.swap_paths = {};
    {
      auto storage = RunStorage::Open(options);
      ASSERT_TRUE(storage.ok()) << storage.status();
      RunState state = State();
      auto store = (*storage)->OpenStore(SmallLayout(), {}, state);
      ASSERT_TRUE(store.ok()) << store.status();
      WriteEverything(**store, 1);
      state.step = 2;
      ASSERT_EQ((*store)->Commit((*storage)->manifest_path(), {2, EncodeRunState(state)}),
                absl::OkStatus());
      if (removed) {
        fs::remove_all(folder_ / "out");
      } else {
        fs::rename(folder_ / "out", folder_ / "moved");
      }
      EXPECT_FALSE((*storage)->CheckStillThere().ok());
    }
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  }
  CommitRecord record;
  const auto store = SwapStore::Open(CommitManifestPath(folder_ / "moved"), true, {}, &record);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(ReadEverything(**store, 1), absl::OkStatus());
}

TEST_F(RunStorageTest, AMovedOutputTakesASwapPathInItAlong) {
  TrainOptions options = Options();
  fs::create_directories(folder_ / "out/swap");
  fs::permissions(folder_ / "out", fs::perms::owner_all);
  options.swap_paths = {folder_ / "out/swap"};
  ASSERT_EQ(Killed(options, 2), "");
  fs::rename(folder_ / "out", folder_ / "moved");
  const auto runs = FindSwapRuns(folder_ / "moved/swap");
  ASSERT_THAT(*runs, SizeIs(1));
  EXPECT_EQ((*runs)[0].state, SwapRun::State::kResumable) << (*runs)[0].reason;
  options = Options("moved");
  options.swap_paths = {folder_ / "moved/swap"};
  options.resume = true;
  ASSERT_EQ(Killed(options, 3), "");
  EXPECT_THAT(In("moved/swap"), testing::ElementsAre(FileName((*runs)[0].path)));
}

// Earlier versions went by the name of the folder, and took it for a rank's.
TEST_F(RunStorageTest, AnOutputThatIsCalledAsARanksDirectoryIs) {
  const std::string numbered = "out/ranks/2/manifest-rank2", plain = "out/ranks/2/manifest-rank0";
  TrainOptions options = Options("out/ranks/2");
  ASSERT_EQ(Killed(options, 2), "");
  ASSERT_TRUE(fs::exists(folder_ / plain));
  EXPECT_EQ(CommitManifestPath(folder_ / "out/ranks/2"), folder_ / plain);
  fs::rename(folder_ / plain, folder_ / numbered);
  EXPECT_EQ(CommitManifestPath(folder_ / "out/ranks/2"), folder_ / numbered);
  EXPECT_EQ(Begin(options).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(folder_ / numbered)) << "nothing was touched";
  EXPECT_EQ((*FindSwapRuns(folder_ / "swap"))[0].state, SwapRun::State::kResumable);
  fs::rename(folder_ / "out/ranks", folder_ / "out/scaling");
  EXPECT_EQ(CommitManifestPath(folder_ / "out/scaling/2"),
            folder_ / "out/scaling/2/manifest-rank2");
  options = Options("out/scaling/2");
  EXPECT_EQ(Begin(options).status().code(), absl::StatusCode::kAlreadyExists);
  options.resume = true;
  ASSERT_EQ(Killed(options, 3), "");
  EXPECT_TRUE(fs::exists(folder_ / "out/scaling/2/manifest-rank0"));
  EXPECT_FALSE(fs::exists(folder_ / "out/scaling/2/manifest-rank2"));
  fs::rename(folder_ / "out/scaling", folder_ / "out/ranks");
  options = Options("out/ranks/2");
  options.resume = true;
  {
    const auto storage = Begin(options);
    ASSERT_TRUE(storage.ok()) << storage.status();
    EXPECT_EQ((*storage)->committed()->step, 3);
  }
  // Nothing is left of it under either name.
  fs::rename(folder_ / plain, folder_ / numbered);
  options.resume = false;
  options.overwrite = true;
  ASSERT_TRUE(Begin(options).ok());
  EXPECT_FALSE(fs::exists(folder_ / numbered));
}

TEST_F(RunStorageTest, ResumingHoldsTheLockOfTheCommitsDirectories) {
  ASSERT_EQ(Killed(Options(), 2), "");
  TrainOptions options = Options();
  options.resume = true;
  auto storage = Begin(options);
  ASSERT_TRUE(storage.ok()) << storage.status();
  EXPECT_TRUE(GlanceAtRunDirectory(OnlyRun())->in_use);
  EXPECT_EQ(RunDirectory::Open(OnlyRun()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RunStorageTest, WhatWasPlantedIsNamedAndStays) {
  ASSERT_EQ(Killed(Options()), "");
  std::ofstream(folder_ / "precious") << "content";
  for (const std::string& planted : {OnlyRun() + "/tiles", OnlyRun() + "/notes",
                                     folder_ / "out/metrics.jsonl", folder_ / "out/model"}) {
    SCOPED_TRACE(planted);
    const bool there = fs::exists(planted);
    if (there) fs::rename(planted, folder_ / "aside");
    fs::create_symlink(folder_ / "precious", planted);
    for (int way = 0; way < 3; ++way) {
      TrainOptions options = Options();
      options.resume = way == 1;
      options.overwrite = way == 2;
      const absl::Status status = Begin(options).status();
      EXPECT_EQ(ExitCodeOf(status), 2) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(planted));
      EXPECT_THAT(std::string(status.message()), HasSubstr("a symbolic link"));
      EXPECT_TRUE(fs::is_symlink(planted));
    }
    EXPECT_EQ(*ReadSmallFile(folder_ / "precious"), "content");
    fs::remove(planted);
    if (there) fs::rename(folder_ / "aside", planted);
  }
}

TEST_F(RunStorageTest, AFullDiskIsFoundBeforeAnythingIsWritten) {
  TrainOptions options = Options();
  options.export_bytes_per_parameter = uint64_t{1} << 40;
  const absl::Status status = Begin(options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the model in " + folder_ / "out"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--no-commit"));
  EXPECT_THAT(In("swap"), SizeIs(0));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(RunStorageTest, DeadRunsAreToldFromLivingOnes) {
  ASSERT_EQ(Killed(Options("committed"), 2), "");
  ASSERT_EQ(Killed(Options("killed")), "");
  ASSERT_EQ(Killed(Options("gone"), 2), "");
  fs::remove_all(folder_ / "gone");
  ASSERT_EQ(Killed(Options("moved"), 2), "");
  const auto live = Begin(Options("live"));
  ASSERT_TRUE(live.ok()) << live.status();
  // Its commit names other swap by now, and the old one was never removed.
  std::string old;
  const auto before = FindSwapRuns(folder_ / "swap");
  for (const SwapRun& run : *before) {
    if (run.output == folder_ / "moved") old = run.path;
  }
  fs::copy(old, folder_ / "kept", fs::copy_options::recursive);
  TrainOptions moved = Options("moved");
  moved.resume = true;
  moved.swap_paths = {folder_ / "other"};
  ASSERT_EQ(Killed(moved, 3), "");
  EXPECT_FALSE(fs::exists(old)) << "a move takes the old place with it";
  fs::rename(folder_ / "kept", old);
  fs::permissions(old, fs::perms::owner_all);

  std::map<std::string, std::string> states;
  const auto runs = FindSwapRuns(folder_ / "swap");
  ASSERT_TRUE(runs.ok()) << runs.status();
  for (const SwapRun& run : *runs) {
    states[fs::path(run.output).filename()] = SwapRunStateName(run.state);
    EXPECT_GT(run.allocated_bytes, 4096u) << run.path;
  }
  EXPECT_EQ(states, (std::map<std::string, std::string>{{"committed", "resumable"},
                                                        {"killed", "dead"},
                                                        {"gone", "dead"},
                                                        {"moved", "dead"},
                                                        {"live", "in use"}}));
  for (const SwapRun& run : *runs) {
    EXPECT_EQ(RemoveDeadRun(run).ok(), run.state == SwapRun::State::kDead) << run.path;
    EXPECT_EQ(fs::exists(run.path), run.state != SwapRun::State::kDead) << run.path;
  }
}

// Runs with an OUTPUT each, below one swap path: made, locked, written, read back, removed.
TEST_F(RunStorageTest, SixtyFourRunsShareAParent) {
  std::vector<pid_t> runs;
  for (int i = 0; i < 64; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto storage = RunStorage::Open(Options(absl::StrCat("out", i)));
      if (!storage.ok()) ::_exit(1);
      RunState state = State();
      auto store = (*storage)->OpenStore(SmallLayout(), {}, state);
      if (!store.ok()) ::_exit(2);
      WriteEverything(**store, 100 + i);
      (void)FindSwapRuns(folder_ / "swap");
      if (!ReadEverything(**store, 100 + i).ok()) ::_exit(3);
      if (!(*storage)->CheckStillThere().ok()) ::_exit(4);
      // Every other one commits, and leaves its state.
      if (i % 2 == 0) {
        const absl::Status status =
            (*store)->Commit((*storage)->manifest_path(), {1, EncodeRunState(state)});
        if (!status.ok()) ::_exit(5);
      }
      store->reset();
      storage->reset();
      ::_exit(0);
    }
    runs.push_back(child);
  }
  for (const pid_t run : runs) {
    int status = 0;
    ::waitpid(run, &status, 0);
    EXPECT_EQ(status, 0) << "exit " << WEXITSTATUS(status);
  }
  EXPECT_THAT(In("swap"), SizeIs(32));
  const auto found = FindSwapRuns(folder_ / "swap");
  for (const SwapRun& run : *found) {
    EXPECT_EQ(run.state, SwapRun::State::kResumable) << run.reason;
    CommitRecord record;
    auto store = SwapStore::Open(CommitManifestPath(run.output), true, {}, &record);
    ASSERT_TRUE(store.ok()) << store.status();
    const int number = std::stoi(run.output.substr(run.output.rfind("out") + 3));
    EXPECT_EQ(ReadEverything(**store, 100 + number), absl::OkStatus());
  }
}

TEST_F(RunStorageTest, ARemovedSwapPathIsNoticed) {
  auto storage = Begin(Options());
  ASSERT_TRUE(storage.ok());
  EXPECT_EQ((*storage)->CheckStillThere(), absl::OkStatus());
  const std::string run = OnlyRun();
  fs::rename(run + "/tiles", folder_ / "aside");
  absl::Status status = (*storage)->CheckStillThere();
  EXPECT_EQ(ExitCodeOf(status), 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr(run + "/tiles was removed"));
  fs::remove_all(run);
  status = (*storage)->CheckStillThere();
  EXPECT_THAT(std::string(status.message()), HasSubstr(run + " was removed"));
}

// A run that moved was killed between the rename of its manifest and the sync after it: a power
// loss takes it back to the swap that the manifest before names.
TEST_F(RunStorageTest, SwapThatNoCommitNamesGoesOnlyWhenOutputIsDurable) {
  TrainOptions options = Options();
  ASSERT_EQ(Killed(options, 1), "");
  const std::string left = OnlyRun(), aside = folder_ / "aside";
  fs::copy(left, aside, fs::copy_options::recursive);
  options.swap_paths = {folder_ / "other"};
  options.resume = true;
  ASSERT_EQ(Killed(options, 2), "");
  ASSERT_FALSE(fs::exists(left));
  fs::rename(aside, left);

  bool durable = false;
  SyncWatcher files;
  files.on_sync = [&](const std::string& directory) {
    if (directory == folder_ / "out") durable |= fs::exists(left + "/tiles");
  };
  options.swap_paths = {folder_ / "swap", folder_ / "other"};
  auto storage = RunStorage::Open(options, nullptr, files);
  ASSERT_TRUE(storage.ok()) << storage.status();
  RunState state = State();
  const auto store = (*storage)->OpenStore(SmallLayout(), {}, state);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_FALSE(fs::exists(left + "/tiles"));
  EXPECT_TRUE(durable);
}

// Of a directory that is there nobody knows whether whoever made it came to its sync.
TEST_F(RunStorageTest, OutputAndSwapAreSyncedIntoTheirParentsWhetherTheyWereThereOrNot) {
  for (const bool made_before : {false, true}) {
    SCOPED_TRACE(made_before);
    if (made_before) fs::create_directories(folder_ / "a/b");
    std::vector<std::string> synced;
    SyncWatcher files;
    files.on_sync = [&](const std::string& directory) { synced.push_back(directory); };
    auto storage = RunStorage::Open(Options("a/b"), nullptr, files);
    ASSERT_TRUE(storage.ok()) << storage.status();
    RunState state = State();
    ASSERT_TRUE((*storage)->OpenStore(SmallLayout(), {}, state).ok());
    for (const char* parent : {"", "a", "swap"}) {
      if (made_before && parent[0] == '\0') continue;
      const std::string path = parent[0] == '\0' ? folder_.path() : folder_ / parent;
      EXPECT_THAT(synced, testing::Contains(path));
    }
  }
}

}  // namespace
}  // namespace spillway
