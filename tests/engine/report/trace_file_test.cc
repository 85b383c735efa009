#include "engine/report/trace_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "engine/report/step_recorder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/io_engine.h"

namespace spillway {
namespace {

using testing::HasSubstr;

class TraceFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Valid JSON at any time: read here from what is in the file.
  nlohmann::json Events() const {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    const auto json = nlohmann::json::parse(text.str(), nullptr, false);
    EXPECT_TRUE(json.is_object()) << text.str().substr(0, 300);
    return json.is_object() ? json["traceEvents"] : nlohmann::json::array();
  }

  static Span Of(SpanKind kind, int64_t begin, int64_t end, int unit = 0) {
    Span span;
    span.kind = kind;
    span.unit = unit;
    span.begin_ns = begin;
    span.end_ns = end;
    span.submitted_ns = begin - 500;
    return span;
  }

  const std::string folder_ = testing::TempDir() + "/trace-file";
  const std::string path_ = folder_ + "/trace.json";
};

TEST_F(TraceFileTest, ComesWithNamesTimesAndLanes) {
  auto file = TraceFile::Open(path_, {"wte \"x\"", "h.0"});
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->Add(Of(SpanKind::kForward, 5000, 7500)), absl::OkStatus());
  Span read = Of(SpanKind::kRead, 6000, 9000, 1);
  read.tile = 3;
  read.bytes = 4096;
  read.detail = static_cast<uint8_t>(IoClass::kPrefetch);
  read.in_flight_at_begin = 8192;
  ASSERT_EQ((*file)->Add(read), absl::OkStatus());
  read.begin_ns = 6500;  // beside the first
  ASSERT_EQ((*file)->Add(read), absl::OkStatus());
  read.begin_ns = 9000, read.end_ns = 9500;  // after it
  ASSERT_EQ((*file)->Add(read), absl::OkStatus());
  StepTimes times;
  times.step = 4;
  times.begin_ns = 5000;
  times.phase_ends_ns = {6000, 8000, 9000};
  times.end_ns = 10000;
  ASSERT_EQ((*file)->AddStep(times), absl::OkStatus());
  const nlohmann::json events = Events();
  std::map<int, std::string> tracks;
  std::map<std::string, nlohmann::json> by_name;
  std::map<int, int> reads;
  int counters = 0;
  for (const auto& event : events) {
    ASSERT_EQ(event.at("pid"), 1);
    const std::string phase = event.at("ph");
    if (phase == "M" && event.at("name") == "thread_name") {
      tracks[event.at("tid")] = event.at("args").at("name");
    }
    if (phase == "X") by_name[event.at("name")] = event;
    if (phase == "X" && event.at("name") == "read h.0") ++reads[event.at("tid")];
    counters += phase == "C";
  }
  EXPECT_EQ(by_name["forward wte \"x\""].at("ts"), 0);
  EXPECT_EQ(by_name["forward wte \"x\""].at("dur"), 2.5);
  EXPECT_EQ(tracks[by_name["forward wte \"x\""].at("tid")], "compute");
  const nlohmann::json& arguments = by_name["read h.0"].at("args");
  EXPECT_EQ(arguments.at("class"), "prefetch");
  EXPECT_EQ(arguments.at("bytes"), 4096);
  EXPECT_EQ(arguments.at("tile"), 3);
  EXPECT_EQ(arguments.at("queued_us"), 3.5);
  // Two beside each other, and the third in the first one's lane.
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads.begin()->second, 2);
  EXPECT_EQ(tracks[reads.begin()->first], "disk reads 1");
  EXPECT_EQ(counters, 6);
  EXPECT_EQ(tracks[by_name["step 4"].at("tid")], "steps");
  EXPECT_EQ(by_name["backward"].at("ts"), 1);
  EXPECT_EQ(by_name["backward"].at("dur"), 2);
}

TEST_F(TraceFileTest, IsWholeAfterEveryWriteAndForgetsAnEarlierOne) {
  std::ofstream(path_) << std::string(100000, 'x');
  auto file = TraceFile::Open(path_, {"wte"});
  ASSERT_TRUE(file.ok()) << file.status();
  size_t events = 0;
  for (int64_t i = 0; i < 3000; ++i) {
    ASSERT_EQ((*file)->Add(Of(SpanKind::kUpdate, i * 10, i * 10 + 5)), absl::OkStatus());
    if (i % 500 != 0) continue;
    ASSERT_EQ((*file)->Flush(), absl::OkStatus());
    EXPECT_GT(Events().size(), events);
    events = Events().size();
  }
  file->reset();
  EXPECT_GT(Events().size(), 3000u);
}

TEST_F(TraceFileTest, IsNotTouchedByARunThatDoesNotBegin) {
  { ASSERT_TRUE(TraceFile::Open(path_, {}).ok()); }
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::ofstream(path_) << "an earlier trace";
  { ASSERT_TRUE(TraceFile::Open(path_, {}).ok()); }
  EXPECT_EQ(std::filesystem::file_size(path_), 16u);
}

TEST_F(TraceFileTest, WhatCannotBeWrittenIsNamedAtTheStart) {
  const auto message = [](const absl::StatusOr<std::unique_ptr<TraceFile>>& file) {
    return std::string(file.status().message());
  };
  EXPECT_THAT(message(TraceFile::Open(folder_ + "/nowhere/trace.json", {})),
              testing::AllOf(HasSubstr("--trace"), HasSubstr("/nowhere/trace.json")));
  EXPECT_THAT(message(TraceFile::Open(folder_, {})), HasSubstr(folder_));
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(message(TraceFile::Open(pipe, {})), HasSubstr(pipe));
  EXPECT_THAT(message(TraceFile::Open("/dev/null", {})), HasSubstr("no regular file"));
}

