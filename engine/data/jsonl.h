// .jsonl: one JSON object a line, each a text, a prompt with its completion, or a conversation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/strict_json.h"
#include "engine/chat/conversation.h"
#include "engine/data/line_reader.h"

namespace spillway {

struct JsonlRecord {
  bool has_prompt = false;
  std::string prompt;
  std::string text;   // the completion where there is a prompt
  Conversation chat;  // where it is neither
  bool is_chat() const { return !chat.messages.is_null(); }
};

// Which keys of a line's object are read. The values of others cost no memory.
using KeepKey = std::function<bool(absl::string_view key)>;

// Any line. `example`, of an object, is for the message; kInvalidArgument, "FILE:LINE: ...", for
// what is none (lone surrogates and doubled keys included), and for values that take more memory
// than kMostValueBytes. Those of keys that are not kept are null.
inline constexpr size_t kMostValueBytes = 64u << 20;
absl::StatusOr<JsonDocument> ParseJsonlObject(absl::string_view line, absl::string_view file,
                                              int64_t line_number, const char* example,
                                              const KeepKey& keep);

// What keys an object has, for messages: "a, b, ...".
std::string ShownKeys(const nlohmann::json& object);

// {"text": ...}, {"prompt": ..., "completion": ...} or {"messages": [{"role": ..., "content":
// ...}, ...]}, or a prompt and a completion that are lists of such messages, of which the
// completion's are learnt. Other keys are passed over, but for those of a conversation: "system" is
// a message before the others; "tools", "documents" and what is in "chat_template_kwargs" is for
// the template. A content is a string, a list of {"type": "text", "text": ...}, or null beside
// calls of tools. Messages keep their other keys, in their order, but for null ones and "train" and
// "weight", which say whether an answer is learnt.
// kInvalidArgument, "FILE:LINE: ...", for what is no JSON object (lone surrogates and doubled keys
// included), for missing keys, values of other types, unknown roles, a conversation in which
// nothing is learnt, and one of more than kMostConversationBytes: it is held many times over while
// its template writes it.
inline constexpr size_t kMostConversationBytes = 4u << 20;
absl::StatusOr<JsonlRecord> ParseJsonlRecord(absl::string_view line, absl::string_view file,
                                             int64_t line_number);

// What is to be continued: a text, or a conversation whose last message is not the assistant's.
struct PromptRecord {
  std::string prompt;
  Conversation chat;  // without messages where it is a text
  bool is_chat() const { return !chat.messages.is_null(); }
  int64_t line = 0;  // of its file
  // What the answer should be, where the file says it.
  std::optional<std::string> target = {};
};

// A file of prompts, in its order, at least one: .jsonl, of whose lines `key` ("": "prompt", or
// "messages") is taken, beside a prompt the string at `target_key`, and the rest passed over; or
// any other file, a prompt a line. An answer at the end of "messages" is left out.
// kInvalidArgument, "FILE:LINE: ...", for prompts that are empty, and as of ParseJsonlRecord.
absl::StatusOr<std::vector<PromptRecord>> ReadPrompts(const std::string& path,
                                                      const std::string& key,
                                                      const std::string& target_key);

// Makes records of a LineReader's lines; those of nothing but white space are passed over. The
// first error, of a line or of `take`, ends the reading; one of `take` is told with file and line.
// kCancelled at a StopSignal.
using TakeRecord = std::function<absl::Status(const JsonlRecord&)>;
LineReader::Take TakeRecords(const std::string& file, TakeRecord take);

// A whole file. `after_piece` is told how many bytes have been read, and may be null.
absl::Status ReadJsonl(const std::string& path, TakeRecord take,
                       const std::function<absl::Status(uint64_t)>& after_piece = nullptr);

}  // namespace spillway
