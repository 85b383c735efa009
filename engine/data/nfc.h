// Unicode's canonical composition (NFC), of a text that comes in pieces.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/data/text_stage.h"

namespace spillway {

// What NFC needs to know of every character, besides utf8proc's own tables. Any thread.
class NfcTable {
 public:
  // Takes a few milliseconds.
  NfcTable();

  // Nothing before this character can change it or be changed by it.
  bool IsBoundary(uint32_t code_point) const { return Get(boundary_, code_point); }
  // Alone it stays what it is.
  bool IsStable(uint32_t code_point) const { return Get(stable_, code_point); }

 private:
  // Beyond it (planes 4 and up) nothing composes or decomposes.
  static constexpr uint32_t kLimit = 0x40000;
  static bool Get(const std::vector<bool>& bits, uint32_t code_point) {
    return code_point >= kLimit || bits[code_point];
  }
  std::vector<bool> boundary_, stable_;
};

// A whole text. REQUIRES: valid UTF-8.
std::string NormalizeNfc(const NfcTable& table, absl::string_view text);

// Normalises each segment by itself.
class NfcStage : public TextStage {
 public:
  NfcStage(const NfcTable* table, TextStage* next) : table_(table), next_(next) {}

  absl::Status Text(absl::string_view piece) override;
  absl::Status EndSegment() override;
  absl::Status Token(uint32_t token) override { return next_->Token(token); }
  void Reset() override;

 private:
  const NfcTable* const table_;
  TextStage* const next_;
  std::string held_;  // from the last boundary on
  std::string out_;
};

}  // namespace spillway
