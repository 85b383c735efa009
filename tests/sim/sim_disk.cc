#include "tests/sim/sim_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/file_system.h"

namespace spillway {
namespace {

// More EINTR or EAGAIN in a row, and the engine pauses between its tries.
constexpr uint32_t kMostRetries = 8;

// 1: no direct I/O.
constexpr uint32_t kAlignments[] = {1, 512, 4096};
constexpr uint64_t kSlownesses[] = {1, 1, 5, 40};
constexpr int kWriteErrors[] = {EIO, ENOSPC, EROFS, ENODEV};

}  // namespace

SimDisk::SimDisk(SimWorld& world)
    : world_(world),
      faults_(world),
      alignment_bytes_(kAlignments[world.random().Below(3)]),
      latency_ticks_(1 + world.random().Below(60)) {}

// --- Life and death -----------------------------------------------------------

void SimDisk::ArmCrash(CrashKind kind, uint64_t operations, CrashAt at, int process,
                       absl::string_view below) {
  victim_ = process;
  crash_armed_ = true;
  crash_kind_ = kind;
  crash_in_ = operations;
  crash_at_ = at;
  crash_below_ = std::string(below);
}

bool SimDisk::CountTowardsCrash(CrashAt what, int process, absl::string_view names) {
  if (dead_[process]) return true;
  if (!absl::StartsWith(names, crash_below_)) return false;
  if (!crash_armed_ || process != victim_ || what < crash_at_ || crash_in_-- > 0) return false;
  Crash();
  return true;
}

bool SimDisk::BeforeCall(absl::string_view names) {
  const CrashAt what = names.empty() ? CrashAt::kCalls : CrashAt::kRenames;
  if (CountTowardsCrash(what, world_.process(), names)) return false;
  world_.PassTime(Latency());
  return !crashed();
}

bool SimDisk::AfterCall(absl::string_view names) {
  const CrashAt what = names.empty() ? CrashAt::kCalls : CrashAt::kRenames;
  return !CountTowardsCrash(what, world_.process(), names);
}

void SimDisk::Crash() {
  world_.Trace(crash_kind_ == CrashKind::kKill ? "kill" : "power loss",
               static_cast<uint64_t>(victim_));
  TearTransfers();
  if (crash_kind_ == CrashKind::kPowerLoss) {
    LosePower();
    dead_.assign(kMostProcesses, true);
  }
  dead_[victim_] = true;
  crash_armed_ = false;
}

// What was on its way to the medium arrives whole, in part or not at all.
void SimDisk::TearTransfers() {
  for (const Transfer* transfer : in_flight_) {
    if (crash_kind_ == CrashKind::kKill && transfer->process != victim_) continue;
    if (!transfer->write || world_.random().OneIn(3)) continue;
    const uint64_t sectors = transfer->size_bytes / kSimSectorBytes;
    const uint64_t first = world_.random().OneIn(2) ? 0 : world_.random().Below(sectors + 1);
    const uint64_t count = world_.random().Below(sectors - first + 1);
    Write(*transfer->inode, transfer->offset_bytes + first * kSimSectorBytes,
          transfer->data + first * kSimSectorBytes, count * kSimSectorBytes);
  }
}

void SimDisk::LosePower() {
  const uint64_t keep_percent = 25 * world_.random().Below(5);
  std::set<std::string> changed;
  for (const auto& [name, inode] : names_) changed.insert(name);
  for (const auto& [name, inode] : durable_names_) changed.insert(name);
  std::map<std::string, bool> kept;  // [name] what was decided for another name of its renames
  for (const std::string& name : changed) {
    const auto now = names_.find(name), then = durable_names_.find(name);
    const bool same =
        now != names_.end() && then != durable_names_.end() && now->second == then->second;
    if (same) continue;
    if (!kept.contains(name)) KeepRenamed(name, world_.random().Below(100) < keep_percent, kept);
    if (kept[name]) continue;
    if (then == durable_names_.end()) {
      names_.erase(name);
    } else {
      names_[name] = then->second;
    }
  }
  // Parents come before what is in them.
  std::erase_if(names_, [this](const auto& entry) { return !ParentIsThere(entry.first); });
  durable_names_ = names_;
  renames_.clear();
  for (const auto& [name, inode] : names_) LosePowerOf(*inode, keep_percent);
}

void SimDisk::KeepRenamed(const std::string& name, bool keep,
                          std::map<std::string, bool>& kept) const {
  if (!kept.try_emplace(name, keep).second) return;
  for (const auto& [from, to] : renames_) {
    if (from == name) KeepRenamed(to, keep, kept);
    if (to == name) KeepRenamed(from, keep, kept);
  }
}

void SimDisk::LosePowerOf(SimInode& inode, uint64_t keep_percent) {
  SimRandom& random = world_.random();
  if (inode.durable.size() != inode.data.size() && random.Below(100) >= keep_percent) {
    inode.data.resize(inode.durable.size());
  }
  inode.durable.resize(inode.data.size());
  inode.dirty.resize((inode.data.size() + kSimBlockBytes - 1) / kSimBlockBytes);
  for (uint64_t block = 0; block < inode.dirty.size(); ++block) {
    if (!inode.dirty[block] || random.Below(100) < keep_percent) continue;
    const uint64_t begin = block * kSimBlockBytes;
    const uint64_t end = std::min<uint64_t>(begin + kSimBlockBytes, inode.data.size());
    char* const data = inode.data.data();
    if (random.OneIn(4)) {  // an older write, any of those since the sync
      std::vector<const std::vector<char>*> older;
      for (const auto& [of, bytes] : inode.between) {
        if (of == block) older.push_back(&bytes);
      }
      if (!older.empty()) {
        std::copy_n(older[random.Below(older.size())]->data(), end - begin, data + begin);
      }
    } else if (random.OneIn(4)) {  // some sectors of the last one
      for (uint64_t at = begin; at < end; at += kSimSectorBytes) {
        if (random.OneIn(2)) continue;
        std::copy_n(inode.durable.data() + at, std::min(kSimSectorBytes, end - at), data + at);
      }
    } else {
      std::copy_n(inode.durable.data() + begin, end - begin, data + begin);
    }
  }
  Sync(inode);
}

void SimDisk::Boot() {
  SPILLWAY_CHECK(in_flight_.empty() && open_handles == 0);
  world_.Trace("boot");
  dead_.assign(kMostProcesses, false);
  crash_armed_ = false;
}

// --- Names --------------------------------------------------------------------

std::shared_ptr<SimInode> SimDisk::Find(absl::string_view path) const {
  const auto found = names_.find(path);
  return found == names_.end() ? nullptr : found->second;
}

void SimDisk::SetName(absl::string_view path, std::shared_ptr<SimInode> inode) {
  if (inode == nullptr) {
    names_.erase(std::string(path));
  } else {
    names_[std::string(path)] = std::move(inode);
  }
}

void SimDisk::Rename(absl::string_view from, absl::string_view to) {
  if (const std::shared_ptr<SimInode> before = Find(to)) replaced_[std::string(to)] = before->data;
  SetName(to, Find(from));
  SetName(from, nullptr);
  renames_.emplace_back(from, to);
}

bool SimDisk::ParentIsThere(absl::string_view path) const {
  const std::string parent = ParentPath(path);
  if (parent == "/") return true;
  const std::shared_ptr<SimInode> found = Find(parent);
  return found != nullptr && found->directory;
}

void SimDisk::AddDirectory(absl::string_view path) {
  const std::string parent = ParentPath(path);
  if (parent != "/" && Find(parent) == nullptr) AddDirectory(parent);
  if (Find(path) == nullptr) durable_names_[std::string(path)] = Create(path, true);
}

std::shared_ptr<SimInode> SimDisk::Create(absl::string_view path, bool directory) {
  SPILLWAY_CHECK(ParentIsThere(path));
  auto inode = std::make_shared<SimInode>();
  inode->number = inodes_++;
  inode->directory = directory;
  if (!directory) {
    // Every directory may be on a drive of its own.
    const auto [drive, fresh] = slowness_.try_emplace(ParentPath(path), 1);
    if (fresh) drive->second = kSlownesses[world_.random().Below(4)];
    inode->slowness = drive->second;
  }
  SetName(path, inode);
  return inode;
}

void SimDisk::SyncDirectory(absl::string_view directory) {
  const auto inside = [&](const auto& entry) { return ParentPath(entry.first) == directory; };
  std::erase_if(durable_names_, inside);
  // Within one directory.
  std::erase_if(renames_, [&](const auto& pair) { return ParentPath(pair.second) == directory; });
  for (const auto& entry : names_) {
    if (inside(entry)) durable_names_.insert(entry);
  }
}

std::vector<std::string> SimDisk::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, inode] : names_) {
    if (!inode->directory) names.push_back(name);
  }
  return names;
}

