// A disk in memory that can lose its power: what a read sees, and beside it what is sure
// to be there after a crash.
//
// Of a file, the bytes since its last Sync are kept by a crash or not, block by block
// (4096 bytes), some of them in part; so is its length. Of a directory, each name that
// has changed since its last sync keeps its old meaning or its new one; both names of a rename the
// same of the two, which is one change in every journal. A file without a name is gone, and what is
// in a directory without one. That is what POSIX leaves open, and no filesystem does worse.
//
// Faults strike here too (tests/sim/sim_faults.h). After Crash every call of the processes that
// died fails until Boot, so what is left of them unwinds without touching anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/sim/sim_faults.h"
#include "tests/sim/sim_world.h"

namespace spillway {

inline constexpr uint64_t kSimBlockBytes = 4096;
inline constexpr uint64_t kSimSectorBytes = 512;
inline constexpr int kMostProcesses = 8;

// A file's contents, with or without a name; or a directory.
struct SimInode {
  uint64_t number = 0;
  bool directory = false;
  const void* lock = nullptr;  // whoever has it
  uint64_t slowness = 1;       // of the drive that it is on
  std::vector<char> data;      // what a read sees
  std::vector<char> durable;   // of blocks that are not dirty the same
  std::vector<bool> dirty;     // [block] written since the last sync
  // Contents of dirty blocks between the durable one and the present one, some of them.
  std::vector<std::pair<uint64_t, std::vector<char>>> between;
};

class SimDisk {
 public:
  explicit SimDisk(SimWorld& world);

  SimWorld& world() { return world_; }
  SimFaults& faults() { return faults_; }
  uint32_t alignment_bytes() const { return alignment_bytes_; }

  // --- Life and death of the program.
  enum class CrashKind { kKill, kPowerLoss };
  enum class CrashAt { kAny, kCalls, kRenames };  // also transfers; no transfers; renames and syncs
  // Crashes at the n-th of these operations of `process` from now, of renames and syncs only those
  // in or below the directory `below`. A kill is of that process alone.
  void ArmCrash(CrashKind kind, uint64_t operations, CrashAt at, int process = 0,
                absl::string_view below = "");
  // Whether the caller's process is dead; whether any is.
  bool crashed() const { return dead(world_.process()); }
  bool dead(int process) const { return dead_[process]; }
  bool any_crashed() const { return std::find(dead_.begin(), dead_.end(), true) != dead_.end(); }
  CrashKind crash_kind() const { return crash_kind_; }
  // Loses what a crash may lose, at once. REQUIRES: no transfer in flight.
  void LosePower();
  // Lets calls through again, with no crash armed. REQUIRES: nothing open.
  void Boot();

  // --- What a call costs. False when the program is dead: the call fails with EIO.
  // The crash may come right after the call took effect, too: AfterCall.
  // `names`: what a rename makes, or the directory that is synced; empty: it is neither.
  bool BeforeCall(absl::string_view names = "");
  bool AfterCall(absl::string_view names = "");

  // --- Names. Paths are absolute.
  // One that has always been there.
  void AddDirectory(absl::string_view path);
  bool ParentIsThere(absl::string_view path) const;
  std::shared_ptr<SimInode> Find(absl::string_view path) const;
  void SetName(absl::string_view path, std::shared_ptr<SimInode> inode);  // null: removes it
  void Rename(absl::string_view from, absl::string_view to);
  // A new file of this name.
  std::shared_ptr<SimInode> Create(absl::string_view path, bool directory = false);
  void SyncDirectory(absl::string_view directory);
  // Of all files, sorted; and of what a directory has in it, those of both kinds.
  std::vector<std::string> Names() const;
  std::vector<std::string> NamesIn(absl::string_view directory) const;
  // Takes away a directory with all that is in it, for good.
  void Wipe(absl::string_view directory);

  // --- Contents.
  void Write(SimInode& inode, uint64_t offset_bytes, const char* data, uint64_t size_bytes);
  void SetSize(SimInode& inode, uint64_t size_bytes);
  void Sync(SimInode& inode);
  // Of a small file: new bytes at its end, of which a lie may keep a sector from their place; and
  // all that a read sees of it, where `path` is its name.
  void Append(SimInode& inode, absl::string_view content);
  std::string ReadAll(absl::string_view path, const SimInode& inode);
  // What a failed sync does: the bytes count as clean and are not durable.
  void SyncFalsely(SimInode& inode);

  // --- Transfers, as a drive does them: bytes moved, or -errno.
  struct Transfer {
    bool write = false;
    SimInode* inode = nullptr;
    uint64_t offset_bytes = 0;
    char* data = nullptr;
    uint64_t size_bytes = 0;
    uint32_t retries = 0;
    int process = 0;
  };
  // What a crash finds in flight may be written in part. The pointer names the transfer.
  void BeginTransfer(const Transfer* transfer);
  int64_t EndTransfer(const Transfer* transfer);
  // How long a call takes.
  uint64_t Latency();
  uint64_t TransferLatency(const SimInode& inode) { return Latency() * inode.slowness; }

  // Open files and files being written, to find leaks.
  int open_handles = 0;

 private:
  using Names_ = std::map<std::string, std::shared_ptr<SimInode>, std::less<>>;

  void Crash();
  void TearTransfers();
  bool CountTowardsCrash(CrashAt what, int process, absl::string_view names = "");
  int64_t DoTransfer(const Transfer& transfer);
  int64_t DoRead(const Transfer& transfer, uint64_t size_bytes);
  int64_t DoWrite(const Transfer& transfer, uint64_t size_bytes);
  void KeepRenamed(const std::string& name, bool keep, std::map<std::string, bool>& kept) const;
  void LosePowerOf(SimInode& inode, uint64_t keep_percent);
  void FlipBit(char* data, uint64_t size_bytes);
  SimInode* AnyFileWithBytes();

  SimWorld& world_;
  SimFaults faults_;
  const uint32_t alignment_bytes_;
  const uint64_t latency_ticks_;
  Names_ names_, durable_names_;
  std::vector<std::pair<std::string, std::string>> renames_;        // since the directory's sync
  std::map<std::string, std::vector<char>, std::less<>> replaced_;  // what a rename put away
  std::map<std::string, uint64_t, std::less<>> slowness_;           // [directory]
  uint64_t inodes_ = 0;                                             // made so far
  std::vector<const Transfer*> in_flight_;
  std::vector<bool> dead_ = std::vector<bool>(kMostProcesses);  // [process]
  int victim_ = 0;
  bool crash_armed_ = false;
  CrashKind crash_kind_ = CrashKind::kKill;
  uint64_t crash_in_ = 0;
  CrashAt crash_at_ = CrashAt::kAny;
  std::string crash_below_;
};

}  // namespace spillway
