#include "engine/data/chat_turns.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/stop_signal.h"
#include "engine/base/utf8.h"
#include "engine/data/jinja_values.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr uint32_t kFirstMark = 0xe000, kLastMark = 0xf8ff;  // of private use

const std::string& ContentOf(const JinjaValue& message) {
  return message["content"].get_ref<const std::string&>();
}

std::string& ContentOf(JinjaValue& message) { return message["content"].get_ref<std::string&>(); }

JinjaValue FirstOf(const JinjaValue& messages, size_t count) {
  return JinjaValue(std::vector<JinjaValue>(messages.begin(),
                                            messages.begin() + static_cast<std::ptrdiff_t>(count)));
}

// How much of the beginning two texts have in common; whole characters.
size_t CommonBytes(absl::string_view left, absl::string_view right) {
  const auto differ = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  auto common = static_cast<size_t>(differ.first - left.begin());
  while (common < left.size() && common > 0 && (left[common] & 0xc0) == 0x80) --common;
  return common;
}

// A text with marks in it: "M12M" for message 12, with a character for M.
struct MarkedText {
  std::string text;  // without them
  // {message, byte of the text}
  std::vector<std::pair<size_t, size_t>> marks;
};

std::string MarkOf(const std::string& mark, size_t message) {
  return absl::StrCat(mark, message, mark);
}

// Nothing where the template has broken a mark.
std::optional<MarkedText> ReadMarks(absl::string_view rendered, const std::string& mark) {
  MarkedText out;
  while (true) {
    const size_t begin = rendered.find(mark);
    absl::StrAppend(&out.text, rendered.substr(0, begin));
    if (begin == std::string::npos) return out;
    rendered.remove_prefix(begin + mark.size());
    const size_t end = rendered.find(mark);
    size_t message = 0;
    if (end == std::string::npos || !absl::SimpleAtoi(rendered.substr(0, end), &message)) {
      return std::nullopt;
    }
    out.marks.emplace_back(message, out.text.size());
    rendered.remove_prefix(end + mark.size());
  }
}

class TurnFinder {
 public:
  TurnFinder(const RenderMessages& render, const JinjaValue& messages, absl::string_view text,
             absl::string_view file)
      : render_(render), messages_(messages), text_(text), file_(file), ends_(messages.size()) {}

