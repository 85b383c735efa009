#include "engine/data/data_encoder.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "engine/base/text_reader.h"
#include "engine/chat/chat_format.h"
#include "engine/data/jsonl.h"
#include "engine/tokenizers/pair_encoder.h"
#include "engine/tokenizers/turn_end.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr size_t kTextPieceBytes = 256 << 10;

absl::Status EncodePlainText(const std::string& path, const Tokenizer& tokenizer,
                             const DataSink& sink) {
  const std::unique_ptr<TextEncoder> encoder = tokenizer.NewEncoder(path);
  std::vector<uint32_t> tokens;
  RETURN_IF_ERROR(ReadInPieces(path, [&](absl::string_view piece) -> absl::Status {
    tokens.clear();
    RETURN_IF_ERROR(encoder->Encode(piece, &tokens));
    RETURN_IF_ERROR(sink.take(tokens, true));
    return sink.progress ? sink.progress(piece.size()) : absl::OkStatus();
  }));
  tokens.clear();
  RETURN_IF_ERROR(encoder->Finish(&tokens));
  return sink.take(tokens, true);
}

std::optional<uint32_t> RecordEnd(const std::string& path, const Tokenizer& tokenizer) {
  if (tokenizer.end_of_text()) return tokenizer.end_of_text();
  const auto newline = tokenizer.Encode("\n");
  const bool one = newline.ok() && newline->size() == 1;
  if (tokenizer.kind() != "bytes" && tokenizer.kind() != "chars") {
    LogWarning(absl::StrCat(path, ": the tokenizer names no end-of-text token (eos_token in ",
                            "tokenizer_config.json); each line of the data ends with ",
                            one ? "a newline" : "nothing", " instead"));
  }
  if (!one) return std::nullopt;
  return static_cast<uint32_t>((*newline)[0]);
}

// Counts lines whose text starts or ends with a token that is added anyway.
class DoubledTokens {
 public:
  DoubledTokens(const std::vector<uint32_t>& before, std::optional<uint32_t> after)
      : after_(after) {
    if (!before.empty()) before_ = before.back();
  }

  void BeginLine() { first_ = last_ = std::nullopt; }
  void Take(const std::vector<uint32_t>& tokens) {
    if (tokens.empty()) return;
    if (!first_) first_ = tokens.front();
    last_ = tokens.back();
  }
  void EndLine() {
    ++lines_;
    begin_ += before_ && first_ == before_;
    end_ += after_ && last_ == after_;
  }

  void Warn(const std::string& path, const Tokenizer& tokenizer) const {
    const auto warn = [&](int64_t lines, std::optional<uint32_t> token, const char* place,
                          const char* side) {
      if (lines == 0) return;
      LogWarning(absl::StrCat(path, ": ", lines, " of ", lines_, " texts ", place, " with ",
                              tokenizer.TextOf(*token), ", which is put ", side,
                              " each text as well, so that they have it twice: take it out of the "
                              "data"));
    };
    warn(begin_, before_, "begin", "before");
    warn(end_, after_, "end", "behind");
  }

 private:
  const std::optional<uint32_t> after_;
  std::optional<uint32_t> before_, first_, last_;
  int64_t lines_ = 0, begin_ = 0, end_ = 0;
};

