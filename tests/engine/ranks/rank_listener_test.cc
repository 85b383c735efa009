#include "engine/ranks/rank_listener.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/ranks/rank_call.h"
#include "engine/ranks/socket_ranks.h"
#include "gtest/gtest.h"
#include "io/base/clock.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr char kListenerSecret[] = "a secret of sixteen or more";

RankWait RankSoon(double seconds = 30) { return {.deadline = MonotonicSeconds() + seconds}; }

// A listener of rank 0 of three, with a table, and those that call it.
class RankListenerTest : public testing::Test {
 protected:
  void Open(RankListenerOptions options) {
    options.identity = {kListenerSecret, "job", 3};
    options.store = &table_;
    const auto own = ResolveRankHost("127.0.0.1", 0, RankSoon());
    ASSERT_TRUE(own.ok());
    int error = 0;
    auto socket = BindRankSocket(own->front(), &error);
    ASSERT_TRUE(socket.ok()) << error;
    auto listener = RankListener::Open(options, *std::move(socket));
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  void SetUp() override { Open({}); }

  RankCallOptions CallOptions(int rank, const std::string& conversation) const {
    RankCallOptions options;
    options.identity = {kListenerSecret, "job", 3};
    options.caller = {rank, conversation};
    options.host = "127.0.0.1";
    options.port = listener_->address().port();
    return options;
  }
  absl::StatusOr<UniqueFd> Call(int rank, const std::string& conversation = kStoreConversation) {
    return CallRank(CallOptions(rank, conversation), RankSoon());
  }
  // A program that is no rank.
  UniqueFd Stranger() {
    int error = 0;
    auto socket = ConnectRankSocket(listener_->address(), RankSoon(), &error);
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }
  // Whether the listener closes it; what it sends before is dropped.
  static bool IsClosed(const UniqueFd& fd, double seconds = 30) {
    const RankWait wait = RankSoon(seconds);
    while (true) {
      const auto byte = ReceiveFromRank(fd.get(), 1, wait);
      if (!byte.ok()) return absl::IsUnavailable(byte.status());
    }
  }
  // The table answers a rank: the listener lives.
  void ExpectAnswers(int rank) {
    auto connection = Call(rank);
    ASSERT_TRUE(connection.ok()) << connection.status();
    RemoteRankStore store(*std::move(connection), 30);
    const auto asked = store.Add("asked", 1);
    ASSERT_TRUE(asked.ok()) << asked.status();
    EXPECT_EQ(*asked, *table_.Add("asked", 0));
  }

  RankTable table_;
  std::unique_ptr<RankListener> listener_;
};

TEST_F(RankListenerTest, RanksAskForTheTable) {
  auto connection = Call(1);
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_TRUE(listener_->IsPresent(1));
  RemoteRankStore store(*std::move(connection), 30);
  EXPECT_EQ(*store.Get("a"), std::nullopt);
  ASSERT_TRUE(store.Set("a", std::string(kMostStoreValueBytes, 'x')).ok());
  EXPECT_EQ((*store.Get("a"))->size(), kMostStoreValueBytes);
  EXPECT_EQ(*store.SetIfAbsent("b", "1"), "1");
  EXPECT_EQ(**table_.Get("b"), "1");
  EXPECT_EQ(*store.Add("b", 2), 3);
  EXPECT_TRUE(*store.Erase("b"));
  EXPECT_TRUE(absl::IsInvalidArgument(store.Add("a", 1).status()));
  EXPECT_EQ(*store.Get("b"), std::nullopt);  // an answer is no broken connection
  listener_.reset();
  EXPECT_TRUE(absl::IsUnavailable(store.Get("a").status()));
  EXPECT_TRUE(absl::IsUnavailable(store.Set("a", "")));
}

TEST_F(RankListenerTest, PairsConverse) {
  std::thread caller([&] {
    auto socket = Call(2, "world");
    ASSERT_TRUE(socket.ok()) << socket.status();
    std::vector<UniqueFd> sockets(2);
    sockets[0] = *std::move(socket);
    auto ranks = MakeSocketRanks({"world", {0, 2}, 2, 30}, std::move(sockets));
    EXPECT_EQ(*AllGatherCount(*ranks, 22), (std::vector<int64_t>{11, 22}));
  });
  auto socket = listener_->Take("world", 2, RankSoon());
  ASSERT_TRUE(socket.ok()) << socket.status();
  std::vector<UniqueFd> sockets(2);
  sockets[1] = *std::move(socket);
  auto ranks = MakeSocketRanks({"world", {0, 2}, 0, 30}, std::move(sockets));
  EXPECT_EQ(*AllGatherCount(*ranks, 11), (std::vector<int64_t>{11, 22}));
  caller.join();
  // A rank that does not call is waited for as long as asked.
  EXPECT_TRUE(absl::IsDeadlineExceeded(listener_->Take("world", 1, RankSoon(0.01)).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(Call(2, "world").status()));
  listener_->EndPairs();
  EXPECT_TRUE(absl::IsUnavailable(CallRank(CallOptions(1, "world"), RankSoon(0.3)).status()));
}

TEST_F(RankListenerTest, ARankThatIsThereIsNotLetInAgain) {
  auto first = Call(1);
  ASSERT_TRUE(first.ok());
  for (const bool begun : {false, true}) {
    if (begun) listener_->Begin();
    const absl::Status again = Call(1).status();
    EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
    EXPECT_NE(std::string(again.message()).find("rank 1 is there already"), std::string::npos);
    EXPECT_TRUE(absl::IsAlreadyExists(Call(0).status()));  // the listener itself
  }
  // The first one is undisturbed.
  RemoteRankStore store(*std::move(first), 30);
  EXPECT_TRUE(store.Set("a", "b").ok());
}

TEST_F(RankListenerTest, ARankThatLeftMayComeAgainBeforeTheRunBegins) {
  {
    auto first = Call(1);
    ASSERT_TRUE(first.ok());
  }
  while (listener_->IsPresent(1)) std::this_thread::yield();
  auto second = Call(1);
  ASSERT_TRUE(second.ok()) << second.status();
  listener_->Begin();
  second = absl::UnknownError("closed");
  while (listener_->IsPresent(1)) std::this_thread::yield();
  const absl::Status late = CallRank(CallOptions(1, kStoreConversation), RankSoon(0.3)).status();
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_NE(std::string(late.message()).find("has begun without this rank"), std::string::npos);
}

TEST_F(RankListenerTest, WhoDoesNotKnowTheSecretIsTold) {
  RankCallOptions options = CallOptions(1, kStoreConversation);
  for (const std::string& secret : {std::string(), std::string("another secret, as long")}) {
    options.identity.secret = secret;
    const absl::Status status = CallRank(options, RankSoon()).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_NE(std::string(status.message()).find("SPILLWAY_SECRET"), std::string::npos);
    EXPECT_EQ(std::string(status.message()).find(kListenerSecret), std::string::npos);
  }
  options = CallOptions(1, kStoreConversation);
  options.identity.world = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(CallRank(options, RankSoon()).status()));
  options = CallOptions(1, kStoreConversation);
  options.identity.job = "another";  // which may be an earlier attempt: it is waited for
  EXPECT_TRUE(absl::IsUnavailable(CallRank(options, RankSoon(0.3)).status()));
  ExpectAnswers(1);
}

TEST_F(RankListenerTest, AProgramThatIsNoRankIsPassedOver) {
  const std::string hello = MakeHello();
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n\r\n" + std::string(100, ' ')), std::string(1 << 20, '\xff'),
        hello + std::string(kProofBytes, '\0'),
        // LibTorch's store: hello and a key of three bytes with a value of 3 GiB.
        std::string("\x3c\x85\xf7\xce\x06\x04\x03\0\0\0\0\0\0\0key\0\0\0\xc0\0\0\0\0", 25) +
            hello}) {
    const UniqueFd stranger = Stranger();
    (void)SendToRank(stranger.get(), text, RankSoon());
    EXPECT_TRUE(IsClosed(stranger));
  }
  const UniqueFd rank_number = Stranger();  // a caller that knows all but the secret
  ASSERT_TRUE(SendToRank(rank_number.get(), hello, RankSoon()).ok());
  const auto theirs = ReceiveFromRank(rank_number.get(), kHelloBytes, RankSoon());
  ASSERT_TRUE(theirs.ok());
  ASSERT_TRUE(SendToRank(rank_number.get(),
                         MakeProof({"", "job", 3}, hello, *theirs, {1, kStoreConversation}),
                         RankSoon())
                  .ok());
  const auto answer = ReceiveFromRank(rank_number.get(), kAnswerBytes, RankSoon());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ((*answer)[0], static_cast<char>(Admission::kOtherSecret));
  EXPECT_TRUE(IsClosed(rank_number));
  EXPECT_FALSE(listener_->IsPresent(1));
  ExpectAnswers(1);
}

