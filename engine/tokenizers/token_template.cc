#include "engine/tokenizers/token_template.h"

#include <algorithm>
#include <utility>

#include "io/base/status.h"

namespace spillway {

absl::StatusOr<TokenTemplate> TokenTemplate::Read(const JsonPart& part) {
  TokenTemplate out;
  const std::string type = part.Type();
  if (part.is_null() || type == "ByteLevel") return out;
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const std::vector<JsonPart> parts, part.Elements("processors"));
    bool found = false;
    for (const JsonPart& inner : parts) {
      if (inner.Type() == "ByteLevel") continue;  // affects offsets only
      if (std::exchange(found, true)) return inner.Unsupported("a second processor");
      ASSIGN_OR_RETURN(out, Read(inner));
    }
    return out;
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    RETURN_IF_ERROR(out.ReadBertOrRoberta(part, type == "RobertaProcessing"));
    return out;
  }
  if (type != "TemplateProcessing") return part.UnsupportedType();
  ASSIGN_OR_RETURN(out.single_, ReadPieces(part, "single"));
  ASSIGN_OR_RETURN(out.pair_, ReadPieces(part, "pair"));
  return out;
}

absl::StatusOr<TokenTemplate::Pieces> TokenTemplate::ReadPieces(const JsonPart& part,
                                                                const char* key) {
  Pieces pieces;
  ASSIGN_OR_RETURN(const std::vector<JsonPart> elements, part.Elements(key));
  for (const JsonPart& element : elements) {
    const bool is_text = !element["Sequence"].is_null();
    const JsonPart named = element[is_text ? "Sequence" : "SpecialToken"];
    ASSIGN_OR_RETURN(const std::string id, named.String("id"));
    ASSIGN_OR_RETURN(const uint32_t type, named.Number("type_id"));
    Piece piece;
    piece.type = type;
    if (is_text) {
      piece.sequence = id == "A" ? 0 : 1;
      if (id != "A" && (id != "B" || absl::string_view(key) == "single")) {
        return named["id"].Broken("no text of that name");
      }
    } else {
      ASSIGN_OR_RETURN(const std::vector<JsonPart> ids, part["special_tokens"][id].Elements("ids"));
      for (const JsonPart& token : ids) {
        ASSIGN_OR_RETURN(const uint32_t number, token.Number());
        piece.tokens.push_back(number);
      }
      if (ids.empty()) return named["id"].Broken("not among special_tokens");
    }
    pieces.push_back(std::move(piece));
  }
  if (std::none_of(pieces.begin(), pieces.end(), [](const Piece& p) { return p.sequence == 0; })) {
    return part[key].Broken("the text A is not in it");
  }
  return pieces;
}

// Reads ["</s>", 2].
absl::Status TokenTemplate::ReadBertOrRoberta(const JsonPart& part, bool roberta) {
  std::vector<int64_t> ends[2];
  for (const bool last : {false, true}) {
    const char* key = last ? "sep" : "cls";
    ASSIGN_OR_RETURN(const std::vector<JsonPart> token, part.Elements(key));
    if (token.size() != 2) return part[key].Broken("not a token and its id");
    ASSIGN_OR_RETURN(const uint32_t number, token[1].Number());
    ends[last].push_back(number);
  }
  const Piece cls{-1, 0, ends[0]}, sep{-1, 0, ends[1]};
  single_ = {cls, {0, 0, {}}, sep};
  pair_ = single_;
  if (roberta) pair_.push_back(sep);
  pair_.push_back({1, roberta ? 0 : 1, {}});
  pair_.push_back({-1, roberta ? 0 : 1, ends[1]});
  return absl::OkStatus();
}

EncodedText TokenTemplate::Apply(absl::Span<const int64_t> text,
                                 std::optional<absl::Span<const int64_t>> second) const {
  EncodedText out;
  for (const Piece& piece : second ? pair_ : single_) {
    const absl::Span<const int64_t> tokens = piece.sequence == 0   ? text
                                             : piece.sequence == 1 ? second.value_or(text)
                                                                   : piece.tokens;
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
    out.types.resize(out.tokens.size(), piece.type);
    out.sources.resize(out.tokens.size(), static_cast<int8_t>(piece.sequence));
  }
  return out;
}

}  // namespace spillway
