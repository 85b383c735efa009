// Whole training runs of small models, and everything about them that must be the
// same in every placement.
#pragma once

#include <torch/types.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/inspect/inspect_run.h"
#include "engine/layers/transformer.h"
#include "engine/torch/train.h"
#include "engine/weights/export_weights.h"
#include "engine/weights/state_source.h"
#include "engine/weights/weight_source.h"
#include "nlohmann/json.hpp"
#include "swap/device/device.h"

namespace spillway {

inline std::string FileText(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<nlohmann::json> JsonLines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(FileText(path));
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

// Samples made from their number: token t + 1 mostly follows from token t.
class MadeTokens : public Dataset {
 public:
  MadeTokens(int64_t samples, int64_t seq_len, int64_t vocabulary)
      : samples_(samples), seq_len_(seq_len), vocabulary_(vocabulary) {}

  // Sends this process a SIGTERM in the `calls`-th Get, once.
  void StopAt(int calls) { stop_at_ = calls; }

  int64_t size() const override { return samples_; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    if (++calls_ == stop_at_) std::raise(SIGTERM);
    const int64_t count = samples.size();
    const torch::Tensor tokens = torch::empty({count, seq_len_ + 1}, torch::kInt64);
    int64_t* out = tokens.data_ptr<int64_t>();
    for (int64_t sample : samples) {
      uint64_t random = sample * 0x9e3779b97f4a7c15 + 1;
      int64_t token = sample % vocabulary_;
      for (int64_t i = 0; i <= seq_len_; ++i) {
        *out++ = token;
        random = random * 6364136223846793005 + 1442695040888963407;
        const bool noise = (random >> 60) < 3;
        token = (noise ? (random >> 33) : static_cast<uint64_t>(token * 5 + 7)) % vocabulary_;
      }
    }
    return Batch{tokens.narrow(1, 0, seq_len_).contiguous(),
                 tokens.narrow(1, 1, seq_len_).contiguous()};
  }
  std::string fingerprint() const override { return absl::StrCat("made ", samples_); }

 private:
  const int64_t samples_, seq_len_, vocabulary_;
  int calls_ = 0;
  int stop_at_ = -1;
};

// What a finished run leaves.
struct RunOutcome {
  TrainResult result;
  std::vector<nlohmann::json> rows;         // metrics.jsonl
  std::vector<nlohmann::json> evaluations;  // eval.jsonl
  nlohmann::json digests;                   // of the live state at the end
  nlohmann::json inspected;                 // InspectRun; null with no_commit
  std::map<std::string, std::string> exported;
};

// Throws when the run fails (a test then fails with the message).
inline RunOutcome TrainToTheEnd(const Model& model, Dataset& data, Dataset* evaluation,
                                WeightSource* weights, const TrainOptions& options,
                                Device* device = nullptr) {
  namespace fs = std::filesystem;
  RunOutcome outcome;
  const fs::path exported = options.output + "/exported";
  TrainHooks hooks;
  hooks.device = device;
  hooks.at_end = [&](const StateSource& state) -> absl::Status {
    const auto digests = DigestState(state);
    if (!digests.ok()) return digests.status();
    outcome.digests = *digests;
    return ExportWeights(state, {}, exported.string());
  };
  auto result = Train(model, data, evaluation, weights, options, hooks);
  TORCH_CHECK(result.ok(), result.status().ToString());
  outcome.result = *result;
  outcome.rows = JsonLines(options.output + "/metrics.jsonl");
  outcome.evaluations = JsonLines(options.output + "/eval.jsonl");
  if (!options.no_commit) {
    auto inspected = InspectRun(options.output);
    TORCH_CHECK(inspected.ok(), inspected.status().ToString());
    outcome.inspected = *inspected;
  }
  if (result->end == TrainResult::End::kFinished) {
    for (const auto& entry : fs::directory_iterator(exported)) {
      outcome.exported[entry.path().filename().string()] = FileText(entry.path());
    }
  }
  return outcome;
}

}  // namespace spillway
