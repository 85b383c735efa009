#include "engine/ranks/socket_ranks.h"

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <future>
#include <random>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace spillway {
namespace {

// Ranks that are threads of this process, with sockets between each two all the same.
void OnRanks(int size, double timeout_seconds,
             const std::function<void(std::unique_ptr<Collectives> ranks)>& run) {
  std::vector<std::vector<UniqueFd>> sockets(size);
  for (auto& row : sockets) row.resize(size);
  for (int one = 0; one < size; ++one) {
    for (int other = 0; other < one; ++other) {
      int ends[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      sockets[one][other] = UniqueFd(ends[0]);
      sockets[other][one] = UniqueFd(ends[1]);
    }
  }
  ConversationOptions options;
  options.name = "test";
  for (int member = 0; member < size; ++member) options.members.push_back(member);
  options.timeout_seconds = timeout_seconds;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    options.rank = rank;
    threads.emplace_back(
        [&run, ranks = MakeSocketRanks(options, std::move(sockets[rank]))]() mutable {
          run(std::move(ranks));
        });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<char> MessagePart(int from, int to, int round, uint64_t bytes) {
  std::vector<char> part(bytes);
  for (uint64_t i = 0; i < bytes; ++i) {
    part[i] = static_cast<char>((i + round) * 7 + from * 31 + to * 3);
  }
  return part;
}

TEST(SocketRanks, EveryPartComesToItsPlace) {
  for (int size : {2, 3, 4}) {
    OnRanks(size, 60, [size](std::unique_ptr<Collectives> ranks) {
      std::mt19937 random(size);  // the same on every rank
      uint64_t sent = 0;
      for (int round = 0; round < 20; ++round) {
        const uint64_t bytes = 1 + random() % (round == 5 ? 3'000'000 : 5000);
        std::vector<std::vector<char>> out(size), in(size, std::vector<char>(bytes));
        std::vector<const char*> send;
        std::vector<char*> receive;
        for (int peer = 0; peer < size; ++peer) {
          out[peer] = MessagePart(ranks->rank(), peer, round, bytes);
          send.push_back(out[peer].data());
          receive.push_back(in[peer].data());
        }
        ASSERT_EQ(ranks->Exchange(send, receive, bytes), absl::OkStatus());
        for (int peer = 0; peer < size; ++peer) {
          ASSERT_TRUE(in[peer] == MessagePart(peer, ranks->rank(), round, bytes)) << peer;
        }
        sent += bytes * (size - 1);
        EXPECT_EQ(ranks->sent_bytes(), sent);
      }
    });
  }
}

TEST(SocketRanks, MessagesArriveInOrder) {
  OnRanks(3, 60, [](std::unique_ptr<Collectives> ranks) {
    for (int i = 0; i < 50; ++i) {
      const uint64_t bytes = 1 + i * 37;
      if (ranks->rank() > 0) {
        const std::vector<char> data(bytes, static_cast<char>(i + ranks->rank()));
        ASSERT_EQ(ranks->Send(0, data.data(), bytes), absl::OkStatus());
        continue;
      }
      for (int from : {1, 2}) {
        std::vector<char> data(bytes);
        ASSERT_EQ(ranks->Receive(from, data.data(), bytes), absl::OkStatus());
        EXPECT_EQ(data, std::vector<char>(bytes, static_cast<char>(i + from)));
      }
    }
  });
}

TEST(SocketRanks, ARankThatLeavesIsNamed) {
  OnRanks(3, 60, [](std::unique_ptr<Collectives> ranks) {
    ASSERT_TRUE(AllGatherCount(*ranks, 0).ok());
    if (ranks->rank() == 1) return;  // closes its connections
    // Those that are left may see each other leave for it.
    const absl::Status status = AllGatherCount(*ranks, 0).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_NE(status.message().find("rank "), absl::string_view::npos);
  });
}

TEST(SocketRanks, ARankThatHangsIsNamedInTime) {
  const auto began = std::chrono::steady_clock::now();
  std::promise<void> noticed;
  OnRanks(2, 0.3, [&](std::unique_ptr<Collectives> ranks) {
    if (ranks->rank() == 1) {
      noticed.get_future().wait_for(std::chrono::seconds(60));
      return;
    }
    const absl::Status status = AllGatherCount(*ranks, 0).status();
    noticed.set_value();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_NE(status.message().find("rank 1 has not answered"), absl::string_view::npos) << status;
    EXPECT_NE(status.message().find("--collective-timeout"), absl::string_view::npos);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

TEST(SocketRanks, AbortEndsWhatIsUnderWay) {
  OnRanks(2, 60, [](std::unique_ptr<Collectives> ranks) {
    if (ranks->rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return;
    }
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ranks->Abort();
    });
    EXPECT_TRUE(absl::IsCancelled(AllGatherCount(*ranks, 0).status()));
    other.join();
    EXPECT_TRUE(absl::IsCancelled(AllGatherCount(*ranks, 0).status()));
  });
}

TEST(SocketRanks, WhatFailedOnceFailsFromThenOn) {
  OnRanks(2, 60, [](std::unique_ptr<Collectives> ranks) {
    if (ranks->rank() == 1) return;
    char byte = 0;
    const absl::Status first = ranks->Receive(1, &byte, 1);
    EXPECT_TRUE(absl::IsUnavailable(first)) << first;
    EXPECT_EQ(ranks->Send(1, &byte, 1), first);
    EXPECT_EQ(AllGatherCount(*ranks, 0).status(), first);
  });
}

TEST(SocketRanks, WhatARankSentBeforeItLeftArrives) {
  OnRanks(2, 60, [](std::unique_ptr<Collectives> ranks) {
    std::vector<char> data(100'000, 7);
    if (ranks->rank() == 1) {
      EXPECT_EQ(ranks->Send(0, data.data(), data.size()), absl::OkStatus());
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::vector<char> got(data.size());
    ASSERT_EQ(ranks->Receive(1, got.data(), got.size()), absl::OkStatus());
    EXPECT_EQ(got, data);
    EXPECT_TRUE(absl::IsUnavailable(ranks->Receive(1, got.data(), 1)));
  });
}

}  // namespace
}  // namespace spillway
