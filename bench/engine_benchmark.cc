// The engine's own arithmetic and its readers of text: no LibTorch, one thread.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/data/char_tokenizer.h"
#include "engine/data/load_tokenizer.h"
#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/moment_code.h"
#include "engine/numeric/optimizer.h"
#include "engine/numeric/random.h"
#include "engine/numeric/simd_dispatch.h"
#include "engine/numeric/update_loops.h"
#include "engine/ranks/gradient_sums.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {
namespace {

constexpr uint64_t kParameters = 256 * 1024;  // of a tile
constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr SimdTarget kTargets[] = {SimdTarget::kBaseline, SimdTarget::kAvx2, SimdTarget::kAvx512};

// The planes of one tile, zero: no loop's time depends on its values.
struct Tile {
  UpdatePlanes Planes() {
    return {.weight = weight.data(),
            .residual = residual.data(),
            .master = master.data(),
            .moment1 = moment1.data(),
            .moment2 = moment2.data(),
            .gradient = gradient.data(),
            .count = kParameters,
            .scales1 = scales1.data(),
            .scales2 = scales2.data()};
  }
  std::vector<float> weight = std::vector<float>(kParameters);
  std::vector<uint16_t> residual = std::vector<uint16_t>(kParameters);
  std::vector<float> master = weight, moment1 = weight, moment2 = weight, gradient = weight;
  std::vector<float> scales1 = std::vector<float>(kParameters / kMomentBlock, 1), scales2 = scales1;
};

// Read and written of a parameter by AdamW.
double AdamBytes(WeightFormat weights, MomentFormat moments) {
  const double own = weights == WeightFormat::kBFloat16Alone  ? 2
                     : weights == WeightFormat::kBFloat16Byte ? 3
                     : weights == WeightFormat::kFloat16      ? 6
                                                              : 4;
  const double both = moments == MomentFormat::kFloat32    ? 8
                      : moments == MomentFormat::kBFloat16 ? 4
                      : moments == MomentFormat::kFloat8   ? 3 + 8.0 / kMomentBlock
                                                           : 2 + 8.0 / kMomentBlock;
  return 2 * (own + both) + DTypeBytes(DTypeOf(weights));
}

void AdamW(benchmark::State& state, SimdTarget target, WeightFormat weights, MomentFormat moments) {
  SetSimdTargetForTest(target);
  Tile tile;
  const UpdateConstants same = {1, 0.999f, 0, 0.1f, 0.999f, 0.001f, 1, 1e-8f, -1e-4f, 0, 1};
  const UpdateConstants constants[2] = {same, same};
  const std::vector<UpdatePiece> whole = {{0, kParameters, true}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        UpdateParameters({weights, UpdateRule::kAdamW, moments}, tile.Planes(), whole, constants));
  }
  ResetSimdTargetForTest();
  state.SetItemsProcessed(state.iterations() * kParameters);
  state.SetBytesProcessed(static_cast<int64_t>(static_cast<double>(state.iterations()) *
                                               kParameters * AdamBytes(weights, moments)));
}

void Round(benchmark::State& state, SimdTarget target, DType dtype) {
  SetSimdTargetForTest(target);
  Tile tile;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        RoundGradient(dtype, tile.gradient.data(), tile.weight.data(), kParameters));
  }
  ResetSimdTargetForTest();
  state.SetItemsProcessed(state.iterations() * kParameters);
  state.SetBytesProcessed(state.iterations() * kParameters * (4 + DTypeBytes(dtype)));
}

void Accumulate(benchmark::State& state, SimdTarget target, DType dtype) {
  SetSimdTargetForTest(target);
  Tile tile;
  for (auto _ : state) {
    AccumulateGradient(dtype, tile.gradient.data(), kParameters, tile.weight.data(), false);
    benchmark::ClobberMemory();
  }
  ResetSimdTargetForTest();
  state.SetItemsProcessed(state.iterations() * kParameters);
  state.SetBytesProcessed(state.iterations() * kParameters * (8 + DTypeBytes(dtype)));
}

// Other ranks that answer at once, and send what is in the memory already.
class SilentRanks final : public Collectives {
 public:
  explicit SilentRanks(int size) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  absl::Status Exchange(absl::Span<const char* const>, absl::Span<char* const>, uint64_t) override {
    return absl::OkStatus();
  }
  absl::Status Send(int, const char*, uint64_t) override { return absl::OkStatus(); }
  absl::Status Receive(int, char*, uint64_t) override { return absl::OkStatus(); }
  uint64_t sent_bytes() const override { return 0; }
  void Abort() override {}

 private:
  const int size_;
};

