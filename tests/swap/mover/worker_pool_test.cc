#include "swap/mover/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace spillway {
namespace {

TEST(WorkerPoolTest, JobsRunInOrderAfterThoseThatAreNeededFirst) {
  std::mutex mutex;
  std::condition_variable changed;
  bool begun = false, go_on = false;
  std::vector<int> ran;
  {
    WorkerPool pool(1);
    pool.Run([&] {
      std::unique_lock lock(mutex);
      begun = true;
      changed.notify_all();
      changed.wait(lock, [&] { return go_on; });
    });
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return begun; });
    }
    pool.Run([&] { ran.push_back(1); });
    pool.Run([&] { ran.push_back(2); });
    pool.RunFirst(8, [&] { ran.push_back(3); });
    pool.RunFirst(9, [&] { ran.push_back(4); });
    pool.RunFirst(8, [&] { ran.push_back(5); });
    pool.RunFirst(7, [&] { ran.push_back(6); });
    std::lock_guard lock(mutex);
    go_on = true;
    changed.notify_all();
  }
  EXPECT_THAT(ran, testing::ElementsAre(6, 3, 5, 4, 1, 2));
}

TEST(WorkerPoolTest, TheEndWaitsForAllJobs) {
  std::atomic<int> ran = 0;
  {
    WorkerPool pool(3);
    for (int i = 0; i < 100; ++i) pool.Run([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(WorkerPoolDeathTest, JobsNeedAThread) { EXPECT_DEATH(WorkerPool(0), "threads > 0"); }

}  // namespace
}  // namespace spillway
