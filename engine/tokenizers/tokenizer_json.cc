#include "engine/tokenizers/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <ostream>
#include <streambuf>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/tokenizers/bpe_model.h"
#include "engine/tokenizers/json_part.h"
#include "engine/tokenizers/model_streams.h"
#include "engine/tokenizers/normalizers.h"
#include "engine/tokenizers/pre_tokenizers.h"
#include "engine/tokenizers/unigram_model.h"
#include "engine/tokenizers/word_piece_model.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int kMaxTokenizerJsonDepth = 32;
constexpr size_t kMaxAddedTokens = 1 << 16;
constexpr size_t kMaxAddedTokenBytes = 4096;
constexpr uint32_t kMostWordPieceCharacters = 10'000;

using SharedVocabulary = std::shared_ptr<Vocabulary>;

// Digests the written text without storing it.
class DigestBuffer : public std::streambuf {
 public:
  explicit DigestBuffer(Digest* digest) : digest_(*digest) { Begin(); }

 private:
  void Begin() { setp(piece_.data(), piece_.data() + piece_.size()); }
  int sync() override {
    digest_.Update(pbase(), static_cast<size_t>(pptr() - pbase()));
    Begin();
    return 0;
  }
  int_type overflow(int_type character) override {
    sync();
    return sputc(traits_type::to_char_type(character));
  }

  Digest& digest_;
  std::array<char, 16 << 10> piece_;
};

absl::Status ReadVocabulary(const JsonPart& model, ModelStreams& streams, Vocabulary* out) {
  const JsonPart part = model["vocab"];
  auto& entries = streams.vocabulary.entries();
  if (entries.empty()) return part.Broken("no vocabulary");
  // Ids with wide gaps would make a mostly empty table.
  const uint64_t limit = 2 * uint64_t{entries.size()} + (1 << 16);
  uint64_t highest = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [token, id] = entries[i];
    if (i > 0 && token == entries[i - 1].first) {
      return part.Broken(absl::StrCat("the key \"", token.substr(0, 80), "\" appears twice"));
    }
    if (id >= limit) {
      return part.Broken(
          absl::StrCat("the id of \"", token.substr(0, 80), "\" is not a number below ", limit));
    }
    highest = std::max(highest, id);
  }
  out->tokens.resize(highest + 1);
  for (auto& [token, id] : entries) {
    if (!out->tokens[id].empty()) return part.Broken(absl::StrCat("two tokens have the id ", id));
    out->tokens[id] = std::move(token);
  }
  out->ids.reserve(entries.size());
  for (const auto& [moved, id] : entries) out->ids[out->tokens[id]] = static_cast<uint32_t>(id);
  std::exchange(entries, {});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MergeTable::Merge>> ReadMerges(const JsonPart& model,
                                                          const ModelStreams& streams,
                                                          size_t prefix_bytes,
                                                          const Vocabulary& vocabulary) {
  const JsonPart part = model["merges"];
  if (!streams.has_merges) return part.Broken("no merges");
  std::vector<MergeTable::Merge> out;
  out.reserve(streams.merges.size());
  const auto id_of = [&](absl::string_view token, uint32_t* id) {
    *id = vocabulary.Find(token);
    return *id != kNoToken
               ? absl::OkStatus()
               : part.Broken(absl::StrCat("a merge needs the token \"", token.substr(0, 80),
                                          "\", which is not in the vocabulary"));
  };
  for (size_t i = 0; i < streams.merges.size(); ++i) {
    const auto merge = streams.merges.At(i);
    if (!merge) continue;
    auto [left, right] = *merge;
    MergeTable::Merge ids;
    RETURN_IF_ERROR(id_of(left, &ids.left));
    RETURN_IF_ERROR(id_of(right, &ids.right));
    right.remove_prefix(std::min(prefix_bytes, right.size()));
    RETURN_IF_ERROR(id_of(absl::StrCat(left, right), &ids.merged));
    out.push_back(ids);
  }
  return out;
}

