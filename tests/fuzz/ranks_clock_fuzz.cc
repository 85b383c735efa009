// What the first rank says to the others before a run: its clock, and times of compute.
#include <cmath>
#include <cstring>

#include "engine/estimate/rank_probe.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {
namespace {

// The second of two ranks, of which the first one says `text`.
class SecondOfTwo final : public Collectives {
 public:
  explicit SecondOfTwo(absl::string_view text) : text_(text) {}
  int rank() const override { return 1; }
  int size() const override { return 2; }
  absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                        uint64_t bytes) override {
    if (send[1] != receive[1]) std::memcpy(receive[1], send[1], bytes);
    const int64_t length = static_cast<int64_t>(text_.size());
    const bool asks_length = !length_said_;
    length_said_ = true;
    SPILLWAY_CHECK(asks_length ? bytes == sizeof(length) : bytes >= text_.size());
    std::memset(receive[0], 0, bytes);
    std::memcpy(receive[0], asks_length ? reinterpret_cast<const char*>(&length) : text_.data(),
                asks_length ? sizeof(length) : text_.size());
    return absl::OkStatus();
  }
  absl::Status Send(int, const char*, uint64_t) override { return absl::OkStatus(); }
  absl::Status Receive(int, char*, uint64_t) override { return absl::OkStatus(); }
  uint64_t sent_bytes() const override { return 0; }
  void Abort() override {}

 private:
  const absl::string_view text_;
  bool length_said_ = false;
};

}  // namespace

SPILLWAY_FUZZ(ranks_clock, 5000) {
  SecondOfTwo ranks(input);
  std::optional<StepClock> clock = StepClock();
  DryRun dry_run;
  dry_run.forward_seconds = {1, 2};
  dry_run.backward_seconds = {3, 4};
  const absl::Status taken = TakeFirstRanksClock(ranks, clock, dry_run);
  if (!taken.ok()) return Refuse(taken, {absl::StatusCode::kInternal});
  SPILLWAY_CHECK(dry_run.forward_seconds.size() == 2 && dry_run.backward_seconds.size() == 2);
  for (const double seconds : dry_run.forward_seconds) SPILLWAY_CHECK(std::isfinite(seconds));
  if (clock) SPILLWAY_CHECK(std::isfinite(clock->workers));
  return true;
}

}  // namespace spillway
