// Tokens declared by the files beside a tokenizer.json, as transformers 5 reads them.
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
  // The effect on a token that is already among tokenizer.json's added_tokens.
  enum class Known {
    kReplaced,  // these rules replace its own
    kSpecial,   // it keeps its rules and becomes special
    kKept,      // unchanged
  };
  AddedToken token;
  Known known = Known::kKept;
};

struct DeclaredTokens {
  // In the order of addition, which determines ids, whatever a file says.
  std::vector<DeclaredToken> tokens;
  // By key: "eos_token" -> "</s>".
  std::map<std::string, std::string> named;
  // add_prefix_space of tokenizer_config.json, if transformers' class applies it.
  std::optional<bool> add_prefix_space;
};

// Reads tokenizer_config.json: added_tokens_decoder, then named tokens (bos_token, eos_token and so
// on), then extra_special_tokens or additional_special_tokens. Without an added_tokens_decoder it
// also reads special_tokens_map.json, whose entries replace those of the config, and
// added_tokens.json. Missing files declare nothing. kInvalidArgument, "FILE:LINE: ...", for invalid
// JSON or tokens. Any thread.
absl::StatusOr<DeclaredTokens> ReadDeclaredTokens(absl::string_view directory);

}  // namespace spillway
