// What a path is taken for. Of runs tests/engine/train/trainer_test.cc and
// tests/tools/inspect_test.py say more.
#include "engine/inspect/inspect.h"

#include <filesystem>

#include "tests/engine/format_testing.h"
#include "tests/engine/weights/safetensors_testing.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

std::string TwoTensors(const std::string& first, const std::string& second) {
  return SafetensorsBytes("{\"__metadata__\":{\"format\":\"pt\"}," +
                              Entry(first, "F32", "[2,3]", 0, 24) + "," +
                              Entry(second, "BF16", "[4]", 24, 32) + "}",
                          std::string(32, 'x'));
}

TEST(Inspect, ASafetensorsFileHasTensorsAndTotals) {
  ScratchDirectory scratch;
  const std::string path = scratch / "m.safetensors";
  WriteFile(path, TwoTensors("a", "b"));
  const auto found = Inspect(path);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)["parameters"], 10);
  EXPECT_EQ((*found)["bytes"], 32);
  EXPECT_EQ((*found)["dtypes"], (nlohmann::json{{"BF16", 4}, {"F32", 6}}));
  EXPECT_EQ((*found)["tensors"][1]["name"], "b");
  EXPECT_EQ((*found)["tensors"][1]["bytes"], 8);
  EXPECT_EQ((*found)["tensors"][1]["file"], path);
  const std::string text = InspectText(*found);
  EXPECT_THAT(text, HasSubstr("BF16   [4]                  b\n"));
  EXPECT_THAT(text, HasSubstr("  format            pt\n"));
  EXPECT_THAT(text, HasSubstr("10 elements in 2 tensors, 32 B, BF16 4, F32 6\n"));
}

TEST(Inspect, AModelInShardsNamesEachTensorsFile) {
  ScratchDirectory scratch;
  WriteFile(scratch / "x.safetensors", TwoTensors("a", "b"));
  WriteFile(scratch / "y.safetensors", TwoTensors("c", "d"));
  WriteFile(scratch / "model.safetensors.index.json",
            R"({"weight_map": {"a": "x.safetensors", "b": "x.safetensors",
                               "c": "y.safetensors", "d": "y.safetensors"}})");
  for (const std::string& path : {scratch.path(), scratch / "model.safetensors.index.json"}) {
    const auto found = Inspect(path);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ((*found)["files"].size(), 2u);
    EXPECT_EQ((*found)["parameters"], 20);
    EXPECT_THAT(InspectText(*found), HasSubstr("d  y.safetensors\n"));
  }
  WriteFile(scratch / "y.safetensors", "short");
  ExpectError(Inspect(scratch.path()).status(), absl::StatusCode::kDataLoss, {"y.safetensors"});
}

TEST(Inspect, AnAdaptersDirectoryIsItsFile) {
  ScratchDirectory scratch;
  const std::string path = scratch / "adapter_model.safetensors";
  WriteFile(path, TwoTensors("a", "b"));
  const auto found = Inspect(scratch.path());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, *Inspect(path));
}

TEST(Inspect, SaysWhatAPathIsInstead) {
  ScratchDirectory scratch;
  constexpr auto kInput = absl::StatusCode::kInvalidArgument;
  constexpr auto kNone = absl::StatusCode::kNotFound;
  ExpectError(Inspect(scratch / "missing").status(), kNone, {"does not exist", "OUTPUT"});
  ExpectError(Inspect(scratch.path()).status(), kNone, {"no commit and no model"});
  WriteFile(scratch / "tokens.npy", "\x93NUMPY");
  ExpectError(Inspect(scratch / "tokens.npy").status(), kInput, {"a .npy file"});
  WriteFile(scratch / "other", "garbage garbage");
  ExpectError(Inspect(scratch / "other").status(), absl::StatusCode::kDataLoss, {"other"});
  WriteFile(scratch / "manifest", "spillway-manifest 1 0000000000000000 3\n{}");
  ExpectError(Inspect(scratch / "manifest").status(), absl::StatusCode::kDataLoss, {"manifest"});

  WriteFile(scratch / "metrics.jsonl", "");
  ExpectError(Inspect(scratch.path()).status(), kNone,
              {"has made no commit", "--resume starts at step 1"});
  WriteFile(scratch / "tiles", "");
  ExpectError(Inspect(scratch.path()).status(), kInput, {"swap directory"});
  for (const char* copy : {"step-000000000002", "step-000000000012"}) {
    std::filesystem::create_directory(scratch / copy);
    WriteFile(scratch / copy + "/manifest-rank0", "");
  }
  std::filesystem::create_directory(scratch / "step-000000000099");  // unfinished
  ExpectError(Inspect(scratch.path()).status(), kInput, {"copies", "/step-000000000012"});
}

