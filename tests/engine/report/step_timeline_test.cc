#include "engine/report/step_timeline.h"

#include <filesystem>
#include <fstream>

#include "engine/report/timeline_svg.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;

Span Of(SpanKind kind, int64_t begin_ms, int64_t end_ms, int unit = 0, uint64_t bytes = 0) {
  Span span;
  span.kind = kind;
  span.unit = unit;
  span.begin_ns = begin_ms * kMs;
  span.end_ns = end_ms * kMs;
  span.bytes = bytes;
  return span;
}

StepTimes Times(int64_t step, bool steady, int64_t forward, int64_t backward, int64_t end) {
  StepTimes times;
  times.step = step;
  times.steady = steady;
  times.phase_ends_ns = {forward * kMs, backward * kMs, end * kMs};
  times.end_ns = end * kMs;
  return times;
}

// Step 2, from 100 to 200 ms, on a builder that also saw what lies around it.
TimelineBuilder TwoSteps() {
  TimelineBuilder builder({"wte", "h.0"});
  builder.Begin(0);
  builder.Add(Of(SpanKind::kForward, 10, 20));
  builder.EndStep(Times(1, false, 50, 90, 100), {{"step", 1}}, 0);
  builder.Add(Of(SpanKind::kForward, 100, 130));
  Span wait = Of(SpanKind::kWaitDisk, 130, 140, 1);
  wait.detail = static_cast<uint8_t>(SpanKind::kBackward);
  builder.Add(wait);
  builder.Add(Of(SpanKind::kBackward, 140, 180, 1));
  builder.Add(Of(SpanKind::kRead, 90, 120, 1, 3000));  // begun in step 1
  Span update = Of(SpanKind::kUpdate, 150, 170);
  update.thread = 7;
  builder.Add(update);
  builder.EndStep(Times(2, true, 135, 190, 200), {{"step", 2}, {"bound_seconds", 0.05}}, 4);
  // What was under way at its end.
  builder.Add(Of(SpanKind::kWrite, 190, 230, 1, 4000));
  builder.Add(Of(SpanKind::kForward, 210, 240));
  return builder;
}

TEST(TimelineBuilder, AStepIsDoneWhenTheNextHasEnded) {
  TimelineBuilder builder = TwoSteps();
  ASSERT_TRUE(builder.timeline());
  EXPECT_EQ(builder.timeline()->step, 1);
  builder.EndStep(Times(3, false, 250, 290, 300), {}, 4);
  const StepTimeline& t = *builder.timeline();
  EXPECT_EQ(t.step, 2);
  EXPECT_TRUE(t.steady);
  EXPECT_DOUBLE_EQ(t.seconds, 0.1);
  EXPECT_EQ(t.phase_ends, (std::array<double, 3>{0.035, 0.09, 0.1}));
  ASSERT_EQ(t.ops.size(), 2u);
  EXPECT_EQ(t.ops[0].name, "forward wte");
  EXPECT_EQ(t.ops[1].name, "backward h.0");
  EXPECT_EQ(t.ops[1].span, (TimelineSpan{0.04, 0.08}));
  ASSERT_EQ(t.stalls.size(), 1u);
  EXPECT_EQ(t.stalls[0].reason, "disk");
  EXPECT_EQ(t.stalls[0].before, "backward h.0");
  ASSERT_EQ(t.waits.size(), 1u);
  EXPECT_EQ(t.waits[0].name, "disk");
  ASSERT_EQ(t.resources.size(), 3u);
  EXPECT_EQ(t.resources[0].name, "update worker 1");
  EXPECT_EQ(t.resources[1].name, "disk read");
  // What lies in the step of what began before it and ends after it.
  EXPECT_THAT(t.resources[1].busy, ElementsAre(TimelineSpan{0, 0.02}));
  EXPECT_EQ(t.resources[2].name, "disk write");
  EXPECT_THAT(t.resources[2].busy, ElementsAre(TimelineSpan{0.09, 0.1}));
  double read = 0;
  for (const double bin : t.resources[1].bin_bytes) read += bin;
  EXPECT_NEAR(read, 2000, 200);
  EXPECT_DOUBLE_EQ(t.worker_seconds.at("update"), 0.02);
  EXPECT_EQ(t.lost_spans, 4u);
  EXPECT_EQ(t.metrics["step"], 2);
}

