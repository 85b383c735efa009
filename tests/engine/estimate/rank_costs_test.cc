// docs/DISTRIBUTED.md's formulas and its table of 7.5B parameters are what the plan has.
#include <algorithm>
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "engine/estimate/estimate.h"
#include "engine/estimate/estimate_output.h"
#include "engine/families/read_model_shape.h"
#include "engine/ranks/shard_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr uint64_t kPage = 4096;
constexpr Shard kModes[] = {Shard::kNone, Shard::kOptimizer, Shard::kGradients, Shard::kFull,
                            Shard::kHybrid};

EstimateInput InputOf(const std::string& config, Shard mode, int ranks, int group) {
  EstimateInput input;
  input.shape = *ReadModelShape(*ParseStrictJson(config, "config.json"));
  input.model = input.shape.model;
  input.options.device_memory_bytes = 80 * kGiB;
  input.options.host_memory_bytes = 200 * kGiB;
  input.options.swap_paths = {"/nvme"};
  input.options.ranks = ranks;
  input.options.shard = mode;
  input.options.shard_group_size = mode == Shard::kNone     ? 1
                                   : mode == Shard::kHybrid ? group
                                                            : ranks;
  input.step = {1, 1, 128};
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    input.memory[static_cast<int>(dtype)] =
        ComputeMemoryOf(input.shape, input.model, dtype, input.step, {});
  }
  input.drive_bytes_per_day = 3.84e12;
  return input;
}

// The document's letters.
struct Letters {
  double p = 0;              // parameters
  double n = 1, g = 1;       // ranks, and of a group
  double w = 2, o = 10;      // bytes a parameter: weight, the rest of the state
  double d = 2, x = 4;       // ... the gradient, and as it is exchanged
  std::vector<double> unit;  // parameters of each
  std::vector<std::set<int>> needs;
  bool again = true;  // weights are gathered for each use

  double padding() const { return static_cast<double>(unit.size()) * 2048 * n; }
  int num_ops() const { return 2 * static_cast<int>(unit.size()) - 1; }
  const std::set<int>& Needs(int op) const {
    const int last = static_cast<int>(unit.size()) - 1;
    return needs[op <= last ? op : 2 * last - op];
  }
  std::vector<int> Uses(int u) const {
    std::vector<int> uses;
    for (int op = 0; op < num_ops(); ++op) {
      if (Needs(op).count(u)) uses.push_back(op);
    }
    return uses;
  }
};

Letters LettersOf(const EstimateInput& input) {
  Letters l;
  const ModelDescription& model = input.shape.model;
  l.n = input.options.ranks;
  l.g = input.options.shard_group_size;
  l.p = static_cast<double>(model.parameter_count());
  if (input.options.dtype == DType::kFloat32) l.w = l.d = 4, l.o = 8;
  if (input.options.dtype == DType::kFloat16) l.o = 12;
  if (input.options.communication_format == ExchangeFormat::kBFloat16) l.x = 2;
  if (input.options.communication_format == ExchangeFormat::kFloat8) l.x = 65.0 / 64;
  for (size_t u = 0; u < model.units.size(); ++u) {
    l.unit.push_back(static_cast<double>(model.units[u].flat_parameters));
    l.needs.emplace_back(model.units[u].borrows.begin(), model.units[u].borrows.end());
    l.needs.back().insert(static_cast<int>(u));
  }
  l.again = input.options.shard != Shard::kOptimizer && input.options.shard != Shard::kGradients;
  return l;
}

// Whole units: the most that an operation finds of weights for itself and the next one, and of
// sums of its own and of the one before.
double WholeBytes(const Letters& l) {
  const int loss = static_cast<int>(l.unit.size()) - 1;
  double most = 0;
  for (int op = 0; op < l.num_ops(); ++op) {
    double bytes = 0;
    for (size_t u = 0; u < l.unit.size(); ++u) {
      const std::vector<int> uses = l.Uses(static_cast<int>(u));
      bool weights = false;
      for (size_t i = 0; i < uses.size(); ++i) {
        weights |= uses[i] == op || uses[i] == op + 1;
        // Between two uses: at most two operations apart, or in one step at all.
        if (i > 0 && uses[i - 1] < op && op < uses[i]) {
          weights |= !l.again || uses[i] - uses[i - 1] <= 2;
        }
      }
      const int first_sum = *std::lower_bound(uses.begin(), uses.end(), loss);
      if (weights) bytes += l.w * l.unit[u];
      if (first_sum <= op && op <= uses.back() + 1) bytes += 4 * l.unit[u];
    }
    most = std::max(most, bytes);
  }
  // The last sums, when nothing computes any more.
  return std::max(most, 4 * l.unit[0]);
}

