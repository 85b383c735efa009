#include "engine/tuning/null_bench.h"

#include "absl/strings/str_split.h"
#include "engine/tuning/null_steps.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

constexpr uint64_t kTile = 4096, kUnit = 4 * kTile;

TEST(NullSteps, MoveEveryTileAsARunDoesWithChecksumsAndWithout) {
  for (const UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (const bool checksums : {true, false}) {
      const PlanRequest request = LayersRequest(update, 6, kUnit, kTile);
      const auto steps = NullSteps::Create(request, {1, checksums});
      ASSERT_TRUE(steps.ok()) << steps.status();
      for (int i = 0; i < 3; ++i) ASSERT_TRUE((*steps)->Step().ok());
      ASSERT_TRUE((*steps)->Flush().ok());
      const NullSteps::Work work = (*steps)->work();
      int tiles = 0;
      for (int unit = 0; unit < request.layout.num_units(); ++unit) {
        tiles += request.layout.NumTiles(unit);
      }
      EXPECT_EQ(work.steps, 3);
      EXPECT_EQ(work.tiles, 3 * tiles);
      // Each update writes 12 bytes a parameter, and reads at least the 10 that are not its weight.
      EXPECT_GT(work.moved_bytes, work.tiles * kTile * 20);
      EXPECT_GT(work.mover_seconds, 0);
      EXPECT_GT(work.worker_seconds, 0);
    }
  }
}

TEST(NullBench, SaysWhatAWorkerAndTheMoverKeepUpWith) {
  NullBenchOptions options;
  options.workers = 1;
  options.layers = 3;
  options.layer_parameters = kUnit;
  options.tile_parameters = kTile;
  options.seconds = 0.01;
  const auto result = RunNullBench(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->tile_bytes, 12 * kTile);
  EXPECT_GT(result->moved_bytes_per_step, 0);
  const nlohmann::json json = NullBenchJson(*result);
  for (const char* sort : {"with_checksums", "without_checksums"}) {
    for (const char* who : {"worker", "mover", "all"}) {
      const nlohmann::json& rate = json[sort][who];
      EXPECT_GT(rate["least"].get<double>(), 1e5) << sort << who;
      EXPECT_LE(rate["least"], rate["median"]);
      EXPECT_LE(rate["median"], rate["most"]);
    }
    EXPECT_GT(json[sort]["mover_seconds_per_tile"].get<double>(), 0);
  }
  for (const absl::string_view line : absl::StrSplit(NullBenchText(*result), '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(NullBench, Stops) {
  NullBenchOptions options;
  options.layers = 1;
  options.layer_parameters = kUnit;
  options.tile_parameters = kTile;
  options.stopped = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(RunNullBench(options).status()));
}

}  // namespace
}  // namespace spillway