TEST(InspectText, ControlCharactersOfOthersDoNothing) {
  ScratchDirectory scratch;
  const std::string path = scratch / "m.safetensors";
  WriteFile(path, SafetensorsBytes(R"({"__metadata__":{"k\n":"\u001b[31m"},)" +
                                       Entry(R"(a\u001bc\u007f\té)", "F32", "[2]", 0, 8) + "}",
                                   std::string(8, 'x')));
  const auto found = Inspect(path);
  ASSERT_TRUE(found.ok()) << found.status();
  const std::string text = InspectText(*found);
  EXPECT_THAT(text, HasSubstr("[2]                  a\\x1bc\\x7f\\té\n"));
  EXPECT_THAT(text, HasSubstr("  k\\n               \\x1b[31m\n"));
}

nlohmann::json RunOf(const nlohmann::json& digests) {
  return {{"kind", "run"},
          {"step", 1200},
          {"applied_steps", 1198},
          {"finished", false},
          {"dtype", "fp16"},
          {"threads", 4},
          {"parameters", 1234567},
          {"units", 3},
          {"digest", "0123456789abcdef"},
          {"manifest", "out/manifest-rank0"},
          {"identity", nlohmann::json::parse(R"([["seed", "42"], ["data", "a.txt"]])")},
          {"changes", nlohmann::json::array()},
          {"files", {{{"file", "/nvme/tiles"}, {"bytes", 3 << 20}}}},
          {"digests", digests}};
}

TEST(InspectText, ShowsARunWithin80Columns) {
  const nlohmann::json run =
      RunOf({{"h.0.attn.c_attn.weight",
              {{"exp_avg", "aaaaaaaabbbbbbbb"}, {"weight", "ccccccccdddddddd"}}},
             {"wte", {{"exp_avg", "1111111122222222"}, {"weight", "3333333344444444"}}}});
  EXPECT_EQ(InspectText(run),
            "Commit of step 1200, not finished\n"
            "  skipped steps     2 (fp16 overflowed)\n"
            "  compute           fp16, 4 threads\n"
            "  parameters        1,234,567 in 3 units\n"
            "  digest            0123456789abcdef\n"
            "  manifest          out/manifest-rank0\n"
            "Identity (the same on every --resume, but for --allow-change)\n"
            "  seed              42\n"
            "  data              a.txt\n"
            "Files\n"
            "       3 MiB  /nvme/tiles\n"
            "Digests (their first half)\n"
            "  parameter              exp_avg  weight\n"
            "  h.0.attn.c_attn.weight aaaaaaaa cccccccc\n"
            "  wte                    11111111 33333333\n");
}

TEST(InspectText, ARunWithoutDigestsIsSummarised) {
  nlohmann::json run = RunOf({});
  run.erase("digests");
  run["committed"] = 1795980000;
  run["summary"] = {{"state", "stopped"},
                    {"message", "SIGTERM"},
                    {"steps", 2000},
                    {"optimizer", "adamw"},
                    {"model", "gpt2"},
                    {"data", {"a.txt", "b.txt"}},
                    {"loss", {{{"step", 1}, {"loss", 4.25}}, {{"step", 1200}, {"loss", 3.5}}}},
                    {"held_out", {{"step", 1000}, {"loss", 3.75}, {"best_step", 800}}},
                    {"exported", "out/model"}};
  EXPECT_EQ(InspectText(run),
            "out: stopped (SIGTERM)\n"
            "  last commit       step 1200 of 2000, 2026-11-29 19:20:00 UTC\n"
            "  loss              4.2500 at step 1, 3.5000 at step 1200\n"
            "  held out          3.7500 at step 1000; the best of all at step 800\n"
            "  model             gpt2\n"
            "  data              a.txt, b.txt\n"
            "  parameters        1,234,567 in 3 units\n"
            "  compute           fp16, 4 threads, adamw\n"
            "  state             3 MiB in /nvme\n"
            "  exported          out/model\n"
            "  --digests         reads and checks all of the state, and shows its digests\n");
  run["summary"] = nlohmann::json::object();  // a copy of a commit
  run.erase("committed");
  EXPECT_THAT(InspectText(run), testing::StartsWith("out: a run\n  last commit       step 1200\n"));
}

TEST(InspectText, SettingsThatWereChangedAreSaidAndAFreedStateIsNoCommit) {
  nlohmann::json run = RunOf({});
  run["changes"] = {{{"step", 901}, {"name", "lr"}, {"from", "5e-05"}, {"to", "1e-04"}}};
  EXPECT_THAT(InspectText(run), HasSubstr("\n  from step 901     lr 1e-04 instead of 5e-05\n"));
  run["kind"] = "freed";
  run.erase("digests");
  EXPECT_EQ(InspectText(run),
            "Finished at step 1200; its state was freed (spillway clean), so there is nothing to "
            "resume\n"
            "Identity (the same on every --resume, but for --allow-change)\n"
            "  seed              42\n"
            "  data              a.txt\n"
            "  from step 901     lr 1e-04 instead of 5e-05\n");
}

// Frozen parameters have only weights, and buffers a plane of their own, whichever comes first.
TEST(InspectText, APlaneThatNotAllHaveIsAnEmptyCell) {
  const std::string text = InspectText(
      RunOf({{"a", {{"weight", "aaaaaaaabbbbbbbb"}}},
             {"b", {{"buffer", "ccccccccdddddddd"}}},
             {"c", {{"exp_avg", "1111111122222222"}, {"weight", "3333333344444444"}}}}));
  EXPECT_THAT(text, HasSubstr("  parameter buffer   exp_avg  weight\n"
                              "  a                           aaaaaaaa\n"
                              "  b         cccccccc\n"
                              "  c                  11111111 33333333\n"));
}

}  // namespace
}  // namespace spillway
