// The half of engine/data/bpe_tokenizer.h that reads a directory.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/strict_json.h"
#include "engine/data/bpe_tokenizer.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file.h"

namespace spillway {
namespace {

std::optional<uint32_t> IdOf(const TokenizerSpec& spec, const std::string& token) {
  for (const AddedToken& added : spec.added) {
    if (added.content == token) return added.id;
  }
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), token);
  if (token.empty() || found == spec.tokens.end()) return std::nullopt;
  return static_cast<uint32_t>(found - spec.tokens.begin());
}

// A token by its text ("eos_token": "</s>" or {"content": "</s>", ...}) or by its number
// ("eos_token_id": 2, or several, of which the first ends a text).
std::optional<uint32_t> TokenOf(const TokenizerSpec& spec, const nlohmann::json& value) {
  if (value.is_string()) return IdOf(spec, value.get<std::string>());
  if (value.is_object() && value.contains("content")) return TokenOf(spec, value["content"]);
  if (value.is_array() && !value.empty() && value[0].is_number()) return TokenOf(spec, value[0]);
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= spec.tokens.size()) {
    return std::nullopt;
  }
  return value.get<uint32_t>();
}

// The files beside a tokenizer.json are read for this only; one that is missing says nothing.
absl::StatusOr<std::optional<uint32_t>> FindEndOfText(const TokenizerSpec& spec,
                                                      absl::string_view directory) {
  constexpr const char* kSources[][2] = {{"tokenizer_config.json", "eos_token"},
                                         {"special_tokens_map.json", "eos_token"},
                                         {"config.json", "eos_token_id"},
                                         {"generation_config.json", "eos_token_id"}};
  for (const auto& [name, key] : kSources) {
    const auto document = ReadStrictJson(absl::StrCat(directory, "/", name));
    if (absl::IsNotFound(document.status())) continue;
    RETURN_IF_ERROR(document.status());
    if (!document->value.is_object() || !document->value.contains(key)) continue;
    const std::optional<uint32_t> token = TokenOf(spec, document->value[key]);
    if (token) return token;
  }
  return IdOf(spec, "<|endoftext|>");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadBpeTokenizer(absl::string_view directory) {
  const std::string path = absl::StrCat(directory, "/tokenizer.json");
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMaxTokenizerJsonBytes));
  ASSIGN_OR_RETURN(TokenizerSpec spec, ParseTokenizerJson(text, path));
  ASSIGN_OR_RETURN(const std::optional<uint32_t> end_of_text, FindEndOfText(spec, directory));
  return NewBpeTokenizer(std::move(spec), end_of_text,
                         {std::string(directory), Checksum(text.data(), text.size())});
}

}  // namespace spillway
