#include "engine/data/jsonl.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/base/stop_signal.h"
#include "engine/base/strict_json.h"
#include "engine/data/known_keys.h"
#include "io/base/status.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kShownKeys = 8;
constexpr size_t kMessageBytes = 256;  // memory of a message besides its text
constexpr uint64_t kMostPromptBytes = uint64_t{1} << 30;
constexpr absl::string_view kChatKeys[] = {"messages", "system", "tools", "documents",
                                           "chat_template_kwargs"};
constexpr absl::string_view kTextKeys[] = {"text", "prompt", "completion"};
constexpr absl::string_view kRoles[] = {"system",    "developer",   "user",
                                        "assistant", "tool",        "function",
                                        "ipython",   "observation", "environment"};
// Keys of media in messages, which are not supported.
constexpr absl::string_view kMediaKeys[] = {"image",  "images", "video",
                                            "videos", "audio",  "audios"};

template <typename Names>
bool IsAmongNames(const Names& names, absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Approximate memory of a value.
size_t BytesOfValue(const JinjaValue& value) {
  size_t bytes = 16;
  if (value.is_string()) bytes += value.get_ref<const std::string&>().size();
  if (value.is_object()) {
    for (const auto& item : value.items()) bytes += item.key().size() + BytesOfValue(item.value());
  } else if (value.is_array()) {
    for (const JinjaValue& item : value) bytes += BytesOfValue(item);
  }
  return bytes;
}

// The values of these keys of a line, which is an object, with keys in order at all levels:
// templates write tools and calls in that order.
JinjaValue InOrder(absl::string_view line, const std::function<bool(absl::string_view)>& keep) {
  using Event = nlohmann::json::parse_event_t;
  const auto kept = [&](int depth, Event event, JinjaValue& parsed) {
    return event != Event::key || depth != 1 || keep(parsed.get_ref<const std::string&>());
  };
  return JinjaValue::parse(line, kept, /*allow_exceptions=*/false);
}

// Returns "" or the problem of a content.
std::string CheckContent(const JinjaValue& content, bool may_be_null) {
  if (content.is_string()) return "";
  if (content.is_null()) {
    return may_be_null ? "" : "\"content\" is null: the message has no text; take it out";
  }
  if (!content.is_array()) {
    return absl::StrCat("\"content\" is a JSON ", content.type_name(), ", not a string");
  }
  for (const JinjaValue& part : content) {
    const JinjaValue type = part.is_object() ? part.value("type", JinjaValue()) : part;
    if (type == "text" && part.contains("text") && part["text"].is_string()) continue;
    return absl::StrCat("\"content\" is a JSON array with ",
                        part.is_object() && type.is_string()
                            ? absl::StrCat("a part of the type \"",
                                           type.get_ref<const std::string&>().substr(0, 40), "\"")
                            : absl::StrCat("a JSON ", part.type_name()),
                        " in it; parts that are read are {\"type\": \"text\", \"text\": \"...\"}");
  }
  return "";
}

// Removes "train" and "weight" from a message; returns "" or their problem.
std::string TakeWeight(JinjaValue& message, bool* learnt) {
  const bool answers = message["role"] == "assistant";
  for (const char* key : {"train", "weight"}) {
    if (!message.contains(key)) continue;
    const JinjaValue given = message[key];
    message.erase(key);
    const bool yes = given == true || given == 1, no = given == false || given == 0;
    if (!yes && !no) {
      return absl::StrCat("\"", key, "\" is ", given.dump().substr(0, 40),
                          "; an answer is learnt (true, 1) or not (false, 0)");
    }
    if (yes && !answers) {
      return absl::StrCat("\"", key, "\" asks to learn what the assistant does not say");
    }
    *learnt &= yes;
  }
  return "";
}

// Adds a message without keys that are not for the template; returns "" or its problem.
std::string TakeMessage(JinjaValue message, Conversation* chat, bool learnt) {
  if (!message.is_object()) {
    return absl::StrCat(" is a JSON ", message.type_name(), ", not an object");
  }
  const bool says_role = message.contains("role"), says_content = message.contains("content");
  for (auto item = message.begin(); item != message.end();) {
    item = item->is_null() && item.key() != "content" ? message.erase(item) : std::next(item);
  }
  const bool calls = message.contains("tool_calls");
  if (calls && !message["tool_calls"].is_array()) {
    return absl::StrCat(": \"tool_calls\" is a JSON ", message["tool_calls"].type_name(),
                        ", not an array");
  }
  if (!says_role || (!says_content && !calls)) {
    const bool shared = message.contains("from") && message.contains("value");
    return absl::StrCat(" has no \"", says_role ? "content" : "role", "\"",
                        shared ? ", but \"from\" and \"value\", as ShareGPT has them" : "");
  }
  if (!message.contains("role") || !message["role"].is_string()) {
    return absl::StrCat(": \"role\" is a JSON ",
                        message.contains("role") ? message["role"].type_name() : "null",
                        ", not a string");
  }
  const std::string role = message["role"];
  if (!IsAmongNames(kRoles, role)) {
    return absl::StrCat(": the role \"", role.substr(0, 40), "\" is none of ",
                        absl::StrJoin(kRoles, ", "));
  }
  if (calls && role != "assistant") return ": \"tool_calls\" of what is not the assistant's";
  if (says_content) {
    const std::string why = CheckContent(message["content"], calls);
    if (!why.empty()) return absl::StrCat(": ", why);
  }
  for (const absl::string_view key : kMediaKeys) {
    if (message.contains(std::string(key)) && !message[std::string(key)].empty()) {
      return absl::StrCat(": \"", key, "\" is not supported: a language model reads texts");
    }
  }
  const std::string why = TakeWeight(message, &learnt);
  if (!why.empty()) return absl::StrCat(": ", why);
  if (role == "assistant" && !learnt) chat->unlearnt.insert(chat->messages.size());
  chat->messages.push_back(std::move(message));
  return "";
}

// Appends the messages of an array, called `name` in errors; returns "" or the problem.
std::string TakeMessages(const JinjaValue& given, absl::string_view name, bool learnt,
                         Conversation* chat) {
  if (chat->messages.is_null()) chat->messages = JinjaValue::array();
  if (!given.is_array()) {
    return absl::StrCat("\"", name, "\" is a JSON ", given.type_name(), ", not an array");
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string why = TakeMessage(given[i], chat, learnt);
    if (!why.empty()) return absl::StrCat(name, "[", i, "]", why);
  }
  return "";
}

// Takes a row's values for the template besides messages; returns "" or the problem.
std::string TakeVariables(const JinjaValue& object, Conversation* chat) {
  for (const char* key : {"tools", "documents"}) {
    if (!object.contains(key) || object[key].is_null()) continue;
    JinjaValue value = object[key];
    // Data sets with columns of one type store JSON in strings.
    if (value.is_string()) {
      const std::string text = value;
      const auto read = ParseStrictJson(text, key, {.max_depth = kMaxDepth});
      if (!read.ok()) return std::string(read.status().message());
      value = JinjaValue::parse(text, nullptr, /*allow_exceptions=*/false);
    }
    if (!value.is_array()) {
      return absl::StrCat("\"", key, "\" is a JSON ", value.type_name(), ", not an array");
    }
    if (!value.empty()) chat->variables[key] = std::move(value);
  }
  if (object.contains("chat_template_kwargs") && !object["chat_template_kwargs"].is_null()) {
    const JinjaValue& more = object["chat_template_kwargs"];
    if (!more.is_object()) {
      return absl::StrCat("\"chat_template_kwargs\" is a JSON ", more.type_name(),
                          ", not an object");
    }
    for (const auto& item : more.items()) chat->variables[item.key()] = item.value();
  }
  return "";
}

// A key with messages, and whether they have loss: {"messages": [...]}, or several keys that are
// concatenated.
struct MessagesKey {
  std::string name;
  bool learnt = true;
};
std::string TakeConversation(absl::string_view line, const std::vector<MessagesKey>& keys,
                             Conversation* chat) {
  const JinjaValue object = InOrder(line, [&](absl::string_view name) {
    return IsAmongNames(kChatKeys, name) ||
           std::any_of(keys.begin(), keys.end(), [&](const auto& key) { return key.name == name; });
  });
  if (!object.is_object()) return "it is no JSON";  // ParseJsonlObject has read it
  chat->messages = JinjaValue::array();
  if (object.contains("system") && !object["system"].is_null() && object["system"] != "") {
    if (!object["system"].is_string()) {
      return absl::StrCat("\"system\" is a JSON ", object["system"].type_name(), ", not a string");
    }
    const JinjaValue& first = object[keys.front().name];
    if (first.is_array() && !first.empty() && first[0].is_object() &&
        first[0].value("role", JinjaValue()) == "system") {
      return "it has \"system\" and a first message of the system: which of them is meant?";
    }
    chat->messages.push_back({{"role", "system"}, {"content", object["system"]}});
  }
  for (const MessagesKey& key : keys) {
    std::string why = TakeMessages(object[key.name], key.name, key.learnt, chat);
    if (!why.empty()) return why;
  }
  std::string why = TakeVariables(object, chat);
  if (!why.empty()) return why;
  size_t bytes = BytesOfValue(chat->variables) + kMessageBytes * chat->messages.size();
  for (const JinjaValue& message : chat->messages) {
    for (const auto& [key, value] : message.items()) {
      bytes += value.is_string() ? value.get_ref<const std::string&>().size() : BytesOfValue(value);
    }
  }
  if (bytes > kMostConversationBytes) {
    return absl::StrCat("a conversation of more than ", kMostConversationBytes >> 20,
                        " MiB (a message counts its text and ", kMessageBytes,
                        " bytes): cut it into several");
  }
  return "";
}

// Takes a conversation for training: some words of the assistant must have loss.
std::string TakeLearnt(absl::string_view line, const std::vector<MessagesKey>& keys,
                       Conversation* chat) {
  std::string why = TakeConversation(line, keys, chat);
  if (!why.empty()) return why;
  const auto answers =
      std::count_if(chat->messages.begin(), chat->messages.end(),
                    [](const JinjaValue& message) { return message["role"] == "assistant"; });
  if (static_cast<size_t>(answers) > chat->unlearnt.size()) return "";
  return absl::StrCat("no message of \"", keys.back().name, "\" is the assistant's",
                      answers > 0 && keys.size() == 1 ? " and to be learnt" : "",
                      ": there is nothing to learn");
}

// Errors lack `file:line`, which the caller adds.
absl::StatusOr<PromptRecord> PromptOf(nlohmann::json& object, absl::string_view line,
                                      const std::string& key, const std::string& target_key) {
  PromptRecord record;
  const auto wrong = [](const std::string& why) { return absl::InvalidArgumentError(why); };
  const bool messages = key.empty() && object.contains("messages");
  if (messages && object.contains("prompt")) {
    return wrong("it has \"messages\" and \"prompt\": which of them is meant? --prompt-key says");
  }
  const std::string name = messages ? "messages" : key.empty() ? "prompt" : key;
  if (!object.contains(name)) {
    return wrong(
        absl::StrCat("it has no \"", name, "\"", key.empty() ? " and no \"messages\"" : "",
                     " (--prompt-key NAME says where prompts are); its keys: ", ShownKeys(object)));
  }
  if (messages || object[name].is_array()) {
    const std::string why = TakeConversation(line, {{name}}, &record.chat);
    if (!why.empty()) return wrong(why);
    JinjaValue& all = record.chat.messages;
    if (messages && !all.empty() && all.back()["role"] == "assistant") all.erase(all.size() - 1);
    if (all.empty()) {
      return wrong(
          absl::StrCat("\"", name, "\" has ", messages ? "nothing to answer" : "no messages"));
    }
    return record;
  }
  if (!object[name].is_string()) {
    return wrong(
        absl::StrCat("\"", name, "\" is a JSON ", object[name].type_name(), ", not a string"));
  }
  const auto target = object.find(target_key);
  if (target != object.end() && target->is_string()) record.target = target->get<std::string>();
  record.prompt = std::move(object[name].get_ref<std::string&>());
  return record;
}

}  // namespace

