#include "swap/mover/mover_thread.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"
#include "io/base/mutex.h"

namespace spillway {
namespace {

// An engine without transfers: Poll only waits to be woken.
class WakeOnly final : public IoEngine {
 public:
  void Submit(IoRequest*) override {}
  size_t Poll(absl::Duration) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (!woken_) {
      if (changed_.WaitUntil(mutex_, deadline)) continue;
      ++waits_for_nothing_;
      break;
    }
    woken_ = false;
    return 0;
  }
  void Wake() override {
    MutexLock lock(mutex_);
    woken_ = true;
    changed_.NotifyAll();
  }
  size_t pending() const override { return 0; }
  absl::string_view name() const override { return "wake only"; }
  IoStats stats() const override { return {}; }
  int waits_for_nothing() const { return waits_for_nothing_; }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool woken_ = false;
  std::atomic<int> waits_for_nothing_{0};
};

// A mover all of whose callers wait until it fails.
class MoverThreadTest : public testing::Test {
 protected:
  MoverThreadTest() : thread_(&engine_) {
    thread_.Start(
        [this] {
          const bool goes_on = thread_.RunPosted();
          if (thread_.failed() && waiter_) std::exchange(waiter_, nullptr)(thread_.error());
          if (goes_on) engine_.Poll(absl::InfiniteDuration());
          return goes_on;
        },
        /*threaded=*/true);
  }
  ~MoverThreadTest() override { thread_.Stop(); }

  WakeOnly engine_;
  MoverThread::Done waiter_;  // the mover's
  MoverThread thread_;
};

TEST_F(MoverThreadTest, AFailureOnAnyThreadReachesWhoeverWaits) {
  std::thread other;
  const absl::Status status = thread_.Call([&](MoverThread::Done done) {
    waiter_ = done;
    other = std::thread([this] {
      // When the mover has come to rest.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      thread_.Fail(absl::DataLossError("first"));
      thread_.Fail(absl::DataLossError("second"));
    });
  });
  other.join();
  EXPECT_EQ(status, absl::DataLossError("first"));
  EXPECT_EQ(engine_.waits_for_nothing(), 0);
  // It stays, and later tasks are not even begun.
  EXPECT_EQ(thread_.Call([](MoverThread::Done) { FAIL(); }), status);
}

TEST_F(MoverThreadTest, TasksRunInOrderOfPosting) {
  std::string order;
  thread_.Post([&] { order += 'a'; });
  thread_.Post([&] { order += 'b'; });
  EXPECT_EQ(thread_.Call([&](MoverThread::Done done) {
    order += 'c';
    done(absl::OkStatus());
  }),
            absl::OkStatus());
  EXPECT_EQ(order, "abc");
}

}  // namespace
}  // namespace spillway
