#include "engine/data/chat_format.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/strict_json.h"
#include "engine/data/jinja_values.h"
#include "engine/data/utf8_repair.h"
#include "io/base/status.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr size_t kMaxTemplateBytes = 1 << 20;

bool HaveGenerations(const std::vector<JinjaNode>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const JinjaNode& node) {
    return node.kind == JinjaNode::Kind::kGeneration || HaveGenerations(node.body) ||
           HaveGenerations(node.otherwise);
  });
}

JinjaValue FirstOf(const JinjaValue& messages, size_t count) {
  return JinjaValue(std::vector<JinjaValue>(messages.begin(),
                                            messages.begin() + static_cast<std::ptrdiff_t>(count)));
}

// The text of "bos_token": "<s>" or {"content": "<s>", ...}.
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

}  // namespace

absl::StatusOr<ChatFormat> ChatFormat::Load(absl::string_view directory) {
  JinjaValue variables = JinjaValue::object();
  std::string source, file;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto document = ReadStrictJson(absl::StrCat(directory, "/", name));
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
  const auto text = ReadSmallFile(own, kMaxTemplateBytes);
  if (text.ok()) {
    source = *text;
    file = own;
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  }
  if (source.empty()) {
    return absl::NotFoundError(
        absl::StrCat(directory, " has no chat template (chat_template.jinja, or chat_template in ",
                     "tokenizer_config.json)"));
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
  ASSIGN_OR_RETURN(out.nodes_, ParseJinja(source, file));
  out.generations_ = HaveGenerations(out.nodes_);
  return out;
}

absl::StatusOr<JinjaText> ChatFormat::RenderText(JinjaValue messages,
                                                 bool add_generation_prompt) const {
  JinjaValue variables = variables_;
  variables["messages"] = std::move(messages);
  variables["add_generation_prompt"] = add_generation_prompt;
  variables["tools"] = variables["documents"] = nullptr;
  return RenderJinja(nodes_, variables, file_);
}

absl::StatusOr<std::string> ChatFormat::Text(const JinjaValue& messages,
                                             bool add_generation_prompt) const {
  ASSIGN_OR_RETURN(JinjaText text, RenderText(messages, add_generation_prompt));
  return std::move(text.text);
}

absl::StatusOr<std::pair<size_t, size_t>> ChatFormat::TurnAt(size_t place,
                                                             const JinjaValue& messages,
                                                             const std::string& text) const {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("messages[", place, "]: ", why,
                     ", so that which tokens are the assistant's can't be told; ",
                     "put {% generation %} and {% endgeneration %} around them in ", file_));
  };
  std::string mark = "\xee\x80\x80";
  while (absl::StrContains(text, mark)) mark += "\xee\x80\x80";
  const std::string& content = messages[place]["content"].get_ref<const std::string&>();
  // Where one of these places in the content is in the text; npos where the mark changes more.
  JinjaValue marked;
  const auto find = [&](std::initializer_list<size_t> places) -> absl::StatusOr<size_t> {
    for (const size_t at : places) {
      marked = messages;
      marked[place]["content"].get_ref<std::string&>().insert(at, mark);
      ASSIGN_OR_RETURN(const std::string whole, Text(marked, false));
      if (absl::StrReplaceAll(whole, {{mark, ""}}) == text) return whole.find(mark);
    }
    return std::string::npos;
  };
  // Its end and its beginning, or before and behind white space that the template strips.
  const auto stripped = [&](const char* method) -> absl::StatusOr<size_t> {
    ASSIGN_OR_RETURN(const JinjaValue rest, JinjaMethod(method, content, {}, {file_, 0}));
    return rest.get_ref<const std::string&>().size();
  };
  ASSIGN_OR_RETURN(const size_t stripped_end, stripped("rstrip"));
  ASSIGN_OR_RETURN(const size_t end, find({content.size(), stripped_end}));
  ASSIGN_OR_RETURN(const std::string until, Text(FirstOf(marked, place + 1), false));
  const size_t last = until.rfind(mark);
  if (end == std::string::npos || last == std::string::npos) {
    return wrong("the template does not write this content as it is, and once");
  }
  const absl::string_view closing = absl::string_view(until).substr(last + mark.size());
  if (!absl::StartsWith(absl::string_view(text).substr(end), closing)) {
    return wrong("the template ends this turn in another way when it is the last");
  }
  const auto before = Text(FirstOf(messages, place), false);
  const auto prompt = Text(FirstOf(messages, place), true);
  // Of no messages at all a template may have nothing to say.
  if (place > 0) RETURN_IF_ERROR(before.status());
  if (place > 0) RETURN_IF_ERROR(prompt.status());
  size_t begin = 0;
  if (before.ok() && prompt.ok() && absl::StartsWith(text, *before) && before->size() <= end) {
    const auto differ = std::mismatch(prompt->begin(), prompt->end(), text.begin(), text.end());
    begin = std::min(static_cast<size_t>(differ.second - text.begin()), end);
    while (begin < text.size() && (text[begin] & 0xc0) == 0x80) --begin;
    begin = std::max(begin, before->size());
  } else {
    // What is before it is written in another way when it is alone.
    ASSIGN_OR_RETURN(const size_t left, stripped("lstrip"));
    ASSIGN_OR_RETURN(begin, find({0, content.size() - left}));
    if (begin > end) return wrong("the template does not write its beginning as it is, and once");
  }
  return std::make_pair(begin, end + closing.size());
}

absl::StatusOr<ChatText> ChatFormat::Render(const JinjaValue& messages) const {
  ChatText out;
  if (generations_) {
    ASSIGN_OR_RETURN(JinjaText text, RenderText(messages, false));
    return ChatText{std::move(text.text), std::move(text.generated)};
  }
  ASSIGN_OR_RETURN(out.text, Text(messages, false));
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] != "assistant") continue;
    ASSIGN_OR_RETURN(out.learnt.emplace_back(), TurnAt(i, messages, out.text));
  }
  return out;
}

}  // namespace spillway
