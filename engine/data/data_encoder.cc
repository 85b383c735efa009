#include "engine/data/data_encoder.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "engine/data/chat_format.h"
#include "engine/data/jsonl.h"
#include "engine/data/text_reader.h"
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

// What the tokenizer puts before a text, as "<s>": prompts begin with it, too.
std::vector<uint32_t> BeginningOf(const Tokenizer& tokenizer) {
  constexpr int64_t kAny[] = {0};
  const EncodedText around = tokenizer.Around(kAny, std::nullopt);
  const auto text = std::find(around.sources.begin(), around.sources.end(), 0);
  return {around.tokens.begin(), around.tokens.begin() + (text - around.sources.begin())};
}

// Takes the prompt's turns from those that are learnt.
absl::Status LeaveOutPrompt(const JsonlRecord& record, ChatText& chat) {
  if (record.prompt_answers == 0) return absl::OkStatus();
  const auto answers =
      std::count_if(record.messages.begin(), record.messages.end(),
                    [](const JinjaValue& message) { return message["role"] == "assistant"; });
  if (static_cast<int64_t>(chat.learnt.size()) != answers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the chat template marks ", chat.learnt.size(), " stretches as the assistant's for ",
        answers, " messages, so those of \"prompt\" are not known: give \"messages\""));
  }
  chat.learnt.erase(chat.learnt.begin(), chat.learnt.begin() + record.prompt_answers);
  return absl::OkStatus();
}

absl::Status EncodeJsonl(const std::string& path, const Tokenizer& tokenizer,
                         const DataSink& sink) {
  const std::optional<uint32_t> end = sink.ends_lines ? RecordEnd(path, tokenizer) : std::nullopt;
  const std::vector<uint32_t> beginning =
      sink.begins_lines ? BeginningOf(tokenizer) : std::vector<uint32_t>();
  // Errors come with file and line from the reader.
  const std::unique_ptr<TextEncoder> encoder = tokenizer.NewEncoder("the text");
  std::vector<uint32_t> tokens;
  const auto encode = [&](absl::string_view text) -> absl::Status {
    tokens.clear();
    RETURN_IF_ERROR(encoder->Encode(text, &tokens));
    return encoder->Finish(&tokens);
  };
  // Those of a long text as they come: they take more room than it.
  const auto take_text = [&](absl::string_view text, bool carry_loss,
                             std::optional<uint32_t> last) -> absl::Status {
    for (size_t at = 0; at < text.size(); at += kTextPieceBytes) {
      tokens.clear();
      RETURN_IF_ERROR(encoder->Encode(text.substr(at, kTextPieceBytes), &tokens));
      RETURN_IF_ERROR(sink.take(tokens, carry_loss));
    }
    tokens.clear();
    RETURN_IF_ERROR(encoder->Finish(&tokens));
    if (last) tokens.push_back(*last);
    return sink.take(tokens, carry_loss);
  };
  const auto encode_chat = [&](const JsonlRecord& record) -> absl::Status {
    ASSIGN_OR_RETURN(const ChatFormat* const format, tokenizer.chat());
    ASSIGN_OR_RETURN(ChatText chat, format->Render(record.messages));
    RETURN_IF_ERROR(LeaveOutPrompt(record, chat));
    RETURN_IF_ERROR(encode(chat.text));
    const std::vector<uint32_t> all = std::move(tokens);
    const std::vector<size_t> ends = tokenizer.EndsIn(chat.text, all);
    size_t done = 0;
    // Those that end there or before.
    const auto take_until = [&](size_t bytes, bool carry_loss) -> absl::Status {
      RETURN_IF_ERROR(StopSignal::Check());
      size_t end = all.size();
      if (!ends.empty()) {
        end = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), bytes) - ends.begin());
      } else if (bytes < chat.text.size()) {
        // Those of the text's beginning up to there that stay as they are in the whole.
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
  return ReadJsonl(
      path,
      [&](const JsonlRecord& record) -> absl::Status {
        if (sink.begin_sample) sink.begin_sample();
        if (!record.messages.is_null()) return encode_chat(record);
        RETURN_IF_ERROR(sink.take(beginning, !record.has_prompt));
        if (record.has_prompt) RETURN_IF_ERROR(take_text(record.prompt, false, std::nullopt));
        return take_text(record.text, true, end);
      },
      sink.progress);
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
