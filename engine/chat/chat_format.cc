#include "engine/chat/chat_format.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/model_file.h"
#include "engine/base/strict_json.h"
#include "engine/base/utf8_repair.h"
#include "engine/chat/chat_turns.h"
#include "io/base/status.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr size_t kMaxTemplateBytes = 1 << 20;

// Adds the texts of special tokens: "bos_token": "<s>" or {"content": "<s>", ...}.
void AddSpecialTokens(const nlohmann::json& object, JinjaValue* variables) {
  if (!object.is_object()) return;
  for (const auto& item : object.items()) {
    const nlohmann::json& value = item.value();
    const bool wrapped =
        value.is_object() && value.contains("content") && value["content"].is_string();
    if (!absl::EndsWith(item.key(), "_token") || variables->contains(item.key())) continue;
    if (value.is_string() || wrapped)
      (*variables)[item.key()] = (wrapped ? value["content"] : value).get<std::string>();
  }
}

// Gives messages with reasoning both of its keys, "reasoning_content" and "thinking", as
// transformers does: data and templates use either.
JinjaValue WithThoughts(const JinjaValue& messages) {
  JinjaValue out = JinjaValue::array();
  for (const JinjaValue& message : messages) {
    JinjaValue thoughts;
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
      if (thoughts.is_null() && message.contains(name)) thoughts = message[name];
    }
    if (thoughts.is_null()) {
      out.push_back(message);
      continue;
    }
    JinjaValue named = {{"thinking", thoughts}};
    for (const auto& item : message.items()) named[item.key()] = item.value();
    named["reasoning_content"] = std::move(thoughts);
    out.push_back(std::move(named));
  }
  return out;
}

}  // namespace

absl::StatusOr<ChatFormat> ChatFormat::Load(absl::string_view directory) {
  JinjaValue variables = JinjaValue::object();
  std::string source, file;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto document = ReadModelJson(directory, name);
    if (absl::IsNotFound(document.status())) continue;
    RETURN_IF_ERROR(document.status());
    AddSpecialTokens(document->value, &variables);
    if (!document->value.is_object() || !document->value.contains("chat_template")) continue;
    nlohmann::json given = document->value["chat_template"];
    for (const nlohmann::json& one : given.is_array() ? given : nlohmann::json::array()) {
      if (one.is_object() && one.contains("template") &&
          one.value("name", nlohmann::json()) == "default") {
        given = nlohmann::json(one["template"]);
        break;
      }
    }
    file = document->Where("/chat_template");
    if (given.is_null()) continue;
    if (!given.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": chat_template is no string, nor a list with one named default"));
    }
    source = given.get<std::string>();
    file += ": chat_template";
  }
  const std::string own = absl::StrCat(directory, "/chat_template.jinja");
  const auto text = ReadModelFile(directory, "chat_template.jinja", kMaxTemplateBytes);
  if (text.ok()) {
    source = *text;
    file = own;
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  }
  if (source.empty()) {
    return absl::NotFoundError(
        absl::StrCat(directory, " has no chat template (chat_template.jinja, or chat_template in ",
                     "tokenizer_config.json), which says how conversations are written: copy the "
                     "chat_template.jinja of the family's instruct model there, or give prompts "
                     "with completions in place of messages"));
  }
  return Parse(source, file, std::move(variables));
}

absl::StatusOr<ChatFormat> ChatFormat::Parse(absl::string_view source, absl::string_view file,
                                             JinjaValue variables) {
  if (source.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": more than ", kMaxTemplateBytes, " bytes"));
  }
  if (ValidUtf8Prefix(source) != source.size()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": not UTF-8"));
  }
  ChatFormat out;
  out.file_ = std::string(file);
  out.variables_ = std::move(variables);
  ASSIGN_OR_RETURN(out.template_, ParseJinja(source, file));
  return out;
}

absl::StatusOr<JinjaText> ChatFormat::RenderMessages(const Conversation& conversation,
                                                     JinjaValue messages,
                                                     bool add_generation_prompt,
                                                     ChatClock now) const {
  JinjaValue variables = variables_;
  variables["tools"] = variables["documents"] = nullptr;
  for (const auto& item : conversation.variables.items()) variables[item.key()] = item.value();
  variables["messages"] = std::move(messages);
  variables["add_generation_prompt"] = add_generation_prompt;
  return RenderJinja(template_, variables, now, file_);
}

JinjaValue ChatFormat::Readable(const Conversation& conversation, ChatClock now) const {
  JinjaValue messages = WithThoughts(conversation.messages);
  const auto in_parts = [](const JinjaValue& message) {
    return message.contains("content") && message["content"].is_array();
  };
  if (std::none_of(messages.begin(), messages.end(), in_parts)) return messages;
  // A template that iterates over parts writes the text of one, instead of the list.
  const std::string mark = "\U00010600";
  const JinjaValue part = {{"type", "text"}, {"text", mark}};
  const JinjaValue message = {{"role", "user"}, {"content", JinjaValue::array({part})}};
  const auto written = RenderMessages({}, JinjaValue::array({message}), false, now);
  if (written.ok()) {
    const size_t at = written->text.find(mark);
    const bool quoted = at != std::string::npos && at > 0 &&
                        (written->text[at - 1] == '\'' || written->text[at - 1] == '"');
    if (at != std::string::npos && !quoted) return messages;
  }
  for (JinjaValue& one : messages) {
    if (!in_parts(one)) continue;
    std::string text;
    for (const JinjaValue& each : one["content"]) text += each.value("text", "");
    one["content"] = std::move(text);
  }
  return messages;
}

absl::StatusOr<JinjaText> ChatFormat::RenderText(const Conversation& conversation,
                                                 bool add_generation_prompt, ChatClock now) const {
  return RenderMessages(conversation, Readable(conversation, now), add_generation_prompt, now);
}

absl::StatusOr<ChatText> ChatFormat::Render(const Conversation& conversation, ChatClock now) const {
  const JinjaValue messages = Readable(conversation, now);
  const auto render = [&](const JinjaValue& some, bool prompt) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(JinjaText text, RenderMessages(conversation, some, prompt, now));
    return std::move(text.text);
  };
  ASSIGN_OR_RETURN(JinjaText whole, RenderMessages(conversation, messages, false, now));
  ChatText out{std::move(whole.text), std::move(whole.generated)};
  if (!template_.generates) {
    ASSIGN_OR_RETURN(out.learnt, FindTurns(render, messages, out.text, file_));
  }
  if (conversation.unlearnt.empty()) return out;
  std::vector<bool> learnt;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] == "assistant") learnt.push_back(conversation.unlearnt.count(i) == 0);
  }
  if (out.learnt.size() != learnt.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the chat template marks ", out.learnt.size(), " stretches as the assistant's for ",
        learnt.size(), " messages, so those that are not to be learnt are not known"));
  }
  size_t kept = 0;
  for (size_t i = 0; i < learnt.size(); ++i) {
    if (learnt[i]) out.learnt[kept++] = out.learnt[i];
  }
  out.learnt.resize(kept);
  return out;
}

ChatClock ChatTimeNow() { return absl::ToCivilSecond(absl::Now(), absl::LocalTimeZone()); }

}  // namespace spillway