TEST_F(TraceFileTest, EndsWholeWhereItGetsTooLarge) {
  auto file = TraceFile::Open(path_, {"wte"}, /*most_bytes=*/20000);
  ASSERT_TRUE(file.ok());
  absl::Status status;
  for (int64_t i = 0; i < 1000 && status.ok(); ++i) {
    status = (*file)->Add(Of(SpanKind::kUpdate, i * 10, i * 10 + 5));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--trace-steps"));
  EXPECT_EQ((*file)->Add(Of(SpanKind::kUpdate, 1, 2)), absl::OkStatus());
  EXPECT_GT(Events().size(), 50u);
  EXPECT_LT(std::filesystem::file_size(path_), 20500u);
}

TEST_F(TraceFileTest, TheRecorderWritesTheStepsAskedFor) {
  TraceOptions options;
  options.path = path_;
  options.first_step = 3;
  options.steps = 2;
  auto recorder = StepRecorder::Create(options, {"wte"});
  ASSERT_TRUE(recorder.ok());
  StepRecorder& r = **recorder;
  r.Begin(1);
  r.BeginSteps();
  for (int64_t step = 1; step <= 6; ++step) {
    { const TraceSpan span(r.trace(), SpanKind::kForward, static_cast<int>(step)); }
    r.Drain();
    StepTimes times;
    times.step = step;
    times.steady = step > 1;
    times.end_ns = Trace::Now();
    times.phase_ends_ns = {times.end_ns, times.end_ns, times.end_ns};
    r.EndStep(times, {{"step", step}});
  }
  std::vector<std::string> names;
  for (const auto& event : Events()) {
    if (event.at("ph") == "X" && event.at("dur").get<double>() >= 0 && event.at("cat") != "phase") {
      names.push_back(event.at("name"));
    }
  }
  EXPECT_THAT(names, testing::ElementsAre("forward unit 3", "step 3", "forward unit 4", "step 4"));
  EXPECT_EQ(r.timeline()->step, 5);
  r.Finish();
  EXPECT_EQ(r.timeline()->step, 6);
  { const TraceSpan span(r.trace(), SpanKind::kForward); }
  r.Drain();  // after the end, and no harm
}

TEST_F(TraceFileTest, CopiesOfEachDirectionAndADevicesUpdatesHaveATrack) {
  auto file = TraceFile::Open(path_, {"wte", "h.0"});
  ASSERT_TRUE(file.ok()) << file.status();
  for (int64_t i = 0; i < 3; ++i) {
    Span copy = Of(SpanKind::kCopyToDevice, 1000 * i, 1000 * i + 500, 1);
    copy.bytes = 4096;
    ASSERT_EQ((*file)->Add(copy), absl::OkStatus());
    copy.kind = SpanKind::kCopyToHost;
    ASSERT_EQ((*file)->Add(copy), absl::OkStatus());
    ASSERT_EQ((*file)->Add(Of(SpanKind::kDeviceUpdate, 1000 * i, 1000 * i + 500, 1)),
              absl::OkStatus());
  }
  StepTimes times;
  times.end_ns = 5000;
  ASSERT_EQ((*file)->AddStep(times), absl::OkStatus());
  file->reset();
  std::map<std::string, int> named;
  std::map<int, int> copies, updates;
  for (const auto& event : Events()) {
    if (event.at("ph") == "M" && event.at("name") == "thread_name") {
      ++named[event.at("args").at("name")];
    }
    if (event.at("name") == "device update h.0") ++updates[event.at("tid")];
    if (event.at("ph") != "X" || event.at("cat") != "copy") continue;
    ++copies[event.at("tid")];
    EXPECT_EQ(event.at("args").at("bytes"), 4096);
  }
  EXPECT_EQ(named["copy to device"], 1);
  EXPECT_EQ(named["copy to host"], 1);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies.begin()->second, 3);
  EXPECT_EQ(named["device update"], 1);
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates.begin()->second, 3);
}

TEST_F(TraceFileTest, GathersAndSumsShareATrack) {
  auto file = TraceFile::Open(path_, {"wte", "h.0"});
  ASSERT_TRUE(file.ok()) << file.status();
  for (int64_t i = 0; i < 3; ++i) {
    Span span = Of(SpanKind::kGather, 1000 * i, 1000 * i + 400, 1);
    span.bytes = 4096;
    ASSERT_EQ((*file)->Add(span), absl::OkStatus());
    span = Of(SpanKind::kSum, 1000 * i + 400, 1000 * i + 500, 0);
    span.bytes = 512;
    ASSERT_EQ((*file)->Add(span), absl::OkStatus());
  }
  ASSERT_EQ((*file)->AddStep({.end_ns = 5000}), absl::OkStatus());
  file->reset();
  std::map<std::string, int> tracks, named;
  std::map<std::string, int64_t> bytes;
  for (const auto& event : Events()) {
    if (event.at("ph") == "M" && event.at("name") == "thread_name") {
      tracks[event.at("args").at("name")] = event.at("tid");
    }
    if (event.at("ph") != "X" || event.at("cat") != "collective") continue;
    EXPECT_EQ(event.at("tid"), tracks.at("collectives"));
    ++named[event.at("name")];
    bytes[event.at("name")] += event.at("args").at("bytes").get<int64_t>();
  }
  EXPECT_THAT(named,
              testing::ElementsAre(testing::Pair("gather h.0", 3), testing::Pair("sum wte", 3)));
  EXPECT_EQ(bytes["gather h.0"], 3 * 4096);
  EXPECT_EQ(bytes["sum wte"], 3 * 512);
}

}  // namespace
}  // namespace spillway
