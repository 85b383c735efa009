// The rows of texts that an evaluation makes, by passes over all weights.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tasks/continue_texts.h"
#include "engine/torch/text_maker.h"

namespace spillway {

// Each row is a beginning, which is computed whole for every token.
class BeginningRows : public TextRows {
 public:
  BeginningRows(int64_t first_sample, int rows, NextTokens& next)
      : first_sample_(first_sample), next_(next), rows_(rows) {}

  absl::StatusOr<std::vector<torch::Tensor>> Append(const std::vector<RowTokens>& rows,
                                                    bool more) override {
    std::vector<TextBeginning> texts;
    for (const RowTokens& one : rows) {
      std::vector<int64_t>& tokens = rows_[one.row].tokens;
      tokens.insert(tokens.end(), one.tokens.begin(), one.tokens.end());
      texts.push_back(rows_[one.row]);
    }
    return next_.After(texts);
  }
  absl::Status Begin(int row, std::optional<size_t> prompt) override {
    rows_[row] = {prompt ? first_sample_ + static_cast<int64_t>(*prompt) : 0, {}};
    return absl::OkStatus();
  }
  absl::Status Fork(int from, int to) override {
    rows_[to] = rows_[from];
    return absl::OkStatus();
  }

 private:
  const int64_t first_sample_;
  NextTokens& next_;
  std::vector<TextBeginning> rows_;
};

}  // namespace spillway