// A rank that knows the secret cannot make the table's rank keep gigabytes, either.
TEST_F(RankListenerTest, ALengthBeyondItsBoundClosesTheConnection) {
  auto connection = Call(1);
  ASSERT_TRUE(connection.ok());
  ASSERT_TRUE(
      SendToRank(connection->get(), std::string("\0\0\0\0\x03\0\0\0\0\0\0\xc0key", 15), RankSoon())
          .ok());
  EXPECT_TRUE(IsClosed(*connection));
  while (listener_->IsPresent(1)) std::this_thread::yield();
  ExpectAnswers(1);
}

TEST_F(RankListenerTest, IdleConnectionsGoWhereOthersCome) {
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 4 * kMostRankStrangers; ++i) idle.push_back(Stranger());
  ExpectAnswers(1);
  int open = 0;
  for (const UniqueFd& fd : idle) open += !IsClosed(fd, 0.01);
  EXPECT_LE(open, kMostRankStrangers);
  EXPECT_GT(open, 0);
}

TEST_F(RankListenerTest, WhoDoesNotProveItselfInTimeIsClosed) {
  RankListenerOptions options;
  options.stranger_seconds = 0.3;
  Open(options);
  const UniqueFd silent = Stranger(), half = Stranger(), hello = Stranger();
  ASSERT_TRUE(SendToRank(half.get(), MakeHello().substr(0, 20), RankSoon()).ok());
  ASSERT_TRUE(SendToRank(hello.get(), MakeHello(), RankSoon()).ok());
  for (const UniqueFd* fd : {&silent, &half, &hello}) EXPECT_TRUE(IsClosed(*fd));
  // Those that have may be silent for as long as they want.
  auto rank = Call(1);
  ASSERT_TRUE(rank.ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  RemoteRankStore store(*std::move(rank), 30);
  EXPECT_TRUE(store.Set("a", "b").ok());
}

TEST_F(RankListenerTest, WithoutDescriptorsNewcomersWait) {
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 8; ++i) strangers.push_back(Stranger());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  // Of the caller: a rank's first attempt has its descriptor before the listener has none.
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  none.rlim_cur = static_cast<rlim_t>(socket.get()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const RankAddress to = listener_->address();
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(to.bytes.data()),
                    static_cast<socklen_t>(to.bytes.size())),
            0);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ExpectAnswers(1);
}