absl::StatusOr<JsonDocument> ParseJsonlObject(absl::string_view line, absl::string_view file,
                                              int64_t line_number, const char* example,
                                              const KeepKey& keep) {
  ASSIGN_OR_RETURN(JsonDocument document,
                   ParseStrictJson(line, file,
                                   {.max_bytes = kMaxLineBytes,
                                    .max_depth = kMaxDepth,
                                    .first_line = static_cast<int>(line_number),
                                    .max_memory_bytes = kMostValueBytes,
                                    .remembers_lines = false,
                                    .keep = keep}));
  if (!document.value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ":", line_number, ": a line is an object like ", example, ", and this is a JSON ",
        document.value.type_name(),
        document.value.is_array()
            ? absl::StrCat("; a line of each of its elements: ", JqCommand(".[]", file))
            : ""));
  }
  return document;
}

std::string ShownKeys(const nlohmann::json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) {
    if (keys.size() == kShownKeys) {
      keys.push_back("...");
      break;
    }
    keys.push_back(item.key().substr(0, 40));
  }
  return keys.empty() ? "none" : absl::StrJoin(keys, ", ");
}

absl::StatusOr<JsonlRecord> ParseJsonlRecord(absl::string_view line, absl::string_view file,
                                             int64_t line_number) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(file, ":", line_number, ": ", why));
  };
  ASSIGN_OR_RETURN(
      JsonDocument document,
      ParseJsonlObject(line, file, line_number, "{\"text\": \"...\"}", [](absl::string_view key) {
        return IsAmongNames(kTextKeys, key) || IsAmongNames(kChatKeys, key);
      }));
  nlohmann::json& object = document.value;
  const auto take = [&](const char* key, std::string* out) -> absl::Status {
    nlohmann::json& value = object[key];
    if (!value.is_string()) {
      return wrong(absl::StrCat("\"", key, "\" is a JSON ", value.type_name(), ", not a string"));
    }
    *out = std::move(value.get_ref<std::string&>());
    return absl::OkStatus();
  };
  const bool text = object.contains("text");
  const bool prompt = object.contains("prompt"), completion = object.contains("completion");
  if (text && (prompt || completion)) {
    return wrong("it has \"text\" and \"prompt\" or \"completion\": which of them is meant?");
  }
  JsonlRecord record;
  if (object.contains("messages")) {
    if (text || prompt || completion) {
      return wrong(
          "it has \"messages\" and \"text\", \"prompt\" or \"completion\": which of them is "
          "meant?");
    }
    std::string why = TakeLearnt(line, {{"messages"}}, &record.chat);
    return why.empty() ? absl::StatusOr<JsonlRecord>(std::move(record)) : wrong(why);
  }
  if (!text && !(prompt && completion)) {
    const std::string advice = KnownKeysAdvice(object, file);
    std::string why = prompt       ? "it has \"prompt\" but no \"completion\""
                      : completion ? "it has \"completion\" but no \"prompt\""
                                   : "it has neither \"text\" nor \"prompt\" and \"completion\" "
                                     "nor \"messages\"";
    absl::StrAppend(&why, "; its keys: ", ShownKeys(object));
    if (!advice.empty()) absl::StrAppend(&why, ". It ", advice);
    return wrong(why);
  }
  if (prompt && object["prompt"].is_array() && object["completion"].is_array()) {
    std::string why = TakeLearnt(line, {{"prompt", false}, {"completion"}}, &record.chat);
    return why.empty() ? absl::StatusOr<JsonlRecord>(std::move(record)) : wrong(why);
  }
  record.has_prompt = prompt;
  if (prompt) RETURN_IF_ERROR(take("prompt", &record.prompt));
  RETURN_IF_ERROR(take(prompt ? "completion" : "text", &record.text));
  return record;
}