std::vector<std::string> SimDisk::NamesIn(absl::string_view directory) const {
  const std::string prefix = absl::StrCat(directory, "/");
  std::vector<std::string> names;
  for (auto it = names_.lower_bound(prefix);
       it != names_.end() && absl::StartsWith(it->first, prefix); ++it) {
    const std::string name = it->first.substr(prefix.size());
    if (!absl::StrContains(name, "/")) names.push_back(name);
  }
  return names;
}

void SimDisk::Wipe(absl::string_view directory) {
  const std::string prefix = absl::StrCat(directory, "/");
  const auto below = [&](const auto& entry) {
    return entry.first == directory || absl::StartsWith(entry.first, prefix);
  };
  std::erase_if(names_, below);
  std::erase_if(durable_names_, below);
}

// --- Contents -----------------------------------------------------------------

void SimDisk::Write(SimInode& inode, uint64_t offset_bytes, const char* data, uint64_t size_bytes) {
  if (size_bytes == 0) return;
  if (offset_bytes + size_bytes > inode.data.size()) SetSize(inode, offset_bytes + size_bytes);
  const uint64_t first = offset_bytes / kSimBlockBytes;
  const uint64_t last = (offset_bytes + size_bytes - 1) / kSimBlockBytes;
  for (uint64_t block = first; block <= last; ++block) {
    if (inode.dirty[block] && inode.between.size() < 64) {
      const uint64_t begin = block * kSimBlockBytes;
      const uint64_t end = std::min<uint64_t>(begin + kSimBlockBytes, inode.data.size());
      std::vector<char> bytes(inode.data.begin() + static_cast<ptrdiff_t>(begin),
                              inode.data.begin() + static_cast<ptrdiff_t>(end));
      bytes.resize(kSimBlockBytes);
      inode.between.emplace_back(block, std::move(bytes));
    }
    inode.dirty[block] = true;
  }
  std::copy_n(data, size_bytes, inode.data.data() + offset_bytes);
}

