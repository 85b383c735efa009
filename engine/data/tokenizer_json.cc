#include "engine/data/tokenizer_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/strict_json.h"
#include "engine/base/utf8.h"
#include "engine/data/split_pattern.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int kMaxTokenizerJsonDepth = 32;
constexpr size_t kMaxAddedTokens = 1 << 16;
constexpr size_t kMaxAddedTokenBytes = 4096;

// GPT-2's alphabet: each byte as one printable character, those that are printable
// themselves (of Latin-1), the others from U+0100 on in their order.
std::array<uint32_t, 256> ByteAlphabet() {
  std::array<uint32_t, 256> alphabet;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    alphabet[byte] = printable ? byte : next++;
  }
  return alphabet;
}

// What a token of that alphabet stands for; nothing where another character is in it.
std::optional<std::string> BytesOf(absl::string_view token) {
  static const std::array<int, 0x144> bytes = [] {
    std::array<int, 0x144> inverse;
    inverse.fill(-1);
    const std::array<uint32_t, 256> alphabet = ByteAlphabet();
    for (int byte = 0; byte < 256; ++byte) inverse[alphabet[static_cast<size_t>(byte)]] = byte;
    return inverse;
  }();
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const uint32_t point = TakeCodePoint(token, &at);
    if (point >= bytes.size() || bytes[point] < 0) return std::nullopt;
    out += static_cast<char>(bytes[point]);
  }
  return out;
}

class Reader {
 public:
  Reader(const JsonDocument& document, absl::string_view file)
      : root_(document.value), file_(file) {}

  absl::StatusOr<TokenizerSpec> Read() {
    if (!root_.is_object()) return Broken("it is not an object");
    RETURN_IF_ERROR(ReadNormalizer(Member(root_, "normalizer")));
    RETURN_IF_ERROR(ReadPreTokenizer(Member(root_, "pre_tokenizer")));
    RETURN_IF_ERROR(ReadDecoder(Member(root_, "decoder")));
    RETURN_IF_ERROR(ReadModel(Member(root_, "model")));
    RETURN_IF_ERROR(ReadAddedTokens(Member(root_, "added_tokens")));
    return std::move(spec_);
  }

