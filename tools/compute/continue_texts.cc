#include "tools/compute/continue_texts.h"

#include <algorithm>
#include <memory>

#include "engine/data/text_decoder.h"
#include "engine/torch/sampling.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// A row of the generator, and the text in it.
struct TextInRow {
  size_t prompt = 0;
  std::vector<int64_t> tokens;  // all
  std::vector<int64_t> next;    // of those, what the generator has not seen
  Continuation made;
  std::unique_ptr<TextDecoder> decoder;  // null: the row is free
};

class TextLoop {
 public:
  TextLoop(TextModel& model, const std::vector<Prompt>& prompts, int rows,
           const ContinueHooks& hooks)
      : model_(model), prompts_(prompts), hooks_(hooks), rows_(rows) {}

  absl::Status Run() {
    while (true) {
      std::vector<RowTokens> pieces;
      bool more = false;
      for (size_t row = 0; row < rows_.size(); ++row) {
        TextInRow& text = rows_[row];
        if (!text.decoder) {
          ASSIGN_OR_RETURN(const bool filled, Fill(static_cast<int>(row)));
          if (!filled) continue;
        }
        pieces.push_back({static_cast<int>(row), text.next});
        more |= static_cast<int64_t>(text.made.tokens.size()) + 1 < model_.new_tokens;
      }
      if (pieces.empty()) return absl::OkStatus();
      more |= begun_ < prompts_.size();
      ASSIGN_OR_RETURN(const std::vector<torch::Tensor> logits,
                       model_.generator->Append(pieces, more));
      for (size_t i = 0; i < pieces.size(); ++i) {
        RETURN_IF_ERROR(Take(rows_[pieces[i].row], logits[i]));
      }
      if (hooks_.after_tokens) RETURN_IF_ERROR(hooks_.after_tokens());
    }
  }

 private:
  // Whether there was a prompt left.
  absl::StatusOr<bool> Fill(int row) {
    if (begun_ == prompts_.size()) return false;
    TextInRow text;
    text.prompt = begun_++;
    text.tokens = text.next = prompts_[text.prompt].tokens;
    text.decoder = std::make_unique<TextDecoder>(model_.tokenizer.get());
    torch::Tensor source;
    if (model_.sources) {
      ASSIGN_OR_RETURN(source, model_.sources->Get(text.prompt));
    }
    model_.generator->Restart(row, source);
    rows_[row] = std::move(text);
    return true;
  }

  // The next token of a text, by its logits.
  absl::Status Take(TextInRow& text, torch::Tensor logits) {
    // A vocabulary may be padded beyond what the tokenizer knows.
    logits = logits.narrow(0, 0, std::min(logits.numel(), model_.tokenizer->vocabulary_size()));
    if (!logits.isfinite().all().item<bool>()) {
      return absl::OutOfRangeError(
          "the model's logits are not finite: its weights are broken, or too large for this "
          "--dtype (try fp32)");
    }
    const SamplingOptions& sampling = model_.sampling;
    const Prompt& prompt = prompts_[text.prompt];
    const torch::Tensor scores =
        ScoresOf(logits, text.tokens, static_cast<int64_t>(prompt.tokens.size()), sampling);
    const int64_t token = SampleToken(scores, sampling, text.made.tokens.size(), prompt.number);
    text.tokens.push_back(token);
    text.next = {token};
    text.made.tokens.push_back(token);
    text.made.ended =
        std::find(sampling.ends.begin(), sampling.ends.end(), token) != sampling.ends.end();
    if (!text.made.ended) {
      ASSIGN_OR_RETURN(const std::string piece, text.decoder->Next(token));
      Show(text, piece);
    }
    if (!text.made.ended && static_cast<int64_t>(text.made.tokens.size()) < model_.new_tokens) {
      return absl::OkStatus();
    }
    Show(text, text.decoder->Finish());
    text.decoder.reset();
    return hooks_.on_end(text.prompt, text.made);
  }

  void Show(TextInRow& text, const std::string& piece) {
    text.made.text += piece;
    if (hooks_.on_text) hooks_.on_text(text.prompt, piece);
  }

  TextModel& model_;
  const std::vector<Prompt>& prompts_;
  const ContinueHooks& hooks_;
  std::vector<TextInRow> rows_;
  size_t begun_ = 0;  // prompts that have a row, or had one
};

}  // namespace

absl::Status ContinueTexts(TextModel& model, const std::vector<Prompt>& prompts, int rows,
                           const ContinueHooks& hooks) {
  return TextLoop(model, prompts, rows, hooks).Run();
}

}  // namespace spillway
