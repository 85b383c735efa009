// How several ranks, which are threads here, come to their first state: who reads what of the
// model's files, and what becomes of it.
#include <unistd.h>

#include <atomic>

#include "engine/numeric/optimizer_state.h"
#include "engine/ranks/shard_plan.h"
#include "engine/weights/master_weights.h"
#include "engine/weights/safetensors_model.h"
#include "engine/weights/safetensors_writer.h"
#include "gmock/gmock.h"
#include "tests/engine/ranks/thread_ranks.h"
#include "tests/engine/train/trainer_testing.h"

namespace spillway {
namespace {

using testing::HasSubstr;

// A model's files, and how much of them is read.
class CountedFiles : public WeightSource {
 public:
  explicit CountedFiles(WeightSource* files) : files_(files) {}
  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    read_elements_ += count;
    uint64_t most = most_at_once_;
    while (most < count && !most_at_once_.compare_exchange_weak(most, count)) {
    }
    return files_->Read(name, first, count, out);
  }
  uint64_t read_elements() const { return read_elements_; }
  uint64_t most_at_once() const { return most_at_once_; }

 private:
  WeightSource* const files_;
  std::atomic<uint64_t> read_elements_{0}, most_at_once_{0};
};

// Values that are not read from anywhere.
class MadeUp : public CountingWeights {
 public:
  bool reads_files() const override { return false; }
};

// What a rank tells of its start.
struct Started {
  uint64_t read_elements = 0, most_at_once = 0, sent_bytes = 0;
  absl::Status status;
};

class TrainerStartRanks : public TrainerTest {
 protected:
  struct Mode {
    Shard shard;
    int ranks;
    int group;
    DType dtype = DType::kFloat32;
    bool nvme = false;
  };

  // Units that 2, 3 and 4 ranks have about equal shares of.
  void SetUp() override {
    TrainerTest::SetUp();
    for (size_t i = 0; i < model_.units.size(); ++i) {
      model_.units[i].parameters[0].shape = {static_cast<int64_t>(390 + i), 61};
    }
    ASSERT_EQ(LayOutParameters(model_), absl::OkStatus());
  }

  static std::vector<Mode> Modes() {
    std::vector<Mode> modes;
    for (int ranks : {2, 3, 4}) {
      modes.push_back({Shard::kNone, ranks, 1, DType::kFloat32, ranks == 2});
      modes.push_back({Shard::kNone, ranks, 1, DType::kBFloat16, ranks == 3});
      modes.push_back({Shard::kOptimizer, ranks, ranks});
      modes.push_back({Shard::kFull, ranks, ranks, DType::kBFloat16});
      modes.push_back({Shard::kFull, ranks, ranks, DType::kFloat16, true});
    }
    modes.push_back({Shard::kHybrid, 4, 2});
    modes.push_back({Shard::kHybrid, 4, 2, DType::kFloat16, true});
    return modes;
  }

  TrainOptions OptionsOf(const Mode& mode) const {
    TrainOptions options = Options("run");
    options.shard = mode.shard;
    options.ranks = mode.ranks;
    options.shard_group_size = mode.group;
    options.dtype = mode.dtype;
    options.no_commit = true;
    options.io.kind = IoEngineOptions::Kind::kThreads;
    if (mode.nvme) {
      options.swap_paths = {folder_ + "/a"};
      options.offload_param = options.offload_optimizer = Offload::kNvme;
    }
    return options;
  }

  // A directory of the model's parameters, in bf16, whose values are CountingWeights'.
  std::string WriteModel(const std::string& name) {
    const std::string directory = folder_ + "/" + name;
    std::filesystem::create_directories(directory);
    std::vector<ExportTensor> tensors;
    for (const UnitDescription& unit : model_.units) {
      for (const ParameterDescription& parameter : unit.parameters) {
        tensors.push_back(
            {parameter.name, DType::kBFloat16, {parameter.shape.begin(), parameter.shape.end()}});
      }
    }
    auto writer = *SafetensorsWriter::Create(directory + "/model.safetensors", tensors);
    for (const UnitDescription& unit : model_.units) {
      for (const ParameterDescription& parameter : unit.parameters) {
        std::vector<float> values(parameter.elements);
        EXPECT_TRUE(CountingWeights().Read(parameter.name, 0, values.size(), values.data()).ok());
        EXPECT_TRUE(writer->AppendFp32(values.data(), values.size()).ok());
      }
    }
    EXPECT_TRUE(writer->Finish().ok());
    return directory;
  }

