// Tokens that the files beside a tokenizer.json declare, as transformers 5 reads them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/added_tokens.h"

namespace spillway {

struct DeclaredToken {
  // What becomes of a token that tokenizer.json has among its added_tokens already.
  enum class Known {
    kReplaced,  // it gets these rules
    kSpecial,   // it keeps its rules, and is special
    kKept,      // it stays as it is
  };
  AddedToken token;
  Known known = Known::kKept;
};

struct DeclaredTokens {
  // In the order in which they are added; ids follow from that order, whatever a file says.
  std::vector<DeclaredToken> tokens;
  // By their keys: "eos_token" -> "</s>".
  std::map<std::string, std::string> named;
  // add_prefix_space of tokenizer_config.json, where transformers' class applies it.
  std::optional<bool> add_prefix_space;
};

// Reads tokenizer_config.json: added_tokens_decoder, then the tokens with a name (bos_token,
// eos_token and so on), then extra_special_tokens or additional_special_tokens. Without an
// added_tokens_decoder it also reads special_tokens_map.json, whose entries replace those of the
// config, and added_tokens.json. Missing files declare nothing. kInvalidArgument, "FILE:LINE: ...",
// for what is no JSON or no token. Any thread.
absl::StatusOr<DeclaredTokens> ReadDeclaredTokens(absl::string_view directory);

}  // namespace spillway