double BucketBytes(const Letters& l) {
  const double shard = *std::max_element(l.unit.begin(), l.unit.end()) / l.g;
  return std::min(4.0, 2 * l.x) * std::max(l.g, l.n / l.g) * std::min<double>(shard, 256 * 1024);
}

double GatherBytes(const Letters& l) {
  double gathered = 0;
  for (size_t u = 0; u < l.unit.size(); ++u) {
    const std::vector<int> uses = l.Uses(static_cast<int>(u));
    int times = 1;
    for (size_t i = 1; i < uses.size(); ++i) times += l.again && uses[i] - uses[i - 1] > 2;
    gathered += times * l.unit[u];
  }
  return l.w * (l.g - 1) / l.g * gathered;
}

double SumBytes(const Letters& l) {
  const double r = l.n / l.g;
  return l.x * (l.g - 1) / l.g * l.p + (l.x + 4) * (r - 1) / r * l.p / l.g;
}

std::string RandomConfig(std::mt19937& random, bool tied) {
  const int hidden = 64 * (1 + static_cast<int>(random() % 12));
  const int layers = 3 + static_cast<int>(random() % 9);
  return absl::StrFormat(
      R"({"model_type": "%s", "vocab_size": %d, "hidden_size": %d, "n_embd": %d,
          "num_hidden_layers": %d, "n_layer": %d, "num_attention_heads": 8, "n_head": 8,
          "intermediate_size": %d, "n_positions": 256, "tie_word_embeddings": %s})",
      tied ? "gpt2" : "llama", 500 + random() % 20000, hidden, hidden, layers, layers, 2 * hidden,
      tied ? "true" : "false");
}

TEST(RankCosts, PlansHaveWhatTheFormulasSay) {
  std::mt19937 random(7);
  for (int i = 0; i < 30; ++i) {
    const bool tied = random() % 2 == 0;
    const std::string config = RandomConfig(random, tied);
    const int group = 1 << random() % 3, ranks = group * (2 + static_cast<int>(random() % 4));
    for (Shard mode : kModes) {
      SCOPED_TRACE(absl::StrCat(i, " ", ShardName(mode), " ", ranks, "/", group));
      EstimateInput input = InputOf(config, mode, ranks, group);
      input.options.dtype = static_cast<DType>(random() % 3);
      input.options.communication_format = static_cast<ExchangeFormat>(random() % 3);
      const auto estimate = MakeEstimate(input);
      ASSERT_TRUE(estimate.ok()) << estimate.status();
      ASSERT_TRUE(estimate->fits);
      const Letters l = LettersOf(input);
      TierBytes all;
      for (const TierBytes& tier : estimate->tiers) {
        all.weights += tier.weights;
        all.optimizer += tier.optimizer;
        all.gradients += tier.gradients;
      }
      const auto expect = [&](uint64_t planned, double formula, double padding) {
        EXPECT_GE(static_cast<double>(planned), formula * 0.999999);
        EXPECT_LE(static_cast<double>(planned), formula + padding);
      };
      expect(all.weights, l.w * l.p / l.g, l.w * l.padding() / l.g);
      expect(all.optimizer, l.o * l.p / l.g, l.o * l.padding() / l.g);
      expect(all.gradients, l.d * l.p / l.g, l.d * l.padding() / l.g);
      // Buffers of different sizes leave gaps: at most a quarter.
      const double whole = WholeBytes(l) + BucketBytes(l);
      expect(estimate->tiers[0].whole, whole,
             whole / 4 + (l.w + 4 * 2) * l.padding() + 4 * 2048 * l.n + 8 * kPage);
      expect(estimate->collective.gather_bytes, GatherBytes(l), 3 * l.w * l.padding());
      expect(estimate->collective.sum_bytes, SumBytes(l), (2 * l.x + 4) * l.padding());
    }
  }
}

