// The manifest of a commit: as it is, and as the body below a header that is right, since no
// mutation would find a checksum. What is accepted can be written and read again.
#include <string>

#include "absl/strings/str_cat.h"
#include "io/checksum.h"
#include "swap/store/manifest.h"
#include "tests/fuzz/fuzzing.h"

namespace {

using namespace spillway;

void Decode(absl::string_view text) {
  const auto manifest = DecodeManifest(text, "f");
  if (!manifest.ok()) {
    Expect(manifest.status(), {absl::StatusCode::kDataLoss, absl::StatusCode::kInvalidArgument});
    return;
  }
  const auto encoded = EncodeManifest(*manifest);
  SPILLWAY_CHECK(encoded.ok());
  const auto again = DecodeManifest(*encoded, "f");
  SPILLWAY_CHECK(again.ok() && *again == *manifest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view body = Text(data, size);
  Decode(body);
  const uint64_t checksum = Checksum(body.data(), body.size());
  Decode(absl::StrCat("spillway-manifest 1 ", absl::Hex(checksum, absl::kZeroPad16), " ", size,
                      "\n", body));
  return 0;
}