TEST(TimelineBuilder, ASteadyStepStaysUntilTheNextSteadyOne) {
  TimelineBuilder builder = TwoSteps();
  builder.EndStep(Times(3, false, 250, 290, 300), {}, 4);
  builder.EndStep(Times(4, false, 350, 390, 400), {}, 4);
  EXPECT_EQ(builder.timeline()->step, 2);
  builder.EndStep(Times(5, true, 450, 490, 500), {}, 4);
  builder.Finish();
  EXPECT_EQ(builder.timeline()->step, 5);
}

TEST(TimelineBuilder, ARunOfOneStepHasOneToo) {
  TimelineBuilder builder({"wte"});
  builder.Begin(0);
  builder.EndStep(Times(1, false, 50, 90, 100), {}, 0);
  EXPECT_FALSE(builder.timeline());
  builder.Finish();
  ASSERT_TRUE(builder.timeline());
  EXPECT_EQ(builder.timeline()->step, 1);
  builder.Add(Of(SpanKind::kRead, 90, 120));  // too late, and no harm
}

TEST(TimelineBuilder, MemoryIsBoundedHoweverManySpansThereAre) {
  TimelineBuilder builder({"wte"});
  builder.Begin(0);
  for (int64_t i = 0; i < 50000; ++i) {
    builder.Add(Of(SpanKind::kRead, 2 * i, 2 * i + 1, 0, 10));
    builder.Add(Of(SpanKind::kWaitDisk, 2 * i, 2 * i + 1));
    builder.Add(Of(SpanKind::kForward, 2 * i, 2 * i + 1));
  }
  builder.EndStep(Times(1, false, 40000, 90000, 100000), {}, 0);
  builder.Finish();
  const StepTimeline& t = *builder.timeline();
  EXPECT_LE(t.ops.size(), 1024u);
  EXPECT_LE(t.stalls.size(), 48u);
  EXPECT_LE(t.resources[0].busy.size(), BusyIntervals::kMostPieces);
  EXPECT_LE(t.waits[0].busy.size(), BusyIntervals::kMostPieces);
  EXPECT_LT(ToJson(t).dump().size(), size_t{200} << 10);
}

TEST(StepTimeline, ComesBackFromItsFile) {
  TimelineBuilder builder = TwoSteps();
  builder.Finish();
  const nlohmann::json json = ToJson(*builder.timeline());
  const auto back = StepTimelineFromJson(json);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), json);
  for (const auto& [name, value] : json.items()) {
    SCOPED_TRACE(name);
    nlohmann::json bad = json;
    bad.erase(name);
    EXPECT_FALSE(StepTimelineFromJson(bad).ok());
    bad[name] = name == "metrics" ? json : nlohmann::json{{"what", "is this"}};
    EXPECT_EQ(StepTimelineFromJson(bad).ok(), name == "metrics");
  }
  nlohmann::json bad = json;
  bad["ops"][0][1] = -1;
  EXPECT_FALSE(StepTimelineFromJson(bad).ok());
  bad = json;
  bad["step"] = 1e300;
  EXPECT_FALSE(StepTimelineFromJson(bad).ok());
  bad = json;
  bad["resources"][1]["bin_bytes"][0] = 1e300;
  EXPECT_FALSE(StepTimelineFromJson(bad).ok());
  const std::string output = testing::TempDir();
  std::filesystem::remove(TimelinePath(output));
  EXPECT_TRUE(absl::IsNotFound(ReadTimeline(output).status()));
  std::ofstream(TimelinePath(output)) << "{\"version\": 2}";
  const absl::Status status = ReadTimeline(output).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("timeline.json"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 2"));
  std::filesystem::remove(TimelinePath(output));
}