 private:
  absl::Status Broken(absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": not a tokenizer.json: ", why));
  }

  absl::Status Unsupported(absl::string_view what) const {
    return absl::UnimplementedError(
        absl::StrCat(file_, ": ", what,
                     " is not supported (byte-level BPE like GPT-2's, Llama 3's and Qwen's is); "
                     "tokenize with Hugging Face's tokenizers and give the tokens as a .npy file"));
  }

  // null where it is missing.
  static const json& Member(const json& object, const char* key) {
    static const json kNull;
    if (!object.is_object()) return kNull;
    const auto found = object.find(key);
    return found == object.end() ? kNull : *found;
  }

  static std::string TypeOf(const json& object) {
    const json& type = Member(object, "type");
    return type.is_string() ? type.get<std::string>() : "";
  }

  // "pre_tokenizer Metaspace".
  static std::string Named(absl::string_view part, const json& object) {
    const std::string type = TypeOf(object);
    return absl::StrCat(part, " ", type.empty() ? "without a type" : type);
  }

  absl::Status ReadBool(const json& object, const char* key, bool default_value, bool* out) const {
    const json& value = Member(object, key);
    if (!value.is_null() && !value.is_boolean()) {
      return Broken(absl::StrCat("\"", key, "\" is neither true nor false"));
    }
    *out = value.is_null() ? default_value : value.get<bool>();
    return absl::OkStatus();
  }

  absl::Status ReadNormalizer(const json& normalizer) {
    if (normalizer.is_null()) return absl::OkStatus();
    const std::string type = TypeOf(normalizer);
    if (type == "NFC") {
      spec_.nfc = true;
      return absl::OkStatus();
    }
    const json& parts = Member(normalizer, "normalizers");
    if (type != "Sequence" || !parts.is_array())
      return Unsupported(Named("normalizer", normalizer));
    for (const json& part : parts) {
      if (TypeOf(part) != "NFC") return Unsupported(Named("normalizer", part));
      spec_.nfc = true;
    }
    return absl::OkStatus();
  }

  absl::Status ReadPreTokenizer(const json& pre_tokenizer) {
    const json* split = nullptr;
    const json* byte_level = &pre_tokenizer;
    if (TypeOf(pre_tokenizer) == "Sequence") {
      const json& parts = Member(pre_tokenizer, "pretokenizers");
      if (!parts.is_array()) return Broken("pre_tokenizer Sequence without pretokenizers");
      for (const json& part : parts) {
        const std::string type = TypeOf(part);
        if (type != "Split" && type != "ByteLevel")
          return Unsupported(Named("pre_tokenizer", part));
      }
      if (parts.empty() || parts.size() > 2 || TypeOf(parts.back()) != "ByteLevel" ||
          (parts.size() == 2 && TypeOf(parts[0]) != "Split")) {
        return Unsupported("a pre_tokenizer that is a Sequence other than Split, ByteLevel");
      }
      byte_level = &parts.back();
      if (parts.size() == 2) split = &parts[0];
    }
    if (pre_tokenizer.is_null()) return Unsupported("a tokenizer without a pre_tokenizer");
    if (TypeOf(*byte_level) != "ByteLevel") return Unsupported(Named("pre_tokenizer", *byte_level));
    bool use_regex = true;
    RETURN_IF_ERROR(ReadBool(*byte_level, "use_regex", true, &use_regex));
    RETURN_IF_ERROR(ReadBool(*byte_level, "add_prefix_space", true, &spec_.add_prefix_space));
    if (split == nullptr) {
      if (!use_regex) return Unsupported("pre_tokenizer ByteLevel without a regular expression");
      spec_.split_pattern = std::string(kGpt2SplitPattern);
    } else {
      if (use_regex) return Unsupported("pre_tokenizer Split before a ByteLevel with use_regex");
      if (spec_.add_prefix_space) {
        return Unsupported("pre_tokenizer Split before a ByteLevel with add_prefix_space");
      }
      RETURN_IF_ERROR(ReadSplit(*split));
    }
    const auto compiled = SplitPattern::Compile(spec_.split_pattern);
    if (!compiled.ok()) {
      return Unsupported(
          absl::StrCat("the pattern of pre_tokenizer Split (", compiled.status().message(), ")"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadSplit(const json& split) {
    const json& pattern = Member(Member(split, "pattern"), "Regex");
    if (!pattern.is_string()) return Unsupported("pre_tokenizer Split without a Regex");
    if (Member(split, "behavior") != "Isolated") {
      return Unsupported("pre_tokenizer Split with a behavior other than Isolated");
    }
    bool invert = false;
    RETURN_IF_ERROR(ReadBool(split, "invert", false, &invert));
    if (invert) return Unsupported("pre_tokenizer Split with invert");
    spec_.split_pattern = pattern.get<std::string>();
    return absl::OkStatus();
  }

  absl::Status ReadDecoder(const json& decoder) const {
    if (decoder.is_null() || TypeOf(decoder) == "ByteLevel") return absl::OkStatus();
    return Unsupported(Named("decoder", decoder));
  }

  absl::Status ReadModel(const json& model) {
    if (!model.is_object()) return Broken("it has no model");
    // Files of 2019 name no type.
    if (!Member(model, "type").is_null() && TypeOf(model) != "BPE") {
      return Unsupported(Named("model", model));
    }
    const json& dropout = Member(model, "dropout");
    if (!dropout.is_null() && dropout != 0) return Unsupported("model BPE with dropout");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json& value = Member(model, key);
      if (!value.is_null() && value != "") return Unsupported(absl::StrCat("model BPE with ", key));
    }
    bool byte_fallback = false;
    RETURN_IF_ERROR(ReadBool(model, "byte_fallback", false, &byte_fallback));
    if (byte_fallback) return Unsupported("model BPE with byte_fallback (SentencePiece's kind)");
    RETURN_IF_ERROR(ReadBool(model, "ignore_merges", false, &spec_.ignore_merges));
    RETURN_IF_ERROR(ReadVocabulary(Member(model, "vocab")));
    RETURN_IF_ERROR(ReadBytes(Member(model, "unk_token")));
    return ReadMerges(Member(model, "merges"));
  }

  absl::Status ReadVocabulary(const json& vocabulary) {
    if (!vocabulary.is_object() || vocabulary.empty()) return Broken("its model has no vocab");
    // Ids with wide gaps would be a table of nothing.
    const uint64_t limit = 2 * uint64_t{vocabulary.size()} + (1 << 16);
    for (const auto& [token, id] : vocabulary.items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= limit) {
        return Broken(absl::StrCat("the id of \"", token, "\" is not a number below ", limit));
      }
      RETURN_IF_ERROR(AddToVocabulary(token, id.get<uint32_t>()));
    }
    model_size_ = vocabulary.size();
    return absl::OkStatus();
  }

  absl::Status AddToVocabulary(const std::string& token, uint32_t id) {
    if (token.empty()) return Broken("the empty string is a token");
    if (id >= spec_.tokens.size()) spec_.tokens.resize(id + 1);
    if (!spec_.tokens[id].empty()) return Broken(absl::StrCat("two tokens have the id ", id));
    std::optional<std::string> bytes = BytesOf(token);
    if (bytes) spec_.word_tokens.push_back(id);
    spec_.tokens[id] = bytes ? *std::move(bytes) : token;
    ids_.emplace(token, id);
    return absl::OkStatus();
  }

  absl::Status ReadBytes(const json& unknown) {
    const std::array<uint32_t, 256> alphabet = ByteAlphabet();
    std::optional<int> missing;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      std::string token;
      AppendUtf8(alphabet[byte], &token);
      const auto found = ids_.find(token);
      spec_.byte_tokens[byte] = found == ids_.end() ? kNoToken : found->second;
      const bool in_utf8 = byte != 0xc0 && byte != 0xc1 && byte < 0xf5;
      if (found == ids_.end() && in_utf8) missing = static_cast<int>(byte);
    }
    // Where every byte is a token nothing is ever unknown.
    if (missing && unknown.is_string() && unknown != "") {
      return Unsupported(absl::StrCat("unk_token in a vocabulary without the byte ", *missing));
    }
    return absl::OkStatus();
  }

  absl::Status ReadMerges(const json& merges) {
    if (!merges.is_array()) return Broken("its model has no merges");
    spec_.merges.reserve(merges.size());
    for (const json& merge : merges) {
      absl::string_view left, right;
      if (merge.is_string()) {
        const absl::string_view text = merge.get_ref<const std::string&>();
        if (absl::StartsWith(text, "#version")) continue;
        const size_t space = text.find(' ');
        if (space == absl::string_view::npos || text.find(' ', space + 1) != text.npos) {
          return Broken(absl::StrCat("the merge \"", text.substr(0, 80), "\" is not two tokens"));
        }
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        left = merge[0].get_ref<const std::string&>();
        right = merge[1].get_ref<const std::string&>();
      } else {
        return Broken("a merge is neither \"a b\" nor [\"a\", \"b\"]");
      }
      MergeTable::Merge ids;
      RETURN_IF_ERROR(IdOf(left, &ids.left));
      RETURN_IF_ERROR(IdOf(right, &ids.right));
      RETURN_IF_ERROR(IdOf(absl::StrCat(left, right), &ids.merged));
      spec_.merges.push_back(ids);
    }
    return absl::OkStatus();
  }

  absl::Status IdOf(absl::string_view token, uint32_t* id) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) {
      return Broken(absl::StrCat("a merge needs the token \"", token.substr(0, 80),
                                 "\", which is not in the vocabulary"));
    }
    *id = found->second;
    return absl::OkStatus();
  }

  absl::Status ReadAddedTokens(const json& added) {
    if (added.is_null()) return absl::OkStatus();
    if (!added.is_array()) return Broken("added_tokens is not an array");
    if (added.size() > kMaxAddedTokens) {
      return Broken(absl::StrCat(added.size(), " added tokens; at most ", kMaxAddedTokens));
    }
    absl::flat_hash_map<std::string, uint32_t> seen;
    std::optional<uint32_t> highest;  // as Hugging Face's library counts on
    for (const json& entry : added) {
      AddedToken token;
      const json& content = Member(entry, "content");
      const json& id = Member(entry, "id");
      if (!content.is_string() || !id.is_number_unsigned()) {
        return Broken("an added token has no content or no id");
      }
      token.content = content.get<std::string>();
      if (token.content.empty()) continue;
      if (token.content.size() > kMaxAddedTokenBytes) {
        return Broken(absl::StrCat("an added token has more than ", kMaxAddedTokenBytes, " bytes"));
      }
      RETURN_IF_ERROR(ReadBool(entry, "single_word", false, &token.single_word));
      RETURN_IF_ERROR(ReadBool(entry, "lstrip", false, &token.lstrip));
      RETURN_IF_ERROR(ReadBool(entry, "rstrip", false, &token.rstrip));
      RETURN_IF_ERROR(ReadBool(entry, "normalized", true, &token.normalized));
      const auto known = ids_.find(token.content);
      const uint64_t expected = known != ids_.end()                  ? known->second
                                : highest && *highest >= model_size_ ? uint64_t{*highest} + 1
                                                                     : model_size_;
      if (id.get<uint64_t>() != expected) {
        return Broken(absl::StrCat("the added token \"", token.content.substr(0, 80),
                                   "\" has the id ", id.get<uint64_t>(),
                                   ", and its place gives it ", expected));
      }
      token.id = static_cast<uint32_t>(expected);
      if (!seen.emplace(token.content, token.id).second) {
        return Broken(
            absl::StrCat("the added token \"", token.content.substr(0, 80), "\" is there twice"));
      }
      if (token.id >= spec_.tokens.size()) spec_.tokens.resize(token.id + 1);
      if (known == ids_.end() && !spec_.tokens[token.id].empty()) {
        return Broken(absl::StrCat("two tokens have the id ", token.id));
      }
      spec_.tokens[token.id] = token.content;
      highest = std::max(highest.value_or(0), token.id);
      spec_.added.push_back(std::move(token));
    }
    return absl::OkStatus();
  }

  const json& root_;
  const absl::string_view file_;
  TokenizerSpec spec_;
  size_t model_size_ = 0;
  absl::flat_hash_map<std::string, uint32_t> ids_;  // as they are written
};

}  // namespace

absl::StatusOr<TokenizerSpec> ParseTokenizerJson(absl::string_view text, absl::string_view file) {
  ASSIGN_OR_RETURN(
      const JsonDocument document,
      ParseStrictJson(text, file,
                      {.max_bytes = kMaxTokenizerJsonBytes, .max_depth = kMaxTokenizerJsonDepth}));
  return Reader(document, file).Read();
}

}  // namespace spillway
