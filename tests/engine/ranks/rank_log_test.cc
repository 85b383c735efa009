#include "engine/ranks/rank_log.h"

#include "engine/base/progress.h"
#include "io/base/log.h"

namespace spillway {
namespace {

// What a rank of this number shows on stderr.
std::string Said(int rank) {
  Launch launch;
  launch.rank = rank;
  launch.world = 4;
  testing::internal::CaptureStderr();
  SetUpRankLog(launch);
  LogInfo("information");
  LogWarning("careful");
  LogError("broken");
  Progress progress("training", 2);
  progress.Update(1);
  progress.Update(2);
  SetLogPrefix("");
  SetLogLevel(LogLevel::kInfo);
  return testing::internal::GetCapturedStderr();
}

TEST(RankLog, RankZeroTalks) {
  const std::string text = Said(0);
  for (const char* part : {"information\n", "spillway: warning: careful\n",
                           "spillway: error: broken\n", "training 1/2"}) {
    EXPECT_THAT(text, testing::HasSubstr(part));
  }
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("rank")));
}

TEST(RankLog, OthersSayOnlyWhatIsWrongAndWhoTheyAre) {
  EXPECT_EQ(Said(3), "rank 3: spillway: warning: careful\nrank 3: spillway: error: broken\n");
}

}  // namespace
}  // namespace spillway
