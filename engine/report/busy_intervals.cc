#include "engine/report/busy_intervals.h"

#include <algorithm>

namespace spillway {

void BusyIntervals::Add(int64_t begin_ns, int64_t end_ns) {
  if (end_ns <= begin_ns) return;
  // Pieces that the new one touches, or is within gap_ns_ of.
  const auto first = std::partition_point(pieces_.begin(), pieces_.end(), [&](const auto& piece) {
    return piece.second + gap_ns_ < begin_ns;
  });
  auto last = first;
  while (last != pieces_.end() && last->first <= end_ns + gap_ns_) {
    begin_ns = std::min(begin_ns, last->first);
    end_ns = std::max(end_ns, last->second);
    ++last;
  }
  if (first != last) {
    *first = {begin_ns, end_ns};
    pieces_.erase(first + 1, last);
  } else {
    pieces_.insert(first, {begin_ns, end_ns});
  }
  if (pieces_.size() > kMostPieces) CloseGaps();
}

// Closes the smaller half of the gaps.
void BusyIntervals::CloseGaps() {
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < pieces_.size(); ++i) {
    gaps.push_back(pieces_[i].first - pieces_[i - 1].second);
  }
  const auto middle = gaps.begin() + gaps.size() / 2;
  std::nth_element(gaps.begin(), middle, gaps.end());
  gap_ns_ = std::max(gap_ns_, *middle);
  size_t kept = 0;
  for (size_t i = 1; i < pieces_.size(); ++i) {
    if (pieces_[i].first - pieces_[kept].second <= gap_ns_) {
      pieces_[kept].second = pieces_[i].second;
    } else {
      pieces_[++kept] = pieces_[i];
    }
  }
  pieces_.resize(kept + 1);
}

void BusyIntervals::Clip(int64_t begin_ns, int64_t end_ns) {
  for (auto& piece : pieces_) {
    piece.first = std::max(piece.first, begin_ns);
    piece.second = std::min(piece.second, end_ns);
  }
  std::erase_if(pieces_, [](const auto& piece) { return piece.second <= piece.first; });
}

int64_t BusyIntervals::busy_ns() const {
  int64_t sum = 0;
  for (const auto& piece : pieces_) sum += piece.second - piece.first;
  return sum;
}

void ByteBins::Add(int64_t begin_ns, int64_t end_ns, uint64_t bytes) {
  // A transfer without a duration still counts, at its time.
  end_ns = std::max(end_ns, begin_ns + 1);
  const double per_ns = static_cast<double>(bytes) / static_cast<double>(end_ns - begin_ns);
  begin_ns = std::max(begin_ns, begin_ns_) - begin_ns_;
  end_ns -= begin_ns_;
  if (end_ns <= begin_ns) return;
  while (static_cast<size_t>((end_ns - 1) / width_ns_) >= kMostBins) {
    width_ns_ *= 2;
    for (size_t i = 0; i < bins_.size(); ++i) {
      if (i % 2 == 0) {
        bins_[i / 2] = bins_[i];
      } else {
        bins_[i / 2] += bins_[i];
      }
    }
    bins_.resize((bins_.size() + 1) / 2);
  }
  const size_t first = begin_ns / width_ns_, last = (end_ns - 1) / width_ns_;
  if (bins_.size() <= last) bins_.resize(last + 1);
  for (size_t i = first; i <= last; ++i) {
    const int64_t from = std::max<int64_t>(begin_ns, static_cast<int64_t>(i) * width_ns_);
    const int64_t to = std::min<int64_t>(end_ns, static_cast<int64_t>(i + 1) * width_ns_);
    bins_[i] += per_ns * static_cast<double>(to - from);
  }
}

}  // namespace spillway
