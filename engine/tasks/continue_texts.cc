#include "engine/tasks/continue_texts.h"

#include <algorithm>
#include <memory>

#include "engine/generation/beam_search.h"
#include "engine/generation/sampling.h"
#include "engine/tokenizers/stop_texts.h"
#include "engine/tokenizers/text_decoder.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Of the tokens that the tokenizer knows: a vocabulary may be padded beyond that.
absl::StatusOr<torch::Tensor> KnownLogits(const Tokenizer& tokenizer, const torch::Tensor& logits) {
  torch::Tensor known = logits.narrow(0, 0, std::min(logits.numel(), tokenizer.vocabulary_size()));
  if (known.isfinite().all().item<bool>()) return known;
  return absl::OutOfRangeError(
      "the model's logits are not finite: its weights are broken, or too large for this "
      "--dtype (try fp32)");
}

// Special tokens are of no text, as with transformers' skip_special_tokens.
bool IsWritten(const TextWriting& writing, int64_t token) {
  const int64_t unwritten_from = writing.sampling.unwritten_from;
  return (unwritten_from < 0 || token < unwritten_from) && !writing.tokenizer.IsSpecial(token);
}

// A decoder of what follows the prompt. A model with an encoder writes another text, which begins
// with its start token.
absl::StatusOr<std::unique_ptr<TextDecoder>> NewDecoder(const TextWriting& writing,
                                                        const Prompt& prompt) {
  auto decoder = std::make_unique<TextDecoder>(&writing.tokenizer);
  if (!prompt.continues_text) return decoder;
  std::vector<int64_t> written;
  for (const int64_t token : prompt.tokens) {
    const bool known = token < writing.tokenizer.vocabulary_size();
    if (known && IsWritten(writing, token)) written.push_back(token);
  }
  RETURN_IF_ERROR(decoder->Begin(std::move(written)));
  return decoder;
}

// A row of the generator, and the text in it.
struct TextInRow {
  size_t prompt = 0;
  std::vector<int64_t> tokens;  // all
  std::vector<int64_t> next;    // of those, what the generator has not seen
  Continuation made;
  std::unique_ptr<TextDecoder> decoder;  // null: the row is free
  std::unique_ptr<StopTexts> stops;
};

class TextLoop {
 public:
  TextLoop(const TextWriting& writing, const std::vector<Prompt>& prompts, int texts,
           const ContinueHooks& hooks)
      : writing_(writing), prompts_(prompts), hooks_(hooks), rows_(texts) {}

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
        more |= static_cast<int64_t>(text.made.tokens.size()) + 1 < writing_.sampling.max_tokens;
      }
      if (pieces.empty()) return absl::OkStatus();
      more |= begun_ < prompts_.size();
      ASSIGN_OR_RETURN(const std::vector<torch::Tensor> logits, writing_.rows.Append(pieces, more));
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
    ASSIGN_OR_RETURN(text.decoder, NewDecoder(writing_, prompts_[text.prompt]));
    text.stops = std::make_unique<StopTexts>(&writing_.sampling.stops);
    RETURN_IF_ERROR(writing_.rows.Begin(row, text.prompt));
    rows_[row] = std::move(text);
    return true;
  }

  // The next token of a text, by its logits.
  absl::Status Take(TextInRow& text, torch::Tensor logits) {
    ASSIGN_OR_RETURN(logits, KnownLogits(writing_.tokenizer, logits));
    const SamplingOptions& sampling = writing_.sampling;
    const Prompt& prompt = prompts_[text.prompt];
    const torch::Tensor scores = ScoresOf(
        logits, text.tokens, static_cast<int64_t>(prompt.tokens.size()), sampling, prompt.source);
    const int64_t token = SampleToken(scores, sampling, text.made.tokens.size(), prompt.number);
    text.tokens.push_back(token);
    text.next = {token};
    text.made.tokens.push_back(token);
    text.made.ended =
        std::find(sampling.ends.begin(), sampling.ends.end(), token) != sampling.ends.end();
    if (!text.made.ended && IsWritten(writing_, token)) {
      ASSIGN_OR_RETURN(const std::string piece, text.decoder->Next(token));
      Show(text, text.stops->Next(piece));
      text.made.stopped = text.stops->found();
    }
    if (!text.made.ended && !text.made.stopped &&
        static_cast<int64_t>(text.made.tokens.size()) < writing_.sampling.max_tokens) {
      return absl::OkStatus();
    }
    Show(text, text.stops->Next(text.decoder->Finish()) + text.stops->Finish());
    text.made.text = text.made.stopped ? std::string(text.stops->text()) : text.decoder->whole();
    text.decoder.reset();
    return hooks_.on_end(text.prompt, text.made);
  }

  void Show(const TextInRow& text, const std::string& piece) {
    if (hooks_.on_text) hooks_.on_text(text.prompt, piece);
  }

  const TextWriting& writing_;
  const std::vector<Prompt>& prompts_;
  const ContinueHooks& hooks_;
  std::vector<TextInRow> rows_;
  size_t begun_ = 0;  // prompts that have a row, or had one
};

// Each text has as many rows as there are beams.
class BeamLoop {
 public:
  BeamLoop(const TextWriting& writing, const std::vector<Prompt>& prompts, int texts,
           const ContinueHooks& hooks)
      : writing_(writing), prompts_(prompts), hooks_(hooks), groups_(texts) {
    const int beams = static_cast<int>(writing.sampling.beams);
    for (int i = 0; i < texts; ++i) {
      for (int beam = 0; beam < beams; ++beam) groups_[i].rows.push_back(i * beams + beam);
    }
  }

