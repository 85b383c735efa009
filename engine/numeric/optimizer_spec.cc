#include "engine/numeric/optimizer_spec.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/enum_name.h"

namespace spillway {
namespace {

using OptimizerKind = OptimizerSpec::Kind;

absl::Status RequireRange(absl::string_view field, double value, double low, double high_exclusive,
                          absl::string_view range) {
  if (value >= low && value < high_exclusive) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("optimizer: %s is %g; it must be %s", field, value, range));
}

}  // namespace

bool OptimizerSpec::SecondMoments::MoveIn(int64_t step) const {
  if (step > last_step) return false;
  if (moves_per_doubling == 0) return true;
  // The updates of the current interval end with step `end`.
  int64_t interval = 1, end = 0;
  while (true) {
    const int64_t last = end / interval * interval + interval * moves_per_doubling;
    if (step <= last) return step % interval == 0;
    end = last;
    interval *= 2;
  }
}

std::string OptimizerName(OptimizerKind kind) {
  return std::string(EnumName(kind, {"adamw", "adam", "sgd", "lion", "lamb", "adafactor"}));
}

std::string MomentFormatName(MomentFormat moments) {
  return std::string(EnumName(moments, {"fp32", "bf16", "8bit", "fp8"}));
}

std::string MastersName(OptimizerSpec::Masters masters) {
  return std::string(EnumName(masters, {"exact", "24bit", "none"}));
}

absl::Status ValidateOptimizer(const OptimizerSpec& spec) {
  constexpr double kHuge = 1e31;  // beyond the limits of flags and files
  absl::Status status;
  status.Update(RequireRange("learning_rate", spec.learning_rate, 0, kHuge, "0 or more"));
  status.Update(RequireRange("beta1", spec.beta1, 0, 1, "in [0, 1)"));
  status.Update(RequireRange("beta2", spec.beta2, 0, 1, "in [0, 1)"));
  if (spec.kind != OptimizerKind::kSgd && spec.kind != OptimizerKind::kLion) {
    status.Update(RequireRange(
        "eps", spec.eps, kLeastEps, kHuge,
        "above 0 (1e-37 or more), or a parameter without a gradient becomes 0/0; 1e-8 is usual"));
  }
  status.Update(RequireRange("weight_decay", spec.weight_decay, 0,
                             std::nextafter(kMostWeightDecay, kHuge), "from 0 to 1e6"));
  status.Update(RequireRange("momentum", spec.momentum, 0, kHuge, "0 or more"));
  status.Update(RequireRange("dampening", spec.dampening, 0, kHuge, "0 or more"));
  status.Update(RequireRange("least_trust_ratio", spec.least_trust_ratio, 0, kHuge, "0 or more"));
  status.Update(RequireRange("most_trust_ratio", spec.most_trust_ratio, spec.least_trust_ratio,
                             kHuge, "at least least_trust_ratio"));
  status.Update(RequireRange("decay_rate", spec.decay_rate, 0, 1, "in [0, 1)"));
  status.Update(RequireRange("clip_threshold", spec.clip_threshold, kLeastEps, kHuge, "above 0"));
  if (spec.nesterov && (spec.momentum <= 0 || spec.dampening != 0)) {
    status.Update(absl::InvalidArgumentError(
        "optimizer: nesterov needs a momentum above 0 and a dampening of 0"));
  }
  return status;
}

absl::Status CheckMasters(const OptimizerSpec& spec, DType dtype) {
  using Masters = OptimizerSpec::Masters;
  if (spec.masters == Masters::kExact || dtype == DType::kBFloat16) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--master ", MastersName(spec.masters),
      dtype == DType::kFloat32
          ? ": weights in fp32 are their own masters; leave it out, or train in bf16 (--dtype bf16)"
      : spec.masters == Masters::kNone
          ? ": fp16 is too narrow to be trained without masters; use --dtype bf16"
          : ": such a master completes a weight in bf16; use --dtype bf16"));
}

}  // namespace spillway
