#include "engine/tokenizers/unigram_model.h"

#include <algorithm>

#include "engine/base/stop_signal.h"
#include "engine/base/utf8.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr double kUnknownPenalty = 10;

}  // namespace

class UnigramEncoder : public WordEncoder {
 public:
  explicit UnigramEncoder(const UnigramModel* model) : model_(*model) {}

  absl::Status Encode(absl::string_view word, std::vector<uint32_t>* tokens) override {
    RETURN_IF_ERROR(FindBest(word));
    // Goes backwards; consecutive unknown characters are one token.
    ends_.clear();
    bool unknown_before = false;
    for (size_t end = word.size(); end > 0; end -= best_[end].length) {
      const bool unknown = best_[end].token == model_.unk_;
      if (!unknown || !unknown_before) ends_.push_back(end);
      unknown_before = unknown;
    }
    size_t begin = 0;
    for (auto end = ends_.rbegin(); end != ends_.rend(); ++end) {
      RETURN_IF_ERROR(AppendPart(word.substr(begin, *end - begin), tokens));
      begin = *end;
    }
    return absl::OkStatus();
  }

 private:
  struct Best {
    double score = 0;
    uint32_t token = 0;
    uint32_t length = 0;  // of the last token on the best path to here; 0: no path yet
  };

  absl::Status FindBest(absl::string_view word) {
    best_.assign(word.size() + 1, Best());
    for (size_t at = 0; at < word.size();) {
      RETURN_IF_ERROR(StopSignal::Check());
      size_t next = at;
      TakeCodePoint(word, &next);
      const double score = best_[at].score;
      const auto offer = [&](size_t end, uint32_t token, double with) {
        Best& best = best_[end];
        if (best.length != 0 && !(with > best.score)) return;
        best = {with, token, static_cast<uint32_t>(end - at)};
      };
      bool single = false;
      uint32_t node = 0;
      for (size_t end = at; end < word.size();) {
        const uint64_t child =
            model_.children_->Find(node, static_cast<unsigned char>(word[end++]));
        if (child == MergeTable::kNone) break;
        node = static_cast<uint32_t>(child);
        const uint32_t token = model_.tokens_at_[node];
        if (token == kNoToken) continue;
        offer(end, token, model_.scores_[token] + score);
        single |= end == next;
      }
      if (!single) offer(next, model_.unk_, model_.unk_score_ + score);
      at = next;
    }
    return absl::OkStatus();
  }

  absl::Status AppendPart(absl::string_view part, std::vector<uint32_t>* tokens) const {
    const uint32_t token = model_.vocabulary_.Find(part);
    if (token != kNoToken) {
      tokens->push_back(token);
      return absl::OkStatus();
    }
    if (AppendFallback(model_.fallback_, part, tokens)) return absl::OkStatus();
    if (model_.unk_ == kNoToken) return NoTokenError(model_.vocabulary_, part, "unk_id");
    tokens->push_back(model_.unk_);
    return absl::OkStatus();
  }

  const UnigramModel& model_;
  std::vector<Best> best_;
  std::vector<size_t> ends_;
};

UnigramModel::UnigramModel(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores,
                           uint32_t unk, bool byte_fallback)
    : shared_(std::move(vocabulary)),
      scores_(std::move(scores)),
      unk_(unk),
      tokens_at_{kNoToken},
      cuts_(vocabulary_.tokens, false) {
  if (byte_fallback) fallback_ = ByteFallbackTokens(vocabulary_);
  unk_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  std::vector<MergeTable::Merge> edges;
  absl::flat_hash_map<uint64_t, uint32_t> nodes;
  for (const auto& [token, id] : vocabulary_.ids) {
    uint32_t node = 0;
    for (const char c : token) {
      const uint32_t byte = static_cast<unsigned char>(c);
      const auto [found, is_new] =
          nodes.try_emplace(uint64_t{node} << 8 | byte, static_cast<uint32_t>(tokens_at_.size()));
      if (is_new) {
        edges.push_back({node, byte, found->second});
        tokens_at_.push_back(kNoToken);
      }
      node = found->second;
    }
    tokens_at_[node] = id;
  }
  children_.emplace(edges);
}

std::unique_ptr<WordEncoder> UnigramModel::NewEncoder() const {
  return std::make_unique<UnigramEncoder>(this);
}

}  // namespace spillway
