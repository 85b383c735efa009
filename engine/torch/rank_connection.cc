#include "engine/torch/rank_connection.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "c10/util/Logging.h"
#include "engine/base/stop_signal.h"
#include "engine/machine/process_setup.h"
#include "engine/ranks/first_failure.h"
#include "engine/ranks/socket_ranks.h"
#include "engine/torch/rank_meeting.h"
#include "engine/torch/rank_store_view.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"

namespace spillway {
namespace {

class Connection : public RankConnection {
 public:
  explicit Connection(const ConnectOptions& options)
      : options_(options), meeting_(options.launch, options.timeout_seconds) {}

  absl::Status Meet() { return meeting_.Meet(); }

  // Call after all ranks have come.
  absl::Status Connect() {
    const ShardGrid& grid = options_.grid;
    std::vector<int> world(grid.size);
    std::iota(world.begin(), world.end(), 0);
    ASSIGN_OR_RETURN(world_, Talk("world", world));
    // Compared before the conversations whose members depend on it.
    RETURN_IF_ERROR(CompareIdentities());
    ASSIGN_OR_RETURN(commits_, Talk("commits", world));
    if (grid.group > 1) {
      ASSIGN_OR_RETURN(group_, Talk(GroupName(), Group()));
    }
    if (grid.replicas() > 1) {
      ASSIGN_OR_RETURN(replicas_, Talk(ReplicasName(), Replicas()));
    }
    meeting_.EndConnecting();
    return absl::OkStatus();
  }

  absl::StatusOr<OnGpu> ConnectGpus(CudaSupport& cuda, const ComputePlace& place) override {
    OnGpu gpus;
    const auto somebody_failed = [this] { return SomebodyFailed(meeting_.store()); };
    const auto view = c10::make_intrusive<RankStoreView>(
        &meeting_.store(),
        std::chrono::milliseconds(static_cast<int64_t>(options_.timeout_seconds * 1000)));
    // A rank without a GPU conversation by now would block the others there.
    RETURN_IF_ERROR(AllGatherCount(*world_, 0).status());
    if (group_) {
      ASSIGN_OR_RETURN(gpus.group,
                       cuda.Connect(view, Options(GroupName(), Group()), place, somebody_failed));
    }
    if (replicas_) {
      ASSIGN_OR_RETURN(gpus.replicas, cuda.Connect(view, Options(ReplicasName(), Replicas()), place,
                                                   somebody_failed));
    }
    return gpus;
  }

  RankGroups groups() override {
    return {.world = world_.get(),
            .group = group_.get(),
            .replicas = replicas_.get(),
            .host_replicas = replicas_.get(),
            .commits = commits_.get()};
  }

  uint64_t sent_bytes() const override {
    uint64_t bytes = 0;
    for (const auto* talk : {&world_, &group_, &replicas_, &commits_}) {
      if (*talk) bytes += (*talk)->sent_bytes();
    }
    return bytes;
  }

  absl::Status FirstFailure(const absl::Status& own) override {
    if (IsBecauseOfAnother(own)) return own;  // the other rank reports it
    return meeting_.FirstFailure(own);
  }

  absl::Status Close() override {
    RETURN_IF_ERROR(AllGatherCount(*world_, 0).status());
    return meeting_.Leave();
  }

 private:
  std::string GroupName() const { return absl::StrCat("group", options_.grid.replica()); }
  std::vector<int> Group() const {
    std::vector<int> members(options_.grid.group);
    std::iota(members.begin(), members.end(), options_.grid.replica() * options_.grid.group);
    return members;
  }
  std::string ReplicasName() const { return absl::StrCat("replicas", options_.grid.shard()); }
  std::vector<int> Replicas() const {
    std::vector<int> members;
    for (int rank = options_.grid.shard(); rank < options_.grid.size; rank += options_.grid.group) {
      members.push_back(rank);
    }
    return members;
  }

  ConversationOptions Options(const std::string& name, const std::vector<int>& members) const {
    return {name, members, options_.launch.rank, options_.timeout_seconds};
  }

  absl::StatusOr<std::unique_ptr<Collectives>> Talk(const std::string& name,
                                                    const std::vector<int>& members) {
    ASSIGN_OR_RETURN(std::vector<UniqueFd> sockets, meeting_.ConnectMembers(name, members));
    return MakeSocketRanks(Options(name, members), std::move(sockets));
  }

  absl::Status CompareIdentities() {
    ASSIGN_OR_RETURN(const std::string first, FromFirstRank(*world_, options_.identity));
    absl::Status same;
    if (first != options_.identity) {
      const std::vector<std::string> theirs = absl::StrSplit(first, '\n');
      const std::vector<std::string> ours = absl::StrSplit(options_.identity, '\n');
      size_t line = 0;
      while (line < theirs.size() && line < ours.size() && theirs[line] == ours[line]) ++line;
      same = absl::InvalidArgumentError(
          absl::StrCat("rank ", options_.launch.rank, " was started otherwise than rank 0: here ",
                       line < ours.size() ? ours[line] : "nothing", ", there ",
                       line < theirs.size() ? theirs[line] : "nothing",
                       "; give all ranks the same program, config and flags"));
    }
    return Agree(*world_, same);
  }

  const ConnectOptions options_;
  RankMeeting meeting_;
  std::unique_ptr<Collectives> world_, group_, replicas_, commits_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankConnection>> RankConnection::Open(
    const ConnectOptions& options) {
  // c10d warns of what users cannot change (hosts without names), and its errors are reported here.
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  c10::initLogging();
  FailWritesToNobody();
  auto connection = std::make_unique<Connection>(options);
  RETURN_IF_ERROR(connection->Meet());
  if (const absl::Status connected = connection->Connect(); !connected.ok()) {
    if (StopSignal::received() != 0) return StopSignal::Check();
    return SeesOthersGone(connected) ? connection->FirstFailure(connected) : connected;
  }
  return std::unique_ptr<RankConnection>(std::move(connection));
}

}  // namespace spillway