void SimDisk::SetSize(SimInode& inode, uint64_t size_bytes) {
  inode.data.resize(size_bytes);
  inode.dirty.resize((size_bytes + kSimBlockBytes - 1) / kSimBlockBytes);
}

void SimDisk::Sync(SimInode& inode) {
  inode.durable.resize(inode.data.size());
  for (uint64_t block = 0; block < inode.dirty.size(); ++block) {
    if (!inode.dirty[block]) continue;
    const uint64_t begin = block * kSimBlockBytes;
    const uint64_t size_bytes = std::min<uint64_t>(kSimBlockBytes, inode.data.size() - begin);
    std::copy_n(inode.data.data() + begin, size_bytes, inode.durable.data() + begin);
    inode.dirty[block] = false;
  }
  inode.between.clear();
}

void SimDisk::Append(SimInode& inode, absl::string_view content) {
  const uint64_t begin = inode.data.size();
  const bool lost = !content.empty() && faults_.Strikes(SimFault::kSmallFileLost);
  const bool misdirected = !content.empty() && faults_.Strikes(SimFault::kSmallFileMisdirected);
  Write(inode, begin, content.data(), content.size());
  if (!lost && !misdirected) return;
  const uint64_t at = world_.random().Below(content.size()) / kSimSectorBytes * kSimSectorBytes;
  const absl::string_view sector = content.substr(at, kSimSectorBytes);
  if (misdirected) {
    SimInode* const file = AnyFileWithBytes();
    const uint64_t sectors = file->data.size() / kSimSectorBytes;
    const uint64_t offset_bytes = world_.random().Below(sectors + 1) * kSimSectorBytes;
    const uint64_t size_bytes = std::min<uint64_t>(sector.size(), file->data.size() - offset_bytes);
    std::vector<char> then = file->data;
    std::copy_n(sector.data(), size_bytes, then.begin() + static_cast<ptrdiff_t>(offset_bytes));
    // What makes another file equal to this one is left out: the last commit's would be one that
    // nobody has acknowledged, and no checksum of its own tells that.
    if (then != inode.data) Write(*file, offset_bytes, sector.data(), size_bytes);
  }
  const std::string zeros(sector.size(), '\0');
  Write(inode, begin + at, zeros.data(), zeros.size());
}