  absl::Status Run() {
    while (true) {
      std::vector<RowTokens> pieces;
      for (Group& group : groups_) {
        if (!group.search) {
          ASSIGN_OR_RETURN(const bool filled, Fill(group));
          if (!filled) continue;
        }
        for (size_t beam = 0; beam < group.next.size(); ++beam) {
          pieces.push_back({group.rows[beam], group.next[beam]});
        }
      }
      if (pieces.empty()) return absl::OkStatus();
      ASSIGN_OR_RETURN(const std::vector<torch::Tensor> logits,
                       writing_.rows.Append(pieces, /*more=*/false));
      size_t first = 0;
      for (Group& group : groups_) {
        if (!group.search) continue;
        const size_t count = group.next.size();
        RETURN_IF_ERROR(Take(group, {logits.begin() + first, logits.begin() + first + count}));
        first += count;
      }
      if (hooks_.after_tokens) RETURN_IF_ERROR(hooks_.after_tokens());
    }
  }

 private:
  // The rows of one text.
  struct Group {
    std::vector<int> rows;  // [beam] of those that run
    size_t prompt = 0;
    std::unique_ptr<BeamSearch> search;      // null: the rows are free
    std::vector<std::vector<int64_t>> next;  // [beam] what the generator has not seen
  };

  // Whether there was a prompt left.
  absl::StatusOr<bool> Fill(Group& group) {
    if (begun_ == prompts_.size()) return false;
    group.prompt = begun_++;
    const Prompt& prompt = prompts_[group.prompt];
    for (const int row : group.rows) RETURN_IF_ERROR(writing_.rows.Begin(row, std::nullopt));
    RETURN_IF_ERROR(writing_.rows.Begin(group.rows[0], group.prompt));
    group.search = std::make_unique<BeamSearch>(prompt.tokens, writing_.sampling, prompt.source);
    group.next = {prompt.tokens};
    return true;
  }

  absl::Status Take(Group& group, std::vector<torch::Tensor> logits) {
    // Chances among all tokens of the model, those that the tokenizer does not know included.
    for (torch::Tensor& one : logits) {
      ASSIGN_OR_RETURN(one, KnownLogits(writing_.tokenizer, torch::log_softmax(one, 0)));
    }
    const std::vector<int> parents = group.search->Step(logits);
    if (group.search->done()) return End(group);
    // The first of a row's texts goes on there, the others in rows whose text goes on nowhere.
    std::vector<int> rows(parents.size(), -1);
    std::vector<int> free = group.rows;
    for (size_t beam = 0; beam < parents.size(); ++beam) {
      const auto own = std::find(free.begin(), free.end(), group.rows[parents[beam]]);
      if (own == free.end()) continue;
      rows[beam] = *own;
      free.erase(own);
    }
    group.next.clear();
    for (size_t beam = 0; beam < parents.size(); ++beam) {
      if (rows[beam] < 0) {
        rows[beam] = free.back();
        free.pop_back();
        RETURN_IF_ERROR(writing_.rows.Fork(group.rows[parents[beam]], rows[beam]));
      }
      group.next.push_back({group.search->running()[beam].back()});
    }
    group.rows = std::move(rows);
    return absl::OkStatus();
  }

  absl::Status End(Group& group) {
    const std::vector<int64_t>& best = group.search->best();
    Continuation made;
    made.tokens.assign(best.begin() + static_cast<int64_t>(prompts_[group.prompt].tokens.size()),
                       best.end());
    const std::vector<int64_t>& ends = writing_.sampling.ends;
    ASSIGN_OR_RETURN(const auto decoder, NewDecoder(writing_, prompts_[group.prompt]));
    for (const int64_t token : made.tokens) {
      made.ended = std::find(ends.begin(), ends.end(), token) != ends.end();
      if (made.ended) break;
      if (!IsWritten(writing_, token)) continue;
      RETURN_IF_ERROR(decoder->Next(token).status());
    }
    decoder->Finish();
    made.text = decoder->whole();
    if (hooks_.on_text) hooks_.on_text(group.prompt, made.text);
    group.search.reset();
    return hooks_.on_end(group.prompt, made);
  }

  const TextWriting& writing_;
  const std::vector<Prompt>& prompts_;
  const ContinueHooks& hooks_;
  std::vector<Group> groups_;
  size_t begun_ = 0;  // prompts that have rows, or had some
};

class GeneratorRows : public TextRows {
 public:
  explicit GeneratorRows(TextModel& model) : model_(model) {}

  absl::StatusOr<std::vector<torch::Tensor>> Append(const std::vector<RowTokens>& rows,
                                                    bool more) override {
    return model_.generator->Append(rows, more);
  }
  absl::Status Begin(int row, std::optional<size_t> prompt) override {
    torch::Tensor source;
    if (model_.sources && prompt) {
      ASSIGN_OR_RETURN(source, model_.sources->Get(*prompt));
    }
    model_.generator->Restart(row, source);
    return absl::OkStatus();
  }
  absl::Status Fork(int from, int to) override { return model_.generator->Fork(from, to); }

 private:
  TextModel& model_;
};

}  // namespace

absl::Status ContinueTexts(const TextWriting& writing, const std::vector<Prompt>& prompts,
                           int texts, const ContinueHooks& hooks) {
  if (writing.sampling.beams > 1) return BeamLoop(writing, prompts, texts, hooks).Run();
  return TextLoop(writing, prompts, texts, hooks).Run();
}

absl::Status ContinueTexts(TextModel& model, const std::vector<Prompt>& prompts, int texts,
                           const ContinueHooks& hooks) {
  GeneratorRows rows(model);
  return ContinueTexts({rows, *model.tokenizer, model.sampling}, prompts, texts, hooks);
}

}  // namespace spillway