  // Starts a trainer on every rank. `weights`: of the rank.
  std::vector<Started> StartAll(const TrainOptions& options,
                                const std::vector<WeightSource*>& weights) {
    std::filesystem::remove_all(options.output);
    Conversations conversations(options.ranks, options.shard_group_size);
    StopSignal signals;
    std::vector<Started> started(options.ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < options.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        CountedFiles counted(weights[rank]);
        WeightSource* const source = weights[rank]->reads_files() ? &counted : weights[rank];
        Started& own = started[rank];
        TrainOptions of_rank = options;
        of_rank.rank = rank;
        own.status = StartOne(of_rank, conversations.Of(GridOf(of_rank)), source, own);
        own.read_elements = counted.read_elements();
        own.most_at_once = counted.most_at_once();
        // The others know otherwise.
        if (absl::IsUnavailable(own.status)) conversations.world.rank(rank)->Abort();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return started;
  }

 private:
  absl::Status StartOne(TrainOptions options, const RankGroups& groups, WeightSource* weights,
                        Started& own) {
    RunStorage::FirstRank first;
    first.output = options.output;
    options.output = RankOutput(options.output, options.rank);
    absl::StatusOr<std::unique_ptr<RunStorage>> storage = absl::UnknownError("");
    for (bool turn_of_first : {true, false}) {
      if (turn_of_first == (options.rank == 0)) {
        storage = RunStorage::Open(options, options.rank > 0 ? &first : nullptr);
      }
      const auto opened = AllGatherCount(*groups.world, 0);
      if (!opened.ok()) return opened.status();
    }
    if (!storage.ok()) return storage.status();
    StubCompute compute(model_, options.dtype);
    MemoryBudget device("device", options.device_memory_bytes);
    auto trainer =
        Trainer::Create({options, model_, storage->get(), &compute, &device, nullptr, groups});
    if (!trainer.ok()) return trainer.status();
    if (auto status = (*trainer)->Start(weights); !status.ok()) return status;
    if (groups.replicas != nullptr) own.sent_bytes = groups.replicas->sent_bytes();
    return CompareState(options, **trainer);
  }

  // This rank's shard is that of the values in the files; what no parameter has is zero.
  absl::Status CompareState(const TrainOptions& options, Trainer& trainer) const {
    const ShardGrid grid = GridOf(options);
    const int planes = options.dtype == DType::kFloat32 ? 1 : 2;
    return trainer.manager()->ReadState(0, planes, [&](const TileView& tile) -> absl::Status {
      const UnitDescription& unit = model_.units[tile.unit];
      std::vector<float> found(tile.parameters), expected(tile.parameters, 0);
      LoadMaster(WeightFormatOf(options.optimizer, options.dtype), tile.planes, 0, tile.parameters,
                 found.data());
      const uint64_t begin = grid.ShardBegin(unit.flat_parameters) + tile.first_parameter;
      for (const ParameterPiece& piece : PiecesOf(unit, begin, tile.parameters)) {
        float* const out = expected.data() + piece.offset;
        const absl::Status made = CountingWeights().Read(unit.parameters[piece.parameter].name,
                                                         piece.first_element, piece.count, out);
        if (!made.ok()) return made;
        for (uint64_t i = 0; rounded_ && i < piece.count; ++i) {
          out[i] = FloatFromBFloat16(BFloat16FromFloat(out[i]));
        }
      }
      if (found == expected) return absl::OkStatus();
      return absl::InternalError(absl::StrCat("unit ", tile.unit, " tile ", tile.tile, " differs"));
    });
  }

 protected:
  bool rounded_ = true;  // as the files are
};

TEST_F(TrainerStartRanks, AllReadTheFilesOnceTogether) {
  auto files = SafetensorsModel::Open(WriteModel("model"));
  ASSERT_TRUE(files.ok()) << files.status();
  for (const Mode& mode : Modes()) {
    SCOPED_TRACE(absl::StrCat("shard ", static_cast<int>(mode.shard), " ranks ", mode.ranks,
                              " dtype ", static_cast<int>(mode.dtype), " nvme ", mode.nvme));
    const std::vector<WeightSource*> all(mode.ranks, files->get());
    uint64_t read = 0, largest = 0;
    for (const Started& one : StartAll(OptionsOf(mode), all)) {
      EXPECT_EQ(one.status, absl::OkStatus());
      read += one.read_elements;
      largest = std::max(largest, one.read_elements);
      // Never a unit, let alone the model.
      EXPECT_LT(one.most_at_once, model_.parameter_count() / 4);
    }
    EXPECT_EQ(read, model_.parameter_count());
    // Units end in padding.
    EXPECT_LT(largest, 1.1 * model_.parameter_count() / mode.ranks);
  }
}

TEST_F(TrainerStartRanks, WhatIsNotReadIsNotSent) {
  rounded_ = false;
  MadeUp values;
  for (const Mode& mode : Modes()) {
    for (const Started& one :
         StartAll(OptionsOf(mode), std::vector<WeightSource*>(mode.ranks, &values))) {
      EXPECT_EQ(one.status, absl::OkStatus());
      EXPECT_EQ(one.sent_bytes, 0u);
    }
  }
}

// The files as rank `bad` sees them have become shorter.
TEST_F(TrainerStartRanks, AFileThatOneRankCannotReadEndsAll) {
  const std::string directory = WriteModel("model");
  auto good = SafetensorsModel::Open(directory);
  ASSERT_TRUE(good.ok()) << good.status();
  int turn = 0;
  for (const Mode& mode : Modes()) {
    const int bad = turn++ % mode.ranks;
    SCOPED_TRACE(
        absl::StrCat("shard ", static_cast<int>(mode.shard), " ranks ", mode.ranks, " bad ", bad));
    const std::string cut = absl::StrCat(folder_, "/cut-", turn);
    std::filesystem::copy(directory, cut);
    auto files = SafetensorsModel::Open(cut);
    ASSERT_TRUE(files.ok()) << files.status();
    // Whichever part is its own: nothing is left but some of the first unit's.
    const std::string path = (*files)->files()[0]->path();
    ASSERT_EQ(truncate(path.c_str(), 8 << 10), 0);
    std::vector<WeightSource*> all(mode.ranks, good->get());
    all[bad] = files->get();
    const std::vector<Started> started = StartAll(OptionsOf(mode), all);
    for (int rank = 0; rank < mode.ranks; ++rank) {
      const std::string said(started[rank].status.message());
      EXPECT_EQ(started[rank].status.code(), absl::StatusCode::kDataLoss) << said;
      EXPECT_THAT(said, HasSubstr(path));
      EXPECT_THAT(said, HasSubstr("become shorter"));
      EXPECT_EQ(IsBecauseOfAnother(started[rank].status), rank != bad) << said;
      if (rank == bad) continue;
      EXPECT_THAT(said, HasSubstr(absl::StrCat("because of rank ", bad, ": ")));
    }
    // Ranks that were faster have begun nothing that stays.
    if (mode.nvme) {
      EXPECT_FALSE(std::filesystem::exists(folder_ + "/run"));
    }
  }
}

// A disk's failure is this rank's own, and not taken for other ranks' silence.
class BrokenDisk : public WeightSource {
 public:
  absl::Status Read(const std::string&, uint64_t, uint64_t, float*) override {
    return absl::UnavailableError("read /model: the storage device failed");
  }
};

TEST_F(TrainerStartRanks, ADiskThatFailsIsNamed) {
  CountingWeights good;
  BrokenDisk bad;
  for (int ranks : {2, 3}) {
    std::vector<WeightSource*> all(ranks, &good);
    all.back() = &bad;
    const std::vector<Started> started = StartAll(OptionsOf({Shard::kNone, ranks, 1}), all);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_FALSE(absl::IsUnavailable(started[rank].status)) << started[rank].status;
      EXPECT_THAT(std::string(started[rank].status.message()), HasSubstr("device failed"));
      EXPECT_EQ(IsBecauseOfAnother(started[rank].status), rank != ranks - 1);
    }
  }
}

}  // namespace
}  // namespace spillway