absl::Status ReadBpe(const JsonPart& model, ModelStreams& streams, bool bytes,
                     const SharedVocabulary& vocabulary, TokenizerParts* out) {
  RETURN_IF_ERROR(
      model.Only({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  const JsonPart dropout = model["dropout"];
  if (!dropout.is_null() && dropout.json() != 0) {
    if (!dropout.json().is_number()) return dropout.Broken("not a number");
    out->warnings.push_back(absl::StrCat(dropout.Where(), ": BPE's dropout ", dropout.json().dump(),
                                         " is left out: a text always has the same tokens"));
  }
  BpeRules rules;
  rules.bytes = bytes;
  ASSIGN_OR_RETURN(rules.ignore_merges, model.Bool("ignore_merges", false));
  ASSIGN_OR_RETURN(rules.byte_fallback, model.Bool("byte_fallback", false));
  ASSIGN_OR_RETURN(rules.fuse_unk, model.Bool("fuse_unk", false));
  ASSIGN_OR_RETURN(rules.continuing_prefix, model.String("continuing_subword_prefix", ""));
  ASSIGN_OR_RETURN(rules.end_suffix, model.String("end_of_word_suffix", ""));
  ASSIGN_OR_RETURN(const std::string unk, model.String("unk_token", ""));
  RETURN_IF_ERROR(ReadVocabulary(model, streams, vocabulary.get()));
  rules.unk = vocabulary->Find(unk);
  ASSIGN_OR_RETURN(const std::vector<MergeTable::Merge> merges,
                   ReadMerges(model, streams, rules.continuing_prefix.size(), *vocabulary));
  streams.merges = MergesStream();
  out->model = std::make_shared<BpeModel>(vocabulary, merges, std::move(rules));
  return absl::OkStatus();
}

// The value of a number as serde_json reads it for `tokenizers`: its digits as an integer, then one
// multiplication or division by a power of ten. The last bit decides between equally good paths.
double AsSerdeReads(double value) {
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof(text), std::abs(value), std::chars_format::scientific);
  const absl::string_view shortest(text, static_cast<size_t>(end.ptr - text));
  const size_t e = shortest.find('e');
  std::string digits(shortest.substr(0, e));
  int exponent = 0;
  if (e == shortest.npos || !absl::SimpleAtoi(shortest.substr(e + 1), &exponent)) return value;
  if (digits.size() > 1) {
    digits.erase(1, 1);  // the decimal point
    exponent -= static_cast<int>(digits.size()) - 1;
  }
  uint64_t integer = 0;
  double power = 0;
  if (std::abs(exponent) > 308 || !absl::SimpleAtoi(digits, &integer) ||
      !absl::SimpleAtod(absl::StrCat("1e", std::abs(exponent)), &power)) {
    return value;
  }
  const double read =
      exponent < 0 ? static_cast<double>(integer) / power : static_cast<double>(integer) * power;
  return std::copysign(read, value);
}

absl::Status ReadUnigram(const JsonPart& model, ModelStreams& streams,
                         const SharedVocabulary& vocabulary, TokenizerParts* out) {
  RETURN_IF_ERROR(model.Only({"unk_id", "vocab", "byte_fallback"}));
  ASSIGN_OR_RETURN(const bool byte_fallback, model.Bool("byte_fallback", false));
  const JsonPart part = model["vocab"];
  std::vector<double> scores;
  if (streams.scores.tokens().empty()) return part.Broken("no vocabulary");
  for (const json& score : streams.scores.scores()) {
    scores.push_back(AsSerdeReads(score.get<double>()));
  }
  vocabulary->tokens = std::move(streams.scores.tokens());
  for (const std::string& token : vocabulary->tokens) {
    if (token.empty()) return part.Broken("the empty string is a token");
    vocabulary->ids[token] = static_cast<uint32_t>(&token - vocabulary->tokens.data());
  }
  streams.scores = ScoresStream();
  uint32_t unk = kNoToken;
  if (!model["unk_id"].is_null()) {
    ASSIGN_OR_RETURN(unk, model.Number("unk_id"));
    if (unk >= scores.size()) return model["unk_id"].Broken("no such token");
  }
  out->model = std::make_shared<UnigramModel>(vocabulary, std::move(scores), unk, byte_fallback);
  return absl::OkStatus();
}

absl::Status ReadWordPiece(const JsonPart& model, ModelStreams& streams,
                           const SharedVocabulary& vocabulary, TokenizerParts* out) {
  const bool pieces = out->kind == "wordpiece";
  std::string prefix;
  uint32_t most = 0;
  if (pieces) {
    RETURN_IF_ERROR(model.Only(
        {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}));
    ASSIGN_OR_RETURN(prefix, model.String("continuing_subword_prefix", "##"));
    ASSIGN_OR_RETURN(most, model.Number("max_input_chars_per_word", 100));
    if (most == 0 || most > kMostWordPieceCharacters) {
      return model["max_input_chars_per_word"].Unsupported(
          absl::StrCat("a word of ", most, " characters"));
    }
  } else {
    RETURN_IF_ERROR(model.Only({"unk_token", "vocab"}));
  }
  ASSIGN_OR_RETURN(const std::string unk, model.String("unk_token", "[UNK]"));
  RETURN_IF_ERROR(ReadVocabulary(model, streams, vocabulary.get()));
  out->model = std::make_shared<WordPieceModel>(vocabulary, prefix, most, vocabulary->Find(unk));
  return absl::OkStatus();
}

absl::Status ReadModel(const JsonPart& model, ModelStreams& streams, bool bytes,
                       const SharedVocabulary& vocabulary, TokenizerParts* out) {
  if (!model.json().is_object()) return model.Broken("no model");
  if (streams.has_merges && !out->kind.empty() && out->kind != "bpe") {
    return model["merges"].Unsupported(absl::StrCat("\"merges\" of ", model.Type()));
  }
  if (out->kind == "bpe") return ReadBpe(model, streams, bytes, vocabulary, out);
  if (out->kind == "unigram") return ReadUnigram(model, streams, vocabulary, out);
  if (out->kind == "wordpiece" || out->kind == "wordlevel")
    return ReadWordPiece(model, streams, vocabulary, out);
  return model.UnsupportedType();
}

// The added tokens, with their ids in Hugging Face's library.
class AddedTokenList {
 public:
  explicit AddedTokenList(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  // Null if no added token has this content.
  AddedToken* Find(const std::string& content) {
    const auto found = places_.find(content);
    return found == places_.end() ? nullptr : &tokens_[found->second];
  }

  // The id in the vocabulary, or else the next one.
  uint64_t IdOf(absl::string_view content) const {
    const uint32_t known = vocabulary_.Find(content);
    if (known != kNoToken) return known;
    const size_t model_size = vocabulary_.ids.size();
    return highest_ && *highest_ >= model_size ? uint64_t{*highest_} + 1 : model_size;
  }

  // Adds it here and to all tokens of the tokenizer; false if another one has its id there.
  bool Add(AddedToken token, std::vector<std::string>* all) {
    if (token.id >= all->size()) all->resize(token.id + 1);
    std::string& place = (*all)[token.id];
    if (!place.empty() && place != token.content) return false;
    place = token.content;
    highest_ = std::max(highest_.value_or(0), token.id);
    places_[token.content] = tokens_.size();
    tokens_.push_back(std::move(token));
    return true;
  }

  std::vector<AddedToken>& tokens() { return tokens_; }

 private:
  const Vocabulary& vocabulary_;
  std::vector<AddedToken> tokens_;
  absl::flat_hash_map<std::string, size_t> places_;  // [content]
  std::optional<uint32_t> highest_;
};

absl::Status ReadAddedTokens(const JsonPart& root, AddedTokenList* list, TokenizerParts* out) {
  ASSIGN_OR_RETURN(const std::vector<JsonPart> added, root.Elements("added_tokens"));
  if (added.size() > kMaxAddedTokens) {
    return root["added_tokens"].Broken(
        absl::StrCat(added.size(), " added tokens; at most ", kMaxAddedTokens));
  }
  for (const JsonPart& part : added) {
    AddedToken token;
    ASSIGN_OR_RETURN(token.content, part.String("content"));
    ASSIGN_OR_RETURN(token.id, part.Number("id"));
    ASSIGN_OR_RETURN(token.single_word, part.Bool("single_word", false));
    ASSIGN_OR_RETURN(token.lstrip, part.Bool("lstrip", false));
    ASSIGN_OR_RETURN(token.rstrip, part.Bool("rstrip", false));
    ASSIGN_OR_RETURN(token.normalized, part.Bool("normalized", true));
    ASSIGN_OR_RETURN(token.special, part.Bool("special", false));
    if (token.content.empty()) continue;
    if (token.content.size() > kMaxAddedTokenBytes) {
      return part.Broken(absl::StrCat("more than ", kMaxAddedTokenBytes, " bytes"));
    }
    if (const uint64_t expected = list->IdOf(token.content); token.id != expected) {
      return part.Broken(absl::StrCat("the added token \"", token.content.substr(0, 80),
                                      "\" has the id ", token.id, ", and its place gives it ",
                                      expected));
    }
    if (list->Find(token.content) != nullptr) return part.Broken("this token is there twice");
    const uint32_t id = token.id;
    if (!list->Add(std::move(token), &out->tokens)) {
      return part.Broken(absl::StrCat("two tokens have the id ", id));
    }
  }
  return absl::OkStatus();
}

// Adds the tokens declared in other files; `digest` changes with their effects.
absl::Status AddDeclaredTokens(const DeclaredTokens& declared, absl::string_view file,
                               AddedTokenList* list, TokenizerParts* out, Digest* digest) {
  using Known = DeclaredToken::Known;
  const size_t size = out->tokens.size();
  const auto rules_of = [](const AddedToken& token) {
    return std::array{token.single_word, token.lstrip, token.rstrip, token.normalized,
                      token.special};
  };
  for (const auto& [declared_token, known] : declared.tokens) {
    AddedToken token = declared_token;
    if (token.content.empty()) continue;
    const auto wrong = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat(file,
                                                     ": the files beside it declare the token \"",
                                                     token.content.substr(0, 80), "\": ", why));
    };
    if (token.content.size() > kMaxAddedTokenBytes) {
      return wrong(absl::StrCat("more than ", kMaxAddedTokenBytes, " bytes"));
    }
    AddedToken* const there = list->Find(token.content);
    if (there != nullptr) {
      const auto before = rules_of(*there);
      token.id = there->id;
      if (known == Known::kReplaced) *there = token;
      there->special |= known == Known::kSpecial;
      if (rules_of(*there) == before) continue;
      token = *there;
    } else {
      token.id = static_cast<uint32_t>(list->IdOf(token.content));
      if (list->tokens().size() >= kMaxAddedTokens) return wrong("there are too many");
      if (!list->Add(token, &out->tokens)) {
        return wrong(absl::StrCat("another token has the id ", token.id, " that it would get"));
      }
    }
    const auto rules = rules_of(token);
    digest->Update(token.content.data(), token.content.size() + 1);
    digest->Update(rules.data(), rules.size());
  }
  out->declared = static_cast<int64_t>(out->tokens.size() - size);
  if (out->declared == 0) return absl::OkStatus();
  constexpr size_t kShown = 4;
  std::string names;
  for (size_t id = size; id < std::min(size + kShown, out->tokens.size()); ++id) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", "\"", out->tokens[id].substr(0, 80), "\" (",
                    id, ")");
  }
  out->notices.push_back(absl::StrCat(
      file, " lacks ", out->tokens.size() - size,
      " of the tokens that the files beside it declare; as in transformers they become tokens: ",
      names, out->tokens.size() - size > kShown ? ", ..." : ""));
  return absl::OkStatus();
}