absl::StatusOr<std::vector<PromptRecord>> ReadPrompts(const std::string& path,
                                                      const std::string& key,
                                                      const std::string& target_key) {
  const bool objects = absl::EndsWith(path, ".jsonl");
  if (!objects && !key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt-key is for .jsonl, and ", path, " has a prompt a line"));
  }
  ASSIGN_OR_RETURN(const std::string content, ReadSmallFile(path, kMostPromptBytes));
  absl::string_view text = content;
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  std::vector<PromptRecord> prompts;
  for (int64_t number = 1; !text.empty(); ++number) {
    const absl::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const bool blank = absl::StripAsciiWhitespace(line).empty();
    if (objects && blank) continue;
    const std::string where = absl::StrCat(path, ":", number);
    PromptRecord record;
    if (objects) {
      ASSIGN_OR_RETURN(JsonDocument document,
                       ParseJsonlObject(line, path, number, "{\"prompt\": \"...\"}",
                                        [&](absl::string_view name) {
                                          return name == key || name == target_key ||
                                                 name == "prompt" || IsAmongNames(kChatKeys, name);
                                        }));
      auto found = PromptOf(document.value, line, key, target_key);
      if (!found.ok()) return Annotate(found.status(), where);
      record = *std::move(found);
    } else {
      record.prompt = std::string(absl::StripSuffix(line, "\r"));
    }
    if (!record.is_chat() && absl::StripAsciiWhitespace(record.prompt).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": the prompt is empty: there is nothing to continue; take it out"));
    }
    record.line = number;
    prompts.push_back(std::move(record));
  }
  if (prompts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has no prompts: a .txt has one a line, a .jsonl {\"prompt\": \"...\"} a line"));
  }
  return prompts;
}

LineReader::Take TakeRecords(const std::string& file, TakeRecord take) {
  return [file, take = std::move(take)](absl::string_view line, int64_t number) -> absl::Status {
    RETURN_IF_ERROR(StopSignal::Check());
    if (absl::StripAsciiWhitespace(line).empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const JsonlRecord record, ParseJsonlRecord(line, file, number));
    return Annotate(take(record), absl::StrCat(file, ":", number));
  };
}

absl::Status ReadJsonl(const std::string& path, TakeRecord take,
                       const std::function<absl::Status(uint64_t)>& after_piece) {
  return ReadLines(path, TakeRecords(path, std::move(take)), after_piece);
}

}  // namespace spillway
