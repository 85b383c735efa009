#include "engine/tuning/tune.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_split.h"
#include "engine/tuning/tune_output.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

using EngineKind = IoEngineOptions::Kind;

TEST(TuneCandidates, EnginesInTheOrderOfPreference) {
  const auto full = EngineCandidates(false, {.uring = true});
  ASSERT_EQ(full.size(), 5u);
  EXPECT_EQ(full[0].io.kind, EngineKind::kUring);
  for (size_t i = 1; i < full.size(); ++i) {
    EXPECT_EQ(full[i].io.kind, EngineKind::kThreads);
    if (i > 1) {
      EXPECT_GT(full[i].io.threads, full[i - 1].io.threads);
    }
  }
  EXPECT_EQ(EngineCandidates(false, {}).size(), 4u);
  EXPECT_LT(EngineCandidates(true, {true, true, true}).size(), full.size());
  // What keeps a core busy comes last, so that equals are preferred to it.
  const auto all = EngineCandidates(false, {true, true, true});
  ASSERT_EQ(all.size(), 7u);
  EXPECT_TRUE(all[5].io.poll && !all[5].io.sqpoll);
  EXPECT_TRUE(all[6].io.sqpoll && !all[6].io.poll);
}

TEST(TuneCandidates, ShapesStayWithinTheMemory) {
  IoEngineOptions engine;
  engine.kind = EngineKind::kThreads;
  engine.threads = 7;
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const TuneCandidate& shape : ShapeCandidates(false, engine, 64 * kMiB)) {
    EXPECT_LE(uint64_t{shape.io.block_bytes} * shape.io.depth, 64 * kMiB);
    EXPECT_EQ(shape.io.threads, 7u);
    EXPECT_TRUE(seen.emplace(shape.io.block_bytes, shape.io.depth).second);
  }
  EXPECT_TRUE(seen.count({256 * 1024, 128}));
  EXPECT_TRUE(seen.count({4 * kMiB, 4}));
  EXPECT_TRUE(seen.count({4 * kMiB, 16}));
  EXPECT_FALSE(seen.count({4 * kMiB, 32}));
  EXPECT_LT(ShapeCandidates(true, engine, 64 * kMiB).size(), seen.size());
}

class TuneTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"/a", "/b"}) {
      std::filesystem::create_directories(testing::TempDir() + name);
      options_.paths.push_back(testing::TempDir() + name);
    }
    options_.seconds = 0.5;
    options_.quick = true;
    options_.file_bytes = 8 * kMiB;
    options_.buffer_bytes = 8 * kMiB;
  }
  bool LeftNothing() const {
    return std::filesystem::is_empty(options_.paths[0]) &&
           std::filesystem::is_empty(options_.paths[1]);
  }
  TuneOptions options_;
};

TEST_F(TuneTest, ChoosesOneOfWhatItMeasured) {
  const auto result = Tune(options_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(LeftNothing());
  int engines = 0, shapes = 0;
  for (const TuneCandidate& engine : result->engines) engines += engine.chosen;
  for (const TuneCandidate& shape : result->shapes) {
    shapes += shape.chosen;
    EXPECT_GT(shape.rates.read_bytes_per_second, 0);
    EXPECT_GT(shape.relative, 0);
    if (!shape.chosen) continue;
    EXPECT_EQ(shape.io.block_bytes, result->chosen.block_bytes);
    EXPECT_EQ(shape.io.depth, result->chosen.depth);
  }
  EXPECT_EQ(engines, 1);
  EXPECT_EQ(shapes, 1);
  ASSERT_EQ(result->paths.size(), 2u);
  EXPECT_EQ(result->paths[1].path, options_.paths[1]);

  const MachineIdentity machine = ThisMachine();
  const TunedEntry entry = result->Entry(machine, 1800000000);
  EXPECT_EQ(entry.devices.size(), 1u);  // both paths are on one device
  EXPECT_EQ(StaleReason(entry, machine, FindDevices(options_.paths), 1800000001), "");
  const auto weights = PathWeights(entry, FindDevices(options_.paths));
  EXPECT_EQ(weights, (std::vector<double>{0.5, 0.5}));
}

TEST_F(TuneTest, TheTableFitsATerminalAndJsonHasAllOfIt) {
  options_.paths.resize(1);
  const auto result = Tune(options_);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const absl::string_view line : absl::StrSplit(TuneText(*result), '\n')) {
    EXPECT_TRUE(line.size() <= 80 || line.find('/') != line.npos) << line;
  }
  const nlohmann::json json = TuneJson(*result);
  EXPECT_EQ(json["shapes"].size(), result->shapes.size());
  EXPECT_EQ(json["engines"].size(), result->engines.size());
  EXPECT_EQ(json["block_bytes"], result->chosen.block_bytes);
  EXPECT_EQ(json["paths"][0]["path"], options_.paths[0]);
}

TEST_F(TuneTest, StopsBetweenMeasurements) {
  int asked = 0;
  options_.stopped = [&] { return ++asked > 5; };
  EXPECT_TRUE(absl::IsCancelled(Tune(options_).status()));
  EXPECT_EQ(asked, 6);
  options_.paths.push_back(testing::TempDir() + "/nowhere");
  EXPECT_FALSE(Tune(options_).ok());
  options_.paths.pop_back();
  EXPECT_TRUE(LeftNothing());
}

}  // namespace
}  // namespace spillway