absl::Status EncodeJsonl(const std::string& path, const Tokenizer& tokenizer,
                         const DataSink& sink) {
  const std::optional<uint32_t> end = sink.ends_lines ? RecordEnd(path, tokenizer) : std::nullopt;
  std::vector<uint32_t> beginning;
  if (sink.begins_lines) {
    for (const int64_t token : tokenizer.BeforeText()) {
      beginning.push_back(static_cast<uint32_t>(token));
    }
  }
  DoubledTokens doubled(beginning, tokenizer.end_of_text() ? end : std::nullopt);
  PairEncoder pairs(tokenizer);
  bool has_chats = false;
  // The reader adds file and line to errors.
  const std::unique_ptr<TextEncoder> encoder = tokenizer.NewEncoder("the text");
  std::vector<uint32_t> tokens;
  const auto encode = [&](absl::string_view text) -> absl::Status {
    tokens.clear();
    RETURN_IF_ERROR(encoder->Encode(text, &tokens));
    return encoder->Finish(&tokens);
  };
  // Passes tokens of a long text on in pieces, since they take more memory than it.
  const auto take = [&](const std::vector<uint32_t>& some, bool of_prompt) {
    doubled.Take(some);
    return sink.take(some, !of_prompt);
  };
  const auto take_text = [&](absl::string_view text) -> absl::Status {
    for (size_t at = 0; at < text.size(); at += kTextPieceBytes) {
      tokens.clear();
      RETURN_IF_ERROR(encoder->Encode(text.substr(at, kTextPieceBytes), &tokens));
      RETURN_IF_ERROR(take(tokens, false));
    }
    tokens.clear();
    RETURN_IF_ERROR(encoder->Finish(&tokens));
    return take(tokens, false);
  };
  const auto encode_chat = [&](const JsonlRecord& record) -> absl::Status {
    ASSIGN_OR_RETURN(const ChatFormat* const format, tokenizer.chat());
    ASSIGN_OR_RETURN(const ChatText chat, format->Render(record.chat, sink.chat_clock));
    RETURN_IF_ERROR(encode(chat.text));
    const std::vector<uint32_t> all = std::move(tokens);
    const std::vector<size_t> ends = tokenizer.EndsIn(chat.text, all);
    size_t done = 0;
    // Takes the tokens that end at that byte or before.
    const auto take_until = [&](size_t bytes, bool carry_loss) -> absl::Status {
      RETURN_IF_ERROR(StopSignal::Check());
      size_t end = all.size();
      if (!ends.empty()) {
        end = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), bytes) - ends.begin());
      } else if (bytes < chat.text.size()) {
        // Takes the tokens of the prefix that are the same in the whole text.
        RETURN_IF_ERROR(encode(absl::string_view(chat.text).substr(0, bytes)));
        const auto differ = std::mismatch(tokens.begin(), tokens.end(), all.begin(), all.end());
        end = static_cast<size_t>(differ.second - all.begin());
      }
      end = std::max(end, done);
      const std::vector<uint32_t> part(all.begin() + static_cast<std::ptrdiff_t>(done),
                                       all.begin() + static_cast<std::ptrdiff_t>(end));
      done = end;
      return sink.take(part, carry_loss);
    };
    for (const auto& [begin, end_of_turn] : chat.learnt) {
      RETURN_IF_ERROR(take_until(begin, false));
      RETURN_IF_ERROR(take_until(end_of_turn, true));
    }
    return take_until(chat.text.size(), false);
  };
  RETURN_IF_ERROR(ReadJsonl(
      path,
      [&](const JsonlRecord& record) -> absl::Status {
        if (sink.begin_sample) sink.begin_sample();
        has_chats |= record.is_chat();
        if (record.is_chat()) return encode_chat(record);
        doubled.BeginLine();
        RETURN_IF_ERROR(sink.take(beginning, !record.has_prompt));
        RETURN_IF_ERROR(record.has_prompt ? pairs.Encode(record.prompt, record.text, take)
                                          : take_text(record.text));
        doubled.EndLine();
        return end ? sink.take({*end}, true) : absl::OkStatus();
      },
      sink.progress));
  doubled.Warn(path, tokenizer);
  if (has_chats && !EndOfTurn(tokenizer)) {
    LogWarning(absl::StrCat(path,
                            ": the chat template ends the assistant's turns with no token of "
                            "its own, so that nothing in an answer says that it is over: generate "
                            "and predict write on to --tokens unless --stop TEXT ends it"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsText(const std::string& path) {
  return absl::EndsWith(path, ".txt") || absl::EndsWith(path, ".jsonl");
}

absl::Status EncodeData(const std::string& path, const Tokenizer& tokenizer, const DataSink& sink) {
  return absl::EndsWith(path, ".jsonl") ? EncodeJsonl(path, tokenizer, sink)
                                        : EncodePlainText(path, tokenizer, sink);
}

}  // namespace spillway