std::string SimDisk::ReadAll(absl::string_view path, const SimInode& inode) {
  std::string content(inode.data.begin(), inode.data.end());
  if (!content.empty() && faults_.Strikes(SimFault::kSmallFileFlipped)) {
    FlipBit(content.data(), content.size());
  }
  const auto before = replaced_.find(path);
  if (before == replaced_.end()) return content;
  // One of the sectors that differ, if not all: an older file that is whole is an older commit, and
  // no checksum of its own tells that.
  std::string old(before->second.begin(), before->second.end());
  old.resize(content.size());
  std::vector<uint64_t> different;
  for (uint64_t at = 0; at < content.size(); at += kSimSectorBytes) {
    if (content.compare(at, kSimSectorBytes, old, at, kSimSectorBytes) != 0) {
      different.push_back(at);
    }
  }
  // Nor where bytes were lost before: old ones in their place may make it whole.
  if (different.size() < 2 || faults_.damaged()) return content;
  if (!faults_.Strikes(SimFault::kSmallFileStale)) return content;
  const uint64_t at = different[world_.random().Below(different.size())];
  return content.replace(at, kSimSectorBytes, old, at, kSimSectorBytes);
}

// The kernel marks the pages clean and forgets. Reads still see the new bytes where they
// are cached, and the old ones come back with the next boot; here, where nothing is
// cached, at once.
void SimDisk::SyncFalsely(SimInode& inode) {
  for (uint64_t block = 0; block < inode.dirty.size(); ++block) {
    if (!inode.dirty[block]) continue;
    const uint64_t begin = block * kSimBlockBytes;
    const uint64_t end = std::min<uint64_t>(begin + kSimBlockBytes, inode.data.size());
    if (world_.random().OneIn(2) && end <= inode.durable.size()) {
      std::copy(inode.durable.begin() + static_cast<ptrdiff_t>(begin),
                inode.durable.begin() + static_cast<ptrdiff_t>(end),
                inode.data.begin() + static_cast<ptrdiff_t>(begin));
    }
  }
  Sync(inode);
}

// --- Transfers ----------------------------------------------------------------

uint64_t SimDisk::Latency() {
  if (crashed()) return 1;
  const uint64_t ticks = 1 + world_.random().Below(latency_ticks_);
  return faults_.Happens(SimFault::kSlow) ? ticks << world_.random().Between(2, 9) : ticks;
}

void SimDisk::BeginTransfer(const Transfer* transfer) {
  in_flight_.push_back(transfer);
  // Whoever looks before the bytes have come sees that they have not.
  if (!transfer->write && world_.random().OneIn(4)) {
    std::memset(transfer->data, 0xa5, transfer->size_bytes);
  }
}

int64_t SimDisk::EndTransfer(const Transfer* transfer) {
  const bool dead = CountTowardsCrash(CrashAt::kAny, transfer->process);
  std::erase(in_flight_, transfer);
  const int64_t result = dead ? -EIO : DoTransfer(*transfer);
  world_.Trace(transfer->write ? "write" : "read", transfer->inode->number, transfer->offset_bytes,
               static_cast<uint64_t>(result));
  return result;
}