// What one rank adds up of a unit, its exchange apart. An item is a parameter of one rank's sums.
void OrderedSum(benchmark::State& state, ExchangeFormat format) {
  const int ranks = static_cast<int>(state.range(0));
  GradientSumOptions options;
  options.grid = {ranks, ranks, 0};
  options.format = format;
  SilentRanks group(ranks);
  std::vector<char> memory(GradientSums::MemoryBytes(options));
  GradientSums sums(options, &group, nullptr, nullptr, ExchangeStream(), memory.data());
  const uint64_t shard = 1 << 20;
  const std::vector<float> unit(shard * ranks);
  std::vector<float> out(shard);
  for (auto _ : state) {
    if (!sums.Sum(0, unit.data(), shard, out.data()).ok()) state.SkipWithError("the sum failed");
  }
  state.SetItemsProcessed(state.iterations() * shard * ranks);
  state.SetBytesProcessed(state.iterations() * shard * ranks * sizeof(float));
}
BENCHMARK_CAPTURE(OrderedSum, fp32, ExchangeFormat::kFloat32)->Arg(2)->Arg(8)->ArgName("ranks");
BENCHMARK_CAPTURE(OrderedSum, bf16, ExchangeFormat::kBFloat16)->Arg(2)->Arg(8)->ArgName("ranks");
BENCHMARK_CAPTURE(OrderedSum, fp8, ExchangeFormat::kFloat8)->Arg(2)->Arg(8)->ArgName("ranks");

// A mebibyte of words as prose has them: common ones often, some capitals, marks and numbers.
const std::string& Text() {
  static const std::string text = [] {
    const char* const words[] = {"the",    "of",        "and", "which", "memory", "is",
                                 "to",     "step",      "in",  "unit",  "state",  "every",
                                 "weight", "caf\u00e9", "it",  "layer"};
    std::mt19937 random(1);
    std::string text;
    while (text.size() < (1 << 20)) {
      const uint32_t draw = random();
      std::string word = words[(draw % 16) * (draw / 16 % 16) / 16];
      if (draw % 29 == 0) word = absl::StrCat(draw % 2000);
      if (draw % 17 == 0) word[0] = static_cast<char>(word[0] & ~0x20);
      absl::StrAppend(&text, word, draw % 13 == 0 ? ".\n" : draw % 11 == 0 ? ", " : " ");
    }
    return text;
  }();
  return text;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& kind) {
  if (kind == "bytes") return NewByteTokenizer();
  if (kind == "bpe") return LoadTokenizer(SPILLWAY_SOURCE_DIR "/tests/golden/tokenizers/gpt2");
  char directory[] = "/tmp/spillway-benchmark.XXXXXX";
  if (mkdtemp(directory) == nullptr) return absl::UnavailableError("no room in /tmp");
  const std::string file = absl::StrCat(directory, "/text.txt");
  std::ofstream(file) << Text();
  auto tokenizer = NewCharTokenizer({file});
  std::filesystem::remove_all(directory);
  return tokenizer;
}

void Encode(benchmark::State& state, const std::string& kind) {
  const auto tokenizer = OpenTokenizer(kind);
  if (!tokenizer.ok()) {
    return state.SkipWithError(std::string(tokenizer.status().message()).c_str());
  }
  const auto encoder = (*tokenizer)->NewEncoder("text");
  std::vector<uint32_t> tokens;
  for (auto _ : state) {
    tokens.clear();
    if (!encoder->Encode(Text(), &tokens).ok() || !encoder->Finish(&tokens).ok()) {
      return state.SkipWithError("the text was refused");
    }
  }
  state.SetBytesProcessed(state.iterations() * Text().size());
  state.counters["tokens_per_byte"] = static_cast<double>(tokens.size()) / Text().size();
}
BENCHMARK_CAPTURE(Encode, bytes, "bytes")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Encode, chars, "chars")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Encode, bpe, "bpe")->Unit(benchmark::kMillisecond);

void Normal(benchmark::State& state, SimdTarget target) {
  SetSimdTargetForTest(target);
  std::vector<float> values(kParameters);
  for (auto _ : state) {
    FillNormal(42, 1, 0, kParameters, 0, 0.02, values.data());
    benchmark::ClobberMemory();
  }
  ResetSimdTargetForTest();
  state.SetItemsProcessed(state.iterations() * kParameters);
}

// The loops, for every instruction set that the processor has.
void RegisterLoops() {
  for (const SimdTarget target : kTargets) {
    if (!SimdTargetSupported(target)) continue;
    for (const auto& [kept, format] : {std::pair{"fp32", WeightFormat::kFloat32},
                                       {"bf16", WeightFormat::kBFloat16},
                                       {"bf16 and 8 bits", WeightFormat::kBFloat16Byte},
                                       {"fp16", WeightFormat::kFloat16},
                                       {"bf16 alone", WeightFormat::kBFloat16Alone}}) {
      for (const MomentFormat moments : {MomentFormat::kFloat32, MomentFormat::kBFloat16,
                                         MomentFormat::kEightBit, MomentFormat::kFloat8}) {
        benchmark::RegisterBenchmark(absl::StrCat("AdamW/", SimdTargetName(target), "/", kept, "/",
                                                  MomentFormatName(moments))
                                         .c_str(),
                                     AdamW, target, format, moments);
      }
    }
    const std::string own = absl::StrCat("Normal/", SimdTargetName(target));
    benchmark::RegisterBenchmark(own.c_str(), Normal, target);
    for (const DType dtype : kDTypes) {
      const std::string name = absl::StrCat("/", SimdTargetName(target), "/", DTypeName(dtype));
      benchmark::RegisterBenchmark(("Round" + name).c_str(), Round, target, dtype);
      benchmark::RegisterBenchmark(("Accumulate" + name).c_str(), Accumulate, target, dtype);
    }
  }
}
[[maybe_unused]] const bool registered = (RegisterLoops(), true);

}  // namespace
}  // namespace spillway
