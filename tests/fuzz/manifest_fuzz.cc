// The manifest of a commit: as it is, and as the body below a header that is right, since no
// mutation would find a checksum. What is accepted can be written and read again.

#include "absl/strings/str_cat.h"
#include "io/checksum.h"
#include "swap/store/manifest.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {
namespace {

bool Decode(absl::string_view text) {
  const auto manifest = DecodeManifest(text, "f");
  if (!manifest.ok()) {
    return Refuse(manifest.status(),
                  {absl::StatusCode::kDataLoss, absl::StatusCode::kInvalidArgument});
  }
  const auto encoded = EncodeManifest(*manifest);
  SPILLWAY_CHECK(encoded.ok());
  const auto again = DecodeManifest(*encoded, "f");
  SPILLWAY_CHECK(again.ok() && *again == *manifest);
  return true;
}

}  // namespace

SPILLWAY_FUZZ(manifest, 4000) {
  const bool as_it_is = Decode(input);
  const uint64_t checksum = Checksum(input.data(), input.size());
  return Decode(absl::StrCat("spillway-manifest 1 ", absl::Hex(checksum, absl::kZeroPad16), " ",
                             input.size(), "\n", input)) ||
         as_it_is;
}

}  // namespace spillway