// Normalises added tokens that match in normalised text, once.
absl::Status NormalizeAddedTokens(absl::string_view file, AddedTokenList* list,
                                  TokenizerParts* out) {
  // Hundreds of thousands of tokens have less. Each passes up to kMostTextStages rewrites.
  constexpr size_t kMostNormalizedBytes = 16 << 20;
  size_t bytes = 0;
  for (AddedToken& token : list->tokens()) {
    if (token.normalized) {
      auto content = RewriteAll(out->normalizers, std::move(token.content), kMaxAddedTokenBytes);
      if (absl::IsCancelled(content.status())) return content.status();
      if (!content.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(file, ": added token ", token.id, ": ", content.status().message()));
      }
      token.content = *std::move(content);
      bytes += token.content.size();
      if (bytes > kMostNormalizedBytes) {
        return absl::InvalidArgumentError(absl::StrCat(file, ": its added tokens have more than ",
                                                       kMostNormalizedBytes,
                                                       " bytes when they are normalized"));
      }
    }
    if (!token.content.empty()) out->added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

// Whether words are in GPT-2's alphabet of bytes.
bool WritesBytes(const JsonPart& part) {
  if (part.Type() == "ByteLevel") return true;
  for (const char* key : {"normalizers", "pretokenizers"}) {
    const auto parts =
        part[key].json().is_array() ? part.Elements(key) : absl::StatusOr<std::vector<JsonPart>>();
    if (parts.ok() && std::any_of(parts->begin(), parts->end(), WritesBytes)) return true;
  }
  return false;
}

// Applies add_prefix_space of tokenizer_config.json like transformers' classes.
void ApplyPrefixSpace(bool prefix, json* part) {
  if (part->is_array()) {
    // Without a space before a text, decoding must not strip one from its start.
    const auto is_prefix = [&](const json& inner) {
      const json type = inner.is_object() ? inner.value("type", json()) : json();
      const bool strips = type == "Strip" && inner.value("start", json()) == 1 &&
                          inner.value("content", json()) == " ";
      return !prefix && (type == "Prepend" || strips);
    };
    part->erase(std::remove_if(part->begin(), part->end(), is_prefix), part->end());
    for (json& inner : *part) ApplyPrefixSpace(prefix, &inner);
    return;
  }
  if (!part->is_object()) return;
  for (const char* key : {"normalizers", "pretokenizers", "decoders"}) {
    if (part->contains(key)) ApplyPrefixSpace(prefix, &(*part)[key]);
  }
  const json type = part->value("type", json());
  if (type == "ByteLevel") (*part)["add_prefix_space"] = prefix;
  if (type == "Prepend" && !prefix) *part = nullptr;
  if (type != "Metaspace") return;
  const json scheme = part->value("prepend_scheme", json());
  const bool prefixed =
      scheme.is_null() ? part->value("add_prefix_space", json(true)) == true : scheme != "never";
  if (prefixed == prefix) return;
  (*part)["add_prefix_space"] = prefix;
  (*part)["prepend_scheme"] = prefix ? "first" : "never";
}

std::string KindOf(const JsonPart& model, bool has_merges) {
  const std::string type = model.Type();
  for (const char* known : {"BPE", "Unigram", "WordPiece", "WordLevel"}) {
    if (type == known) return absl::AsciiStrToLower(type);
  }
  // Files of 2019 have no type.
  return type.empty() && has_merges ? "bpe" : "";
}

}  // namespace

