#include "engine/tokenizers/token_decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/base/stop_signal.h"
#include "engine/base/utf8_repair.h"
#include "engine/tokenizers/byte_alphabet.h"
#include "engine/tokenizers/normalizers.h"
#include "engine/tokenizers/rewrite_stage.h"
#include "io/base/status.h"

namespace spillway {
namespace {

std::string Repaired(absl::string_view bytes) {
  Utf8Repair repair;
  std::string text(repair.Next(bytes));
  return absl::StrCat(text, repair.Finish());
}

// Joins consecutive bytes: to text if all of them are valid, else to one U+FFFD each.
void JoinBytes(std::vector<std::string>* tokens) {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    const bool valid = ValidUtf8Prefix(bytes) == bytes.size();
    if (!bytes.empty() && valid) out.push_back(bytes);
    for (size_t i = 0; i < bytes.size() && !valid; ++i) out.push_back("\xef\xbf\xbd");
    bytes.clear();
  };
  for (std::string& token : *tokens) {
    if (const std::optional<char> byte = FallbackByte(token)) {
      bytes += *byte;
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  *tokens = std::move(out);
}

void JoinWordPieces(absl::string_view prefix, bool cleanup, std::vector<std::string>* tokens) {
  for (size_t i = 0; i < tokens->size(); ++i) {
    std::string& token = (*tokens)[i];
    if (i > 0) {
      absl::string_view rest = token;
      const bool continues = absl::ConsumePrefix(&rest, prefix);
      token = absl::StrCat(continues ? "" : " ", rest);
    }
    if (!cleanup) continue;
    for (const auto& [from, to] :
         std::initializer_list<std::pair<const char*, const char*>>{{" .", "."},
                                                                    {" ?", "?"},
                                                                    {" !", "!"},
                                                                    {" ,", ","},
                                                                    {" ' ", "'"},
                                                                    {" n't", "n't"},
                                                                    {" 'm", "'m"},
                                                                    {" do not", " don't"},
                                                                    {" 's", "'s"},
                                                                    {" 've", "'ve"},
                                                                    {" 're", "'re"}}) {
      absl::StrReplaceAll({{from, to}}, &token);
    }
  }
}

// Strips up to `start` copies of `content` from the start, up to `stop` from the end.
void StripEnds(absl::string_view content, uint32_t start, uint32_t stop, std::string* token) {
  absl::string_view rest = *token;
  while (start > 0 && absl::ConsumePrefix(&rest, content)) --start;
  while (stop > 0 && absl::ConsumeSuffix(&rest, content)) --stop;
  *token = std::string(rest);
}

}  // namespace

std::optional<char> FallbackByte(absl::string_view token) {
  uint32_t byte = 0;
  if (token.size() != 6 || !absl::StartsWith(token, "<0x") || token[5] != '>' ||
      !absl::ascii_isxdigit(token[3]) || !absl::ascii_isxdigit(token[4]) ||
      !absl::SimpleHexAtoi(token.substr(3, 2), &byte)) {
    return std::nullopt;
  }
  return static_cast<char>(byte);
}

absl::StatusOr<TokenDecoder> TokenDecoder::Read(const JsonPart& decoder) {
  TokenDecoder out;
  out.joins_with_spaces_ = decoder.is_null();
  out.byte_level_ = decoder.Type() == "ByteLevel";
  if (!decoder.is_null()) RETURN_IF_ERROR(out.Add(decoder));
  return out;
}

absl::StatusOr<std::string> TokenDecoder::Decode(std::vector<std::string> tokens) const {
  uint64_t given_bytes = 0;
  for (const std::string& token : tokens) given_bytes += token.size();
  for (const Step& step : steps_) {
    RETURN_IF_ERROR(StopSignal::Check());
    RETURN_IF_ERROR(step(&tokens, given_bytes));
  }
  return absl::StrJoin(tokens, joins_with_spaces_ ? " " : "");
}

absl::Status TokenDecoder::Add(const JsonPart& part) {
  const std::string type = part.Type();
  using Tokens = std::vector<std::string>;
  const auto add = [&](auto step) {
    steps_.push_back([step](Tokens* tokens, uint64_t) {
      step(tokens);
      return absl::OkStatus();
    });
    return absl::OkStatus();
  };
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const std::vector<JsonPart> parts, part.Elements("decoders"));
    for (const JsonPart& inner : parts) {
      RETURN_IF_ERROR(Add(inner));
      if (steps_.size() > kMostTextStages) return inner.TooMany("decoders", kMostTextStages);
    }
    return absl::OkStatus();
  }
  if (type == "ByteLevel") {
    return add([](Tokens* tokens) {
      std::string bytes;
      for (const std::string& token : *tokens) bytes += FromByteAlphabet(token).value_or(token);
      *tokens = {Repaired(bytes)};
    });
  }
  if (type == "Metaspace") {
    RETURN_IF_ERROR(
        part.Only({"replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}));
    ASSIGN_OR_RETURN(const std::string replacement, part.String("replacement"));
    ASSIGN_OR_RETURN(const bool prefix, part.Bool("add_prefix_space", true));
    ASSIGN_OR_RETURN(const std::string scheme,
                     part.String("prepend_scheme", prefix ? "always" : "never"));
    if (replacement.empty()) return part["replacement"].Broken("empty");
    return add([replacement, prefixed = scheme != "never"](Tokens* tokens) {
      for (size_t i = 0; i < tokens->size(); ++i) {
        absl::StrReplaceAll({{replacement, i == 0 && prefixed ? "" : " "}}, &(*tokens)[i]);
      }
    });
  }
  if (type == "WordPiece") {
    RETURN_IF_ERROR(part.Only({"prefix", "cleanup"}));
    ASSIGN_OR_RETURN(const std::string prefix, part.String("prefix", "##"));
    ASSIGN_OR_RETURN(const bool cleanup, part.Bool("cleanup", true));
    return add([prefix, cleanup](Tokens* tokens) { JoinWordPieces(prefix, cleanup, tokens); });
  }
  if (type == "BPEDecoder") {
    RETURN_IF_ERROR(part.Only({"suffix"}));
    ASSIGN_OR_RETURN(const std::string suffix, part.String("suffix", "</w>"));
    if (suffix.empty()) return part["suffix"].Broken("empty");
    return add([suffix](Tokens* tokens) {
      for (std::string& token : *tokens) {
        absl::StrReplaceAll({{suffix, &token == &tokens->back() ? "" : " "}}, &token);
      }
    });
  }
  if (type == "Strip") {
    RETURN_IF_ERROR(part.Only({"content", "start", "stop"}));
    ASSIGN_OR_RETURN(const std::string content, part.String("content"));
    ASSIGN_OR_RETURN(const uint32_t start, part.Number("start"));
    ASSIGN_OR_RETURN(const uint32_t stop, part.Number("stop"));
    if (content.empty()) return part["content"].Broken("empty");
    return add([=](Tokens* tokens) {
      for (std::string& token : *tokens) StripEnds(content, start, stop, &token);
    });
  }
  if (type == "Replace") {
    ASSIGN_OR_RETURN(const Rewrite rewrite, ReadReplace(part));
    steps_.push_back([rewrite](Tokens* tokens, uint64_t given_bytes) -> absl::Status {
      uint64_t made_bytes = 0;
      for (std::string& token : *tokens) {
        ASSIGN_OR_RETURN(token, RewriteAll({rewrite}, std::move(token)));
        made_bytes += token.size();
        RETURN_IF_ERROR(CheckTextGrowth(given_bytes, made_bytes));
      }
      return absl::OkStatus();
    });
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(part.Only({}));
  if (type == "ByteFallback") return add(JoinBytes);
  if (type == "Fuse") return add([](Tokens* tokens) { *tokens = {absl::StrJoin(*tokens, "")}; });
  return part.UnsupportedType();
}

}  // namespace spillway