  absl::StatusOr<std::vector<std::pair<size_t, size_t>>> Run() {
    RETURN_IF_ERROR(ChooseMark());
    for (const JinjaValue& message : messages_) {
      ASSIGN_OR_RETURN(const JinjaValue rest,
                       JinjaMethod("rstrip", ContentOf(message), {}, {file_, 0}));
      stripped_.push_back(rest.get_ref<const std::string&>().size());
    }
    FindEnds();
    size_t last = 0;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (IsAnswer(i)) last = i;
    }
    // {the last, the role before}
    std::map<std::pair<bool, std::string>, std::vector<size_t>> alike;
    for (size_t i = 0; i < messages_.size(); ++i) {
      const std::string before = i == 0 ? "" : messages_[i - 1]["role"].get<std::string>();
      if (IsAnswer(i)) alike[{i == last, before}].push_back(i);
    }
    for (const auto& [kind, places] : alike) RETURN_IF_ERROR(AddTurns(places));
    std::sort(turns_.begin(), turns_.end());
    return std::move(turns_);
  }

 private:
  // Where a content ends, without white space that the template strips.
  struct ContentEnd {
    size_t in_content = 0, in_text = 0;
  };

  // How the template writes a turn.
  struct Frame {
    std::string closing;  // what ends it when it is the last
    // Whether the text begins with the turns before, as they are when they are alone; and what
    // they end with, from Anchor on, without and with the generation prompt.
    bool continues = false, anchored = false;
    std::string before, prompt;
    bool operator==(const Frame&) const = default;
  };

  bool IsAnswer(size_t place) const {
    return place < messages_.size() && messages_[place]["role"] == "assistant";
  }

  absl::Status Wrong(size_t place, absl::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat("messages[", place, "]: ", why,
                     ", so that which tokens are the assistant's can't be told; ",
                     "put {% generation %} and {% endgeneration %} around them in ", file_));
  }

  // A character that neither the text nor a content has.
  absl::Status ChooseMark() {
    const auto has_mark = [&](const JinjaValue& message) {
      return absl::StrContains(ContentOf(message), mark_);
    };
    for (uint32_t point = kFirstMark; point <= kLastMark; ++point) {
      mark_.clear();
      AppendUtf8(point, &mark_);
      if (absl::StrContains(text_, mark_)) continue;
      if (std::none_of(messages_.begin(), messages_.end(), has_mark)) return absl::OkStatus();
    }
    return Wrong(0, "the conversation has every character from U+E000 to U+F8FF");
  }

  // ------------------------------------------------------------ where contents end

  absl::string_view SpaceBehind(size_t message) const {
    return absl::string_view(ContentOf(messages_[message])).substr(stripped_[message]);
  }

  // The text with the ends of these contents marked; nothing where that changes it in another way.
  std::optional<MarkedText> MarkEnds(const std::vector<size_t>& wanted, bool before_space) const {
    JinjaValue marked = messages_;
    for (const size_t i : wanted) {
      std::string& content = ContentOf(marked[i]);
      content.insert(before_space ? stripped_[i] : content.size(), MarkOf(mark_, i));
    }
    const auto rendered = render_(marked, false);
    if (!rendered.ok()) return std::nullopt;
    std::optional<MarkedText> read = ReadMarks(*rendered, mark_);
    if (!read) return std::nullopt;
    std::set<size_t> found;
    for (const auto& mark : read->marks) found.insert(mark.first);
    if (read->marks.size() != wanted.size() || found.size() != wanted.size()) return std::nullopt;
    return read;
  }

  // Of answers, and of what is before them, as far as they can be told at once.
  void FindEnds() {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (IsAnswer(i) || IsAnswer(i + 1)) wanted.push_back(i);
    }
    // Behind its white space a mark keeps a content from being stripped.
    const std::optional<MarkedText> outer = MarkEnds(wanted, false);
    if (!outer) return;
    if (outer->text == text_) {
      for (const auto& [message, at] : outer->marks) {
        ends_[message] = ContentEnd{ContentOf(messages_[message]).size(), at};
      }
      return;
    }
    const std::optional<MarkedText> inner = MarkEnds(wanted, true);
    if (!inner || inner->text != text_) return;
    for (size_t k = 0; k < inner->marks.size(); ++k) {
      const auto [message, at] = inner->marks[k];
      if (outer->marks[k].first != message) return;
      // Up to the next mark in both: the outer ones have the white space before that too.
      const auto following = [k](const MarkedText& marked) {
        const size_t begin = marked.marks[k].second;
        const bool last = k + 1 == marked.marks.size();
        return absl::string_view(marked.text)
            .substr(begin, last ? std::string::npos : marked.marks[k + 1].second - begin);
      };
      const absl::string_view space = SpaceBehind(message);
      const std::string rest =
          absl::StrCat(following(*inner),
                       k + 1 < inner->marks.size() ? SpaceBehind(inner->marks[k + 1].first) : "");
      if (rest == following(*outer)) {
        ends_[message] = ContentEnd{stripped_[message], at};
      } else if (rest == absl::StrCat(space, following(*outer))) {
        ends_[message] = ContentEnd{stripped_[message] + space.size(), at + space.size()};
      }
    }
  }

  // The first of these places in a content that can be marked without another change.
  absl::StatusOr<std::optional<ContentEnd>> FindPlace(size_t message,
                                                      std::initializer_list<size_t> places) const {
    for (const size_t place : places) {
      JinjaValue marked = messages_;
      ContentOf(marked[message]).insert(place, mark_);
      ASSIGN_OR_RETURN(const std::string whole, render_(marked, false));
      const size_t at = whole.find(mark_);
      if (at != std::string::npos && absl::StrReplaceAll(whole, {{mark_, ""}}) == text_) {
        return ContentEnd{place, at};
      }
    }
    return std::nullopt;
  }

  absl::StatusOr<size_t> ContentBegin(size_t place) const {
    const std::string& content = ContentOf(messages_[place]);
    ASSIGN_OR_RETURN(const JinjaValue rest, JinjaMethod("lstrip", content, {}, {file_, 0}));
    const size_t space = content.size() - rest.get_ref<const std::string&>().size();
    const ContentEnd& end = *ends_[place];
    const absl::string_view written = absl::string_view(content).substr(0, end.in_content);
    if (space == 0 && absl::EndsWith(text_.substr(0, end.in_text), written)) {
      return end.in_text - written.size();
    }
    ASSIGN_OR_RETURN(const auto begin, FindPlace(place, {0, space}));
    if (!begin || begin->in_text > end.in_text) {
      return Wrong(place, "the template does not write its beginning as it is, and once");
    }
    return begin->in_text;
  }

  // ------------------------------------------------------------ what is around them

  // Where Frame::before and Frame::prompt begin.
  size_t Anchor(size_t place, bool anchored) const {
    return anchored ? ends_[place - 1]->in_text : 0;
  }

  absl::StatusOr<Frame> FrameOf(size_t place) {
    RETURN_IF_ERROR(StopSignal::Check());
    const std::string& content = ContentOf(messages_[place]);
    if (!ends_[place]) {
      ASSIGN_OR_RETURN(ends_[place], FindPlace(place, {content.size(), stripped_[place]}));
    }
    size_t last = std::string::npos;
    std::string until;
    if (ends_[place]) {
      JinjaValue marked = FirstOf(messages_, place + 1);
      ContentOf(marked[place]).insert(ends_[place]->in_content, mark_);
      ASSIGN_OR_RETURN(until, render_(marked, false));
      last = until.rfind(mark_);
    }
    if (last == std::string::npos) {
      return Wrong(place, "the template does not write this content as it is, and once");
    }
    Frame frame;
    frame.closing = until.substr(last + mark_.size());
    const auto before = render_(FirstOf(messages_, place), false);
    const auto prompt = render_(FirstOf(messages_, place), true);
    // Of no messages at all a template may have nothing to say.
    if (place > 0) RETURN_IF_ERROR(before.status());
    if (place > 0) RETURN_IF_ERROR(prompt.status());
    frame.continues = before.ok() && prompt.ok() && absl::StartsWith(text_, *before);
    if (!frame.continues) return frame;
    frame.anchored = place > 0 && ends_[place - 1] && ends_[place - 1]->in_text <= before->size();
    const size_t anchor = Anchor(place, frame.anchored);
    frame.before = before->substr(anchor);
    if (absl::StartsWith(*prompt, text_.substr(0, anchor))) frame.prompt = prompt->substr(anchor);
    return frame;
  }

  // How much of what ends it when it is the last stands behind its content.
  size_t ClosingBytes(size_t place, const Frame& frame) const {
    return CommonBytes(frame.closing, text_.substr(ends_[place]->in_text));
  }

  // ... and of the generation prompt, and what is before that, before it.
  size_t PromptBytes(size_t place, const Frame& frame) const {
    const size_t anchor = Anchor(place, frame.anchored);
    return CommonBytes(text_.substr(anchor, ends_[place]->in_text - anchor), frame.prompt);
  }

  // Whether a turn may have the frame of `other`.
  bool Fits(size_t place, size_t other, const Frame& frame) const {
    if (!ends_[place] || ClosingBytes(place, frame) != ClosingBytes(other, frame)) return false;
    if (!frame.continues) return true;
    return frame.anchored && ends_[place - 1] &&
           absl::StartsWith(text_.substr(Anchor(place, true)), frame.before) &&
           PromptBytes(place, frame) == PromptBytes(other, frame);
  }

  absl::Status AddTurn(size_t place, const Frame& frame) {
    const size_t end = ends_[place]->in_text;
    const size_t closing = ClosingBytes(place, frame);
    if (closing == 0 && !frame.closing.empty()) {
      return Wrong(place, "the template ends this turn in another way when it is the last");
    }
    const size_t anchor = Anchor(place, frame.anchored);
    size_t begin = anchor + frame.before.size();
    if (frame.continues && begin <= end) {
      begin = std::max(begin, anchor + PromptBytes(place, frame));
    } else {
      // What is before it is written in another way when it is alone.
      ASSIGN_OR_RETURN(begin, ContentBegin(place));
    }
    turns_.emplace_back(begin, end + closing);
    return absl::OkStatus();
  }

  absl::Status AddTurns(const std::vector<size_t>& places) {
    ASSIGN_OR_RETURN(const Frame first, FrameOf(places.front()));
    Frame last = first;
    if (places.size() > 1) {
      ASSIGN_OR_RETURN(last, FrameOf(places.back()));
    }
    RETURN_IF_ERROR(AddTurn(places.front(), first));
    for (size_t i = 1; i + 1 < places.size(); ++i) {
      Frame frame = last;
      if (first != last || !Fits(places[i], places.back(), last)) {
        ASSIGN_OR_RETURN(frame, FrameOf(places[i]));
      }
      RETURN_IF_ERROR(AddTurn(places[i], frame));
    }
    return places.size() > 1 ? AddTurn(places.back(), last) : absl::OkStatus();
  }

  const RenderMessages& render_;
  const JinjaValue& messages_;
  const absl::string_view text_, file_;
  std::string mark_;
  std::vector<size_t> stripped_;  // [message] its content's bytes without white space at the end
  std::vector<std::optional<ContentEnd>> ends_;  // [message]
  std::vector<std::pair<size_t, size_t>> turns_;
};

}  // namespace

absl::StatusOr<std::vector<std::pair<size_t, size_t>>> FindTurns(const RenderMessages& render,
                                                                 const JinjaValue& messages,
                                                                 absl::string_view text,
                                                                 absl::string_view file) {
  return TurnFinder(render, messages, text, file).Run();
}

}  // namespace spillway