TEST(TimelineSvg, DrawsEveryRowAndNamesTheStalls) {
  TimelineBuilder builder = TwoSteps();
  builder.Finish();
  const std::string svg = TimelineSvg(*builder.timeline());
  for (const char* text :
       {"<svg", "role=\"img\"", "aria-labelledby", "</svg>", ">compute<", ">waits<",
        ">update worker 1<", ">disk read<", ">disk write<", ">forward<", ">backward<",
        "backward h.0: 40 ms", "10 ms for disk, before backward h.0", "compute 70 %"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

// The numbers of `svg` in attributes of positions: all in the picture.
TEST(TimelineSvg, StaysInThePictureWhateverItIsGiven) {
  StepTimeline t;
  EXPECT_EQ(TimelineSvg(t), "");
  t.seconds = 1;
  t.phase_ends = {-5, 1e300, 0.5};
  t.ops = {{"<script>", {-1e300, 1e300}}, {"b", {0.9, 0.1}}};
  t.stalls = {{"disk\"", "<b>", {-3, 7}}};
  t.waits = {{"x&y", {{2, 3}}, 0, {}}};
  t.resources = {{"disk read", {{0, 5}}, 1e300, {1e300, -1, 0}}, {"w", {{5, -5}}, 0, {}}};
  const std::string svg = TimelineSvg(t);
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  for (const char* wrong : {"nan", "inf", "e+", "\"-", ": -"})
    EXPECT_THAT(svg, Not(HasSubstr(wrong)));
  size_t positions = 0;
  for (size_t at = svg.find(" x=\""); at != std::string::npos; at = svg.find(" x=\"", at + 1)) {
    const double x = std::stod(svg.substr(at + 4));
    EXPECT_GE(x, 0);
    EXPECT_LE(x, 1180);
    ++positions;
  }
  EXPECT_GT(positions, 5u);
}

TEST(TimelineBuilder, ADevicesCopiesAndUpdatesAreRowsAndWaitsForThemAReason) {
  TimelineBuilder builder({"wte", "h.0"});
  builder.Begin(0);
  builder.Add(Of(SpanKind::kCopyToDevice, 10, 30, 1, 4000));
  builder.Add(Of(SpanKind::kCopyToHost, 20, 60, 1, 2000));
  builder.Add(Of(SpanKind::kDeviceUpdate, 40, 70, 1));
  Span wait = Of(SpanKind::kWaitCopy, 10, 30, 1);
  wait.detail = static_cast<uint8_t>(SpanKind::kBackward);
  builder.Add(wait);
  builder.EndStep(Times(1, true, 50, 90, 100), {{"step", 1}}, 0);
  builder.Finish();
  const StepTimeline& t = *builder.timeline();
  ASSERT_EQ(t.resources.size(), 3u);
  EXPECT_EQ(t.resources[0].name, "device update");
  EXPECT_EQ(t.resources[0].busy, (std::vector<TimelineSpan>{{0.04, 0.07}}));
  EXPECT_EQ(t.resources[1].name, "copy to device");
  EXPECT_EQ(t.resources[1].busy, (std::vector<TimelineSpan>{{0.01, 0.03}}));
  double bytes = 0;
  for (const double bin : t.resources[1].bin_bytes) bytes += bin;
  EXPECT_NEAR(bytes, 4000, 1);
  EXPECT_EQ(t.resources[2].name, "copy to host");
  ASSERT_EQ(t.waits.size(), 1u);
  EXPECT_EQ(t.waits[0].name, "copy");
  ASSERT_EQ(t.stalls.size(), 1u);
  EXPECT_EQ(t.stalls[0].reason, "copy");
  EXPECT_EQ(t.stalls[0].before, "backward h.0");
  const auto again = StepTimelineFromJson(ToJson(t));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->resources[2].name, "copy to host");
}

TEST(TimelineBuilder, GathersAndSumsAreOneRowAndWaitsForRanksAReason) {
  TimelineBuilder builder({"wte", "h.0"});
  builder.Begin(0);
  builder.Add(Of(SpanKind::kGather, 10, 30, 1, 4000));
  builder.Add(Of(SpanKind::kSum, 40, 60, 0, 2000));
  Span wait = Of(SpanKind::kWaitCollective, 10, 30, 1);
  wait.detail = static_cast<uint8_t>(SpanKind::kForward);
  builder.Add(wait);
  builder.EndStep(Times(1, true, 50, 90, 100), {{"step", 1}}, 0);
  builder.Finish();
  const StepTimeline& t = *builder.timeline();
  ASSERT_EQ(t.resources.size(), 1u);
  EXPECT_EQ(t.resources[0].name, "collectives");
  EXPECT_EQ(t.resources[0].busy, (std::vector<TimelineSpan>{{0.01, 0.03}, {0.04, 0.06}}));
  double bytes = 0;
  for (const double bin : t.resources[0].bin_bytes) bytes += bin;
  EXPECT_NEAR(bytes, 6000, 1);
  ASSERT_EQ(t.stalls.size(), 1u);
  EXPECT_EQ(t.stalls[0].reason, "collective");
  EXPECT_EQ(t.stalls[0].before, "forward h.0");
  const std::string svg = TimelineSvg(t);
  EXPECT_NE(svg.find("collectives"), std::string::npos);
  EXPECT_NE(svg.find("<path class=\"f4 faint\""), std::string::npos);
}

}  // namespace
}  // namespace spillway