// What the document says of stacks of equal layers, U parameters each.
TEST(RankCosts, AStackOfLayersTakesTwelveBytesOfALayer) {
  for (const char* tied : {"false", "true"}) {
    const EstimateInput input =
        InputOf(absl::StrFormat(R"({"model_type": "llama", "vocab_size": 4096, "hidden_size": 1024,
            "num_hidden_layers": 12, "num_attention_heads": 8, "intermediate_size": 4096,
            "tie_word_embeddings": %s})",
                                tied),
                Shard::kFull, 4, 4);
    const Letters l = LettersOf(input);
    const double embedding = std::string(tied) == "true" ? l.unit[0] : 0;
    EXPECT_NEAR(WholeBytes(l), 12 * l.unit[1] + 4 * embedding, 0.02 * 12 * l.unit[1]);
    EstimateInput once = input;
    once.options.shard = Shard::kGradients;
    EXPECT_NEAR(WholeBytes(LettersOf(once)), 2 * l.p + 6 * l.unit[1] + 4 * embedding,
                0.03 * 2 * l.p);
  }
}

// | `full` | 1.9 | 1.9 | 1.6 | 3.7 | 5.4 | 58.8 |, as the document has it.
std::string TableRow(Shard mode, double per_parameter_of_paper, const std::string& config) {
  const EstimateInput input = InputOf(config, mode, 64, 8);
  const auto estimate = MakeEstimate(input);
  EXPECT_TRUE(estimate.ok() && estimate->fits);
  const nlohmann::json json = EstimateJson(*estimate);
  double state = 0;
  for (const auto& [tier, kinds] : json["tiers"].items()) {
    for (const char* kind : {"weights", "optimizer", "gradients"}) {
      state += kinds[kind].get<double>();
    }
  }
  const double whole = json["tiers"]["device"]["whole_units"].get<double>();
  const double p = json["model"]["parameters"].get<double>();
  const double sent = json["bytes_collective_per_step"].get<double>();
  const auto paper = [&](double parameters) {
    return per_parameter_of_paper > 0
               ? absl::StrFormat("%.1f", per_parameter_of_paper * parameters * 1e-9)
               : "";
  };
  return absl::StrFormat("| `%s` | %s | %s | %.1f | %.1f | %.1f | %.1f |", ShardName(mode),
                         paper(7.5e9), paper(p), state * 1e-9, whole * 1e-9, (state + whole) * 1e-9,
                         sent * 1e-9);
}

TEST(RankCosts, TheTableOf7BillionParametersIsTheEstimates) {
  const auto document = ReadSmallFile(SPILLWAY_SOURCE_DIR "/docs/DISTRIBUTED.md", 1 << 20);
  const auto config =
      ReadSmallFile(SPILLWAY_SOURCE_DIR "/tests/golden/gpt2-7.5b/config.json", 1 << 20);
  ASSERT_TRUE(document.ok() && config.ok());
  std::vector<std::string> rows;
  bool in_table = false;
  for (absl::string_view line : absl::StrSplit(*document, '\n')) {
    if (absl::StartsWith(line, "| `--shard`, 64 ranks |")) {
      in_table = true;
    } else if (!absl::StartsWith(line, "|")) {
      in_table = false;
    } else if (in_table && !absl::StartsWith(line, "| ---")) {
      rows.emplace_back(line);
    }
  }
  const double n = 64;
  EXPECT_THAT(rows, testing::ElementsAre(TableRow(Shard::kNone, 16, *config),
                                         TableRow(Shard::kOptimizer, 4 + 12 / n, *config),
                                         TableRow(Shard::kGradients, 2 + 14 / n, *config),
                                         TableRow(Shard::kFull, 16 / n, *config),
                                         TableRow(Shard::kHybrid, 0, *config)));
  EXPECT_THAT(*document,
              testing::HasSubstr("--model tests/golden/gpt2-7.5b --ranks 64 --shard full"));
}

}  // namespace
}  // namespace spillway