absl::StatusOr<TokenizerParts> ParseTokenizerJson(absl::string_view text, absl::string_view file,
                                                  const DeclaredTokens& declared) {
  ModelStreams streams;
  ASSIGN_OR_RETURN(JsonDocument document,
                   ParseStrictJson(text, file,
                                   {.max_bytes = kMaxTokenizerJsonBytes,
                                    .max_depth = kMaxTokenizerJsonDepth,
                                    .elsewhere = [&](absl::string_view pointer, bool array) {
                                      return streams.At(pointer, array);
                                    }}));
  const JsonPart root(&document);
  if (!root.json().is_object()) return root.Broken("it is not an object");
  for (const char* key : {"normalizer", "pre_tokenizer", "decoder"}) {
    if (declared.add_prefix_space && document.value.contains(key)) {
      ApplyPrefixSpace(*declared.add_prefix_space, &document.value[key]);
    }
  }
  TokenizerParts out;
  out.kind = KindOf(root["model"], streams.has_merges);
  ASSIGN_OR_RETURN(out.normalizers, ReadNormalizers(root["normalizer"]));
  // A character with a prefix or a suffix is looked up verbatim.
  const auto is_set = [&](const char* key) {
    return !root["model"][key].is_null() && root["model"][key].json() != "";
  };
  const bool reads_bytes =
      out.kind == "bpe" && !is_set("continuing_subword_prefix") && !is_set("end_of_word_suffix");
  ASSIGN_OR_RETURN(PreTokenizers words, ReadPreTokenizers(root["pre_tokenizer"], reads_bytes));
  out.pre_tokenizers = std::move(words.stages);
  Digest digest;
  DigestBuffer buffer(&digest);
  std::ostream stream(&buffer);
  for (const char* key : {"normalizer", "pre_tokenizer", "model", "added_tokens"}) {
    const json& part = root[key].json();
    if (part.is_object() && key == absl::string_view("model")) {
      streams.DumpModel(part, stream);
    } else {
      stream << part;
    }
    stream << '\0';
  }
  stream.flush();
  const auto vocabulary = std::make_shared<Vocabulary>();
  vocabulary->writes_bytes = WritesBytes(root["normalizer"]) || WritesBytes(root["pre_tokenizer"]);
  RETURN_IF_ERROR(ReadModel(root["model"], streams, words.ends_in_bytes, vocabulary, &out));
  out.tokens = vocabulary->tokens;
  AddedTokenList added(*vocabulary);
  RETURN_IF_ERROR(ReadAddedTokens(root, &added, &out));
  RETURN_IF_ERROR(AddDeclaredTokens(declared, file, &added, &out, &digest));
  RETURN_IF_ERROR(NormalizeAddedTokens(file, &added, &out));
  out.digest = digest.value();
  ASSIGN_OR_RETURN(out.around, TokenTemplate::Read(root["post_processor"]));
  ASSIGN_OR_RETURN(out.decoder, TokenDecoder::Read(root["decoder"]));
  return out;
}

}  // namespace spillway
