#include "engine/tokenizers/declared_tokens.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/model_file.h"
#include "engine/base/strict_json.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr size_t kMaxDeclaredTokens = 1 << 16;
// SPECIAL_TOKENS_ATTRIBUTES of transformers, in order.
constexpr const char* kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};

// An object, with its document for errors.
struct TokenFileObject {
  JsonDocument document;
  const json& value() const { return document.value; }
  bool Has(const char* key) const { return value().contains(key) && !value()[key].is_null(); }
};

absl::StatusOr<TokenFileObject> ReadObject(absl::string_view directory, const char* name) {
  const std::string path = absl::StrCat(directory, "/", name);
  auto document = ReadModelJson(directory, name);
  if (absl::IsNotFound(document.status())) return TokenFileObject{{path, json::object(), {}}};
  RETURN_IF_ERROR(document.status());
  if (!document->value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": this is no JSON object"));
  }
  return TokenFileObject{*std::move(document)};
}

absl::Status WrongToken(const TokenFileObject& file, const std::string& pointer) {
  return absl::InvalidArgumentError(
      absl::StrCat(file.document.Where(pointer), ": ", pointer,
                   " is no token: neither a text nor {\"content\": \"...\"}"));
}

// Reads "</s>" or {"content": "</s>", "lstrip": false, ...}.
absl::StatusOr<AddedToken> DeclaredTokenAt(const TokenFileObject& file, const std::string& pointer,
                                           const json& value, bool special) {
  AddedToken token;
  token.special = special;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    token.normalized = !special;
    return token;
  }
  const auto content = value.is_object() ? value.find("content") : value.end();
  if (!value.is_object() || content == value.end() || !content->is_string()) {
    return WrongToken(file, pointer);
  }
  token.content = content->get<std::string>();
  const auto flag = [&](const char* key, bool fallback) {
    const auto found = value.find(key);
    return found != value.end() && found->is_boolean() ? found->get<bool>() : fallback;
  };
  const bool said_special = flag("special", false);
  token.special |= said_special;
  token.single_word = flag("single_word", false);
  token.lstrip = flag("lstrip", false);
  token.rstrip = flag("rstrip", false);
  token.normalized = flag("normalized", !said_special);
  return token;
}

// Reads {"32000": {"content": ...}, ...} in numeric order.
absl::Status AddById(const TokenFileObject& file, std::vector<DeclaredToken>* tokens) {
  const json& by_id = file.value()["added_tokens_decoder"];
  if (!by_id.is_object()) return WrongToken(file, "/added_tokens_decoder");
  std::map<int64_t, AddedToken> ordered;
  for (const auto& item : by_id.items()) {
    const std::string pointer = JsonPointerTo("/added_tokens_decoder", item.key());
    int64_t id = 0;
    if (!absl::SimpleAtoi(item.key(), &id)) return WrongToken(file, pointer);
    ASSIGN_OR_RETURN(ordered[id], DeclaredTokenAt(file, pointer, item.value(), false));
  }
  for (auto& [id, token] : ordered) {
    tokens->push_back({std::move(token), DeclaredToken::Known::kReplaced});
  }
  return absl::OkStatus();
}

// Reads {"<tool>": 32000, ...} in numeric order; tokens declared in `special` are special.
absl::Status AddByContent(const TokenFileObject& file, const std::vector<DeclaredToken>& special,
                          std::vector<DeclaredToken>* tokens) {
  std::multimap<int64_t, AddedToken> ordered;
  for (const auto& item : file.value().items()) {
    if (!item.value().is_number_integer()) {
      const std::string pointer = JsonPointerTo("", item.key());
      return absl::InvalidArgumentError(absl::StrCat(file.document.Where(pointer), ": ", pointer,
                                                     " has no whole number, which is its id"));
    }
    AddedToken token;
    token.content = item.key();
    token.special = std::any_of(special.begin(), special.end(), [&](const DeclaredToken& one) {
      return one.token.content == token.content;
    });
    token.normalized = !token.special;
    ordered.emplace(item.value().get<int64_t>(), std::move(token));
  }
  for (auto& [id, token] : ordered) tokens->push_back({std::move(token)});
  return absl::OkStatus();
}

