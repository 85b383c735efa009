#include "engine/ranks/rank_guest.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

void RankGuest::Expect(Stage stage, size_t bytes) {
  stage_ = stage;
  wanted_ = bytes;
  // The header of a request is kept in front of its body.
  if (stage != Stage::kBody) in_.clear();
}

absl::Status RankGuest::Take(absl::string_view bytes, std::string* out) {
  SPILLWAY_CHECK(bytes.size() <= wanted());
  absl::StrAppend(&in_, bytes);
  while (wanted_ > 0 && wanted() == 0) RETURN_IF_ERROR(TakeWhole(out));
  return absl::OkStatus();
}

absl::Status RankGuest::TakeWhole(std::string* out) {
  switch (stage_) {
    case Stage::kHello:
      if (!IsHello(in_)) return absl::InvalidArgumentError("no rank's hello");
      caller_hello_ = in_;
      listener_hello_ = MakeHello();
      *out += listener_hello_;
      Expect(Stage::kProof, kProofBytes);
      return absl::OkStatus();
    case Stage::kProof: {
      Admission admission = CheckProof(identity_, caller_hello_, listener_hello_, in_, &caller_);
      if (admission == Admission::kAdmitted) admission = admit_(caller_);
      *out += MakeAnswer(identity_, caller_hello_, listener_hello_, in_, admission);
      if (admission != Admission::kAdmitted) {
        Expect(Stage::kRefused, 0);
      } else if (caller_.conversation == kStoreConversation) {
        Expect(Stage::kHeader, kStoreRequestHeader);
      } else {
        Expect(Stage::kPair, 0);
      }
      return absl::OkStatus();
    }
    case Stage::kHeader: {
      ASSIGN_OR_RETURN(const size_t body, StoreRequestBody(in_));
      Expect(Stage::kBody, kStoreRequestHeader + body);
      return absl::OkStatus();
    }
    case Stage::kBody:
      *out += AnswerStoreRequest(in_, *store_);
      Expect(Stage::kHeader, kStoreRequestHeader);
      return absl::OkStatus();
    case Stage::kPair:
    case Stage::kRefused:
      break;
  }
  return absl::InternalError("nothing is expected of this connection");
}

}  // namespace spillway