TEST_F(RankListenerTest, ACallerLooksAtWhatStopsIt) {
  RankCallOptions options = CallOptions(1, kStoreConversation);
  // Nobody answers: a socket that listens and accepts none.
  int error = 0;
  const auto silent = BindRankSocket(listener_->address().WithPort(0), &error);
  ASSERT_TRUE(silent.ok());
  ASSERT_EQ(listen(silent->get(), 8), 0);
  for (const int port : {OwnRankAddress(silent->get()).port(), 1}) {
    options.port = port;
    int looks = 0;
    RankWait wait = RankSoon(600);
    wait.interrupted = [&looks] {
      return ++looks < 3 ? absl::OkStatus() : absl::CancelledError("a signal");
    };
    EXPECT_TRUE(absl::IsCancelled(CallRank(options, wait).status())) << port;
  }
  options.host = "nowhere.invalid";
  const absl::Status unknown = CallRank(options, RankSoon(0.05)).status();
  EXPECT_TRUE(absl::IsUnavailable(unknown) || absl::IsDeadlineExceeded(unknown)) << unknown;
}

TEST_F(RankListenerTest, AListenerThatKnowsNoSecretIsNoRank) {
  RankListenerOptions options;
  options.identity = {"what an attacker thinks of", "job", 3};
  options.store = &table_;
  int error = 0;
  auto socket = BindRankSocket(listener_->address().WithPort(0), &error);
  ASSERT_TRUE(socket.ok());
  const auto attacker = RankListener::Open(options, *std::move(socket));
  ASSERT_TRUE(attacker.ok());
  RankCallOptions call = CallOptions(1, kStoreConversation);
  call.port = (*attacker)->address().port();
  EXPECT_TRUE(absl::IsPermissionDenied(CallRank(call, RankSoon()).status()));
  EXPECT_FALSE((*attacker)->IsPresent(1));
}

}  // namespace
}  // namespace spillway