// Tokens named by keys of a config or map, in the order of addition.
class NamedTokenList {
 public:
  absl::Status Read(const TokenFileObject& file) {
    for (const char* key : kNamedTokens) {
      if (file.Has(key)) RETURN_IF_ERROR(Add(file, key, file.value()[key]));
    }
    for (const auto& item : file.value().items()) {
      const bool usual = std::count(std::begin(kNamedTokens), std::end(kNamedTokens), item.key());
      const bool token = item.value().is_string() || item.value().is_object();
      if (usual || !token || !absl::EndsWith(item.key(), "_token")) continue;
      RETURN_IF_ERROR(Add(file, item.key(), item.value()));
    }
    // The second is transformers' name before 5.
    for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
      if (!file.Has(key) || file.value()[key].empty()) continue;
      RETURN_IF_ERROR(AddExtra(file, key));
      break;
    }
    return absl::OkStatus();
  }

  // In order; for a duplicate key the later token.
  std::vector<DeclaredToken> tokens() const {
    using Known = DeclaredToken::Known;
    std::vector<DeclaredToken> all;
    for (const char* key : kNamedTokens) {
      const auto found = named_.find(key);
      if (found != named_.end()) all.push_back({found->second, Known::kSpecial});
    }
    for (const std::string& key : other_) all.push_back({named_.at(key), Known::kSpecial});
    for (const AddedToken& token : extra_) all.push_back({token, Known::kKept});
    return all;
  }

  std::map<std::string, std::string> named() const {
    std::map<std::string, std::string> contents;
    for (const auto& [key, token] : named_) contents[key] = token.content;
    return contents;
  }

 private:
  absl::Status Add(const TokenFileObject& file, const std::string& key, const json& value) {
    ASSIGN_OR_RETURN(AddedToken token, DeclaredTokenAt(file, JsonPointerTo("", key), value, true));
    const bool usual = std::count(std::begin(kNamedTokens), std::end(kNamedTokens), key);
    if (!usual && named_.count(key) == 0) other_.push_back(key);
    named_[key] = std::move(token);
    return absl::OkStatus();
  }

  absl::Status AddExtra(const TokenFileObject& file, const char* key) {
    const json& value = file.value()[key];
    const std::string pointer = JsonPointerTo("", key);
    if (value.is_object()) {  // {"image_token": "<image>", ...}
      for (const auto& item : value.items()) RETURN_IF_ERROR(Add(file, item.key(), item.value()));
      return absl::OkStatus();
    }
    if (!value.is_array()) return WrongToken(file, pointer);
    for (size_t i = 0; i < value.size(); ++i) {
      ASSIGN_OR_RETURN(
          AddedToken token,
          DeclaredTokenAt(file, JsonPointerTo(pointer, absl::StrCat(i)), value[i], true));
      extra_.push_back(std::move(token));
    }
    return absl::OkStatus();
  }

  std::map<std::string, AddedToken> named_;
  std::vector<std::string> other_;  // keys that are not in kNamedTokens, in order
  std::vector<AddedToken> extra_;
};

// Classes that use tokenizer.json unchanged.
bool IsPlainTokenizerClass(const TokenFileObject& config) {
  const json name = config.value().value("tokenizer_class", json());
  return name == "PreTrainedTokenizerFast" || name == "TokenizersBackend";
}

}  // namespace

absl::StatusOr<DeclaredTokens> ReadDeclaredTokens(absl::string_view directory) {
  ASSIGN_OR_RETURN(const TokenFileObject config, ReadObject(directory, "tokenizer_config.json"));
  DeclaredTokens declared;
  NamedTokenList named;
  RETURN_IF_ERROR(named.Read(config));
  if (config.Has("added_tokens_decoder")) {
    RETURN_IF_ERROR(AddById(config, &declared.tokens));
  } else {
    ASSIGN_OR_RETURN(const TokenFileObject map, ReadObject(directory, "special_tokens_map.json"));
    RETURN_IF_ERROR(named.Read(map));
    ASSIGN_OR_RETURN(const TokenFileObject added, ReadObject(directory, "added_tokens.json"));
    RETURN_IF_ERROR(AddByContent(added, named.tokens(), &declared.tokens));
  }
  declared.named = named.named();
  for (DeclaredToken& token : named.tokens()) declared.tokens.push_back(std::move(token));
  if (declared.tokens.size() > kMaxDeclaredTokens) {
    return absl::InvalidArgumentError(absl::StrCat(config.document.file, " and the files beside it",
                                                   " declare ", declared.tokens.size(),
                                                   " tokens; at most ", kMaxDeclaredTokens));
  }
  const json prefix = config.value().value("add_prefix_space", json());
  if (prefix.is_boolean() && !IsPlainTokenizerClass(config)) {
    declared.add_prefix_space = prefix.get<bool>();
  }
  return declared;
}

}  // namespace spillway