int64_t SimDisk::DoTransfer(const Transfer& transfer) {
  SimRandom& random = world_.random();
  // As O_DIRECT has it.
  const auto address = reinterpret_cast<uintptr_t>(transfer.data);
  if ((transfer.offset_bytes | transfer.size_bytes | address) % alignment_bytes_ != 0) {
    return -EINVAL;
  }
  if (transfer.retries < kMostRetries) {
    if (faults_.Happens(SimFault::kInterrupted)) return -EINTR;
    if (faults_.Happens(SimFault::kAgain)) return -EAGAIN;
  }
  uint64_t size_bytes = transfer.size_bytes;
  // Of a read at least one unit comes, or the file ends there.
  const uint64_t least = transfer.write ? 1 : alignment_bytes_;
  if (size_bytes > least && transfer.retries < kMostRetries && faults_.Happens(SimFault::kShort)) {
    size_bytes = random.Between(least, size_bytes - 1);
    if (random.OneIn(2)) {
      const uint64_t units = std::max<uint64_t>(size_bytes / alignment_bytes_, 1);
      size_bytes = std::min(units * alignment_bytes_, transfer.size_bytes);
    }
  }
  return transfer.write ? DoWrite(transfer, size_bytes) : DoRead(transfer, size_bytes);
}

int64_t SimDisk::DoRead(const Transfer& transfer, uint64_t size_bytes) {
  SimRandom& random = world_.random();
  const SimInode& inode = *transfer.inode;
  if (faults_.Strikes(SimFault::kReadError)) return -EIO;
  if (transfer.offset_bytes >= inode.data.size()) return 0;
  size_bytes = std::min<uint64_t>(size_bytes, inode.data.size() - transfer.offset_bytes);
  const bool stale = transfer.offset_bytes + size_bytes <= inode.durable.size() &&
                     std::memcmp(inode.data.data() + transfer.offset_bytes,
                                 inode.durable.data() + transfer.offset_bytes, size_bytes) != 0 &&
                     faults_.Strikes(SimFault::kStale);
  const std::vector<char>& from = stale ? inode.durable : inode.data;
  std::memcpy(transfer.data, from.data() + transfer.offset_bytes, size_bytes);
  if (faults_.Strikes(SimFault::kFlippedInTransfer)) FlipBit(transfer.data, size_bytes);
  if (faults_.Strikes(SimFault::kFlippedAtRest)) {
    // Another file may do as well: a tile that nobody reads before the next commit.
    if (SimInode* file = AnyFileWithBytes()) {
      const uint64_t at = random.Below(file->data.size());
      const char flip = static_cast<char>(1 << random.Below(8));
      file->data[at] ^= flip;
      if (at < file->durable.size()) file->durable[at] = file->data[at];
    }
  }
  return static_cast<int64_t>(size_bytes);
}

int64_t SimDisk::DoWrite(const Transfer& transfer, uint64_t size_bytes) {
  SimRandom& random = world_.random();
  SimInode& inode = *transfer.inode;
  if (faults_.Strikes(SimFault::kWriteError)) return -kWriteErrors[random.Below(4)];
  const auto result = static_cast<int64_t>(size_bytes);
  if (faults_.Strikes(SimFault::kLost)) return result;
  if (faults_.Strikes(SimFault::kMisdirected)) {
    SimInode* const file = random.OneIn(2) ? &inode : AnyFileWithBytes();
    const uint64_t blocks = file->data.size() / kSimSectorBytes;
    const uint64_t offset_bytes = random.Below(blocks + 1) * kSimSectorBytes;
    Write(*file, offset_bytes, transfer.data,
          std::min<uint64_t>(size_bytes, file->data.size() - offset_bytes));
    return result;
  }
  Write(inode, transfer.offset_bytes, transfer.data, size_bytes);
  if (faults_.Strikes(SimFault::kFlippedOnMedium)) {
    FlipBit(inode.data.data() + transfer.offset_bytes, size_bytes);
  }
  return result;
}

void SimDisk::FlipBit(char* data, uint64_t size_bytes) {
  data[world_.random().Below(size_bytes)] ^= static_cast<char>(1 << world_.random().Below(8));
}

SimInode* SimDisk::AnyFileWithBytes() {
  std::vector<SimInode*> files;
  for (const auto& [name, inode] : names_) {
    if (!inode->data.empty()) files.push_back(inode.get());
  }
  return files.empty() ? nullptr : files[world_.random().Below(files.size())];
}

}  // namespace spillway
