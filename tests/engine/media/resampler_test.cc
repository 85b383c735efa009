#include "engine/media/resampler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/data/sound_testing.h"

namespace spillway {
namespace {

TEST(Resampler, APieceAtATimeGivesWhatTheWholeGives) {
  const std::vector<float> tone = Tone(440, 44100, 44100);
  std::vector<float> whole, pieces;
  for (const auto& [piece, converted] :
       {std::pair{tone.size(), &whole}, std::pair{size_t{777}, &pieces}}) {
    const auto resampler = Resampler::Create(44100, 16000);
    ASSERT_TRUE(resampler.ok()) << resampler.status();
    for (absl::Span<const float> left = tone; !left.empty();
         left.remove_prefix(std::min(piece, left.size()))) {
      ASSERT_TRUE((*resampler)->Convert(left.subspan(0, piece), converted).ok());
    }
    EXPECT_LT(converted->size(), 16000);  // a filter looks ahead
    ASSERT_TRUE((*resampler)->Finish(converted).ok());
  }
  EXPECT_NEAR(whole.size(), 16000, 2);
  EXPECT_EQ(pieces, whole);
}

TEST(Resampler, ARateThatIsNoneIsRefused) {
  const auto resampler = Resampler::Create(44100, -1);
  EXPECT_EQ(resampler.status().code(), absl::StatusCode::kInternal) << resampler.status();
}

}  // namespace
}  // namespace spillway
