#include "engine/torch/agent_store.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "io/base/clock.h"
#include "io/base/status.h"
#include "torch/csrc/distributed/c10d/TCPStore.hpp"

namespace spillway {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{20};

std::string AgentKey(const Launch& launch) {
  return absl::StrCat("spillway/", launch.job_id, "/", launch.restart, "/rank 0");
}

// Stores the value if it is not empty and there is none; waits for a value and returns the stored
// one.
absl::StatusOr<std::string> ValueInAgentStore(const Launch& launch, const std::string& value,
                                              double deadline) {
  const auto left = [deadline] {
    return milliseconds(static_cast<int64_t>(1000 * std::max(1.0, deadline - MonotonicSeconds())));
  };
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(launch.master_port);
    options.waitWorkers = false;
    options.useLibUV = false;
    options.timeout = left();
    auto store = c10::make_intrusive<c10d::TCPStore>(launch.master_address, options);
    const std::string key = AgentKey(launch);
    if (!value.empty()) return store->c10d::Store::compareSet(key, "", value);
    while (!store->check({key})) {
      if (MonotonicSeconds() >= deadline) {
        return absl::UnavailableError(
            "rank 0 has not told torchrun's agent where it listens: look at its output, and "
            "whether it runs (or give it longer: --collective-timeout)");
      }
      std::this_thread::sleep_for(kLook);
    }
    return store->get_to_str(key);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return absl::UnavailableError(absl::StrCat(
        "rank ", launch.rank, " does not reach the store of torchrun's agent at ",
        launch.master_address, ":", launch.master_port, " (", text.substr(0, text.find('\n')),
        "): may this machine connect to it (MASTER_ADDR, MASTER_PORT, --collective-timeout)?"));
  }
}

absl::StatusOr<std::string> ValueUnlessInterrupted(const Launch& launch, const std::string& value,
                                                   const RankWait& wait) {
  std::packaged_task<absl::StatusOr<std::string>()> task([launch, value, deadline = wait.deadline] {
    return ValueInAgentStore(launch, value, deadline);
  });
  std::future<absl::StatusOr<std::string>> told = task.get_future();
  std::thread(std::move(task)).detach();
  while (told.wait_for(kLook) != std::future_status::ready) RETURN_IF_ERROR(wait.interrupted());
  return told.get();
}

}  // namespace

absl::Status TellRankZeroPlace(const Launch& launch, const RankZeroPlace& place,
                               const RankWait& wait) {
  const std::string value = absl::StrCat(place.port, " ", place.host);
  ASSIGN_OR_RETURN(const std::string there, ValueUnlessInterrupted(launch, value, wait));
  if (there == value) return absl::OkStatus();
  return absl::AlreadyExistsError(
      "rank 0 is there already: it was started twice in this attempt of torchrun's job");
}

absl::StatusOr<RankZeroPlace> AskRankZeroPlace(const Launch& launch, const RankWait& wait) {
  ASSIGN_OR_RETURN(const std::string value, ValueUnlessInterrupted(launch, "", wait));
  const std::vector<std::string> words = absl::StrSplit(value, ' ');
  RankZeroPlace place;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &place.port) || place.port < 1 ||
      place.port > 65535 || words[1].size() > 255) {
    return absl::UnavailableError(absl::StrCat("what the store of torchrun's agent at ",
                                               launch.master_address, ":", launch.master_port,
                                               " has in rank 0's place is no address"));
  }
  place.host = words[1];
  return place;
}

}  // namespace spillway
