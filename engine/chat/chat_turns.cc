#include "engine/chat/chat_turns.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/stop_signal.h"
#include "engine/base/utf8.h"
#include "engine/measures/text_words.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Letters of Linear A, which have no case, and which Python writes unescaped within a list.
constexpr uint32_t kFirstMark = 0x10600, kLastMark = 0x10736;

// The position of a string in a message, which can be marked.
using JsonPath = JinjaValue::json_pointer;

const std::string& StringAt(const JinjaValue& message, const JsonPath& path) {
  return message[path].get_ref<const std::string&>();
}

std::string& StringAt(JinjaValue& message, const JsonPath& path) {
  return message[path].get_ref<std::string&>();
}

// The last string within a value.
std::optional<JsonPath> LastString(const JinjaValue& value, const JsonPath& path) {
  if (value.is_string()) return path;
  if (value.is_array()) {
    for (size_t i = value.size(); i-- > 0;) {
      if (auto found = LastString(value[i], path / i)) return found;
    }
  }
  std::optional<JsonPath> last;
  if (value.is_object()) {
    for (const auto& item : value.items()) {
      if (auto found = LastString(item.value(), path / item.key())) last = std::move(found);
    }
  }
  return last;
}

// Strings that a template probably writes at or near the end of a message, the best first.
std::vector<JsonPath> StringsAtEnd(const JinjaValue& message) {
  std::vector<JsonPath> ends;
  const auto add = [&](const JinjaValue& object, const char* key, const JsonPath& path) {
    if (!object.is_object() || !object.contains(key)) return;
    if (auto found = LastString(object[key], path / std::string(key))) ends.push_back(*found);
  };
  const JinjaValue calls = message.value("tool_calls", JinjaValue());
  const bool called = calls.is_array() && !calls.empty();
  for (const size_t i : called ? std::set<size_t, std::greater<>>{calls.size() - 1, 0}
                               : std::set<size_t, std::greater<>>()) {
    const JsonPath path = JsonPath("/tool_calls") / i;
    const bool wrapped = calls[i].is_object() && calls[i].contains("function");
    for (const char* key : {"arguments", "parameters", "name"}) {
      wrapped ? add(calls[i]["function"], key, path / std::string("function"))
              : add(calls[i], key, path);
    }
  }
  for (const char* key : {"content", "reasoning_content", "reasoning", "thinking", "thoughts"}) {
    add(message, key, JsonPath());
  }
  return ends;
}

// Whether the message has no other value than a content that is one string.
bool IsPlainAnswer(const JinjaValue& message) {
  return message.contains("content") && message["content"].is_string() &&
         StringsAtEnd(message).size() == 1;
}

JinjaValue FirstMessages(const JinjaValue& messages, size_t count) {
  return JinjaValue(std::vector<JinjaValue>(messages.begin(),
                                            messages.begin() + static_cast<std::ptrdiff_t>(count)));
}

// Length of the common prefix of two texts; whole characters.
size_t CommonBytes(absl::string_view left, absl::string_view right) {
  const auto differ = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  auto common = static_cast<size_t>(differ.first - left.begin());
  while (common < left.size() && common > 0 && (left[common] & 0xc0) == 0x80) --common;
  return common;
}

// A text with marks: "M12M" for message 12, with a character for M.
struct MarkedText {
  std::string text;  // without marks
  // {message, position in the text}
  std::vector<std::pair<size_t, size_t>> marks;
};

std::string MarkOf(const std::string& mark, size_t message) {
  return absl::StrCat(mark, message, mark);
}

// None if the template has broken a mark.
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
    for (const JinjaValue& message : messages_) places_.push_back(StringsAtEnd(message));
    FindEnds();
    size_t last = 0;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (IsAnswer(i)) last = i;
    }
    // {is the last, the previous role, has tool calls}
    std::map<std::tuple<bool, std::string, bool>, std::vector<size_t>> alike;
    for (size_t i = 0; i < messages_.size(); ++i) {
      const std::string before = i == 0 ? "" : messages_[i - 1]["role"].get<std::string>();
      const bool calls = messages_[i].contains("tool_calls");
      if (IsAnswer(i)) alike[{i == last, before, calls}].push_back(i);
    }
    for (const auto& [kind, places] : alike) RETURN_IF_ERROR(AddTurns(places));
    std::sort(turns_.begin(), turns_.end());
    for (size_t i = 1; i < turns_.size(); ++i) {
      turns_[i].first = std::max(turns_[i].first, turns_[i - 1].second);
      turns_[i].second = std::max(turns_[i].first, turns_[i].second);
    }
    return std::move(turns_);
  }

 private:
  // The end of a string in a message, without white space that the template strips.
  struct StringEnd {
    JsonPath path;
    size_t in_string = 0, in_text = 0;
  };

  // The template's form of a turn.
  struct Frame {
    std::string closing;  // the text that ends it when it is the last
    // Whether it starts with its content. Otherwise it starts after `lead`, the text between the
    // end of the previous message (if `anchored`; otherwise the text's start) and the assistant's
    // words.
    bool by_content = false, anchored = false;
    std::string lead;
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

  // Chooses a character that neither the text nor a message contains.
  absl::Status ChooseMark() {
    const std::string all = messages_.dump();
    for (uint32_t point = kFirstMark; point <= kLastMark; ++point) {
      mark_.clear();
      AppendUtf8(point, &mark_);
      if (!absl::StrContains(text_, mark_) && !absl::StrContains(all, mark_)) {
        return absl::OkStatus();
      }
    }
    return Wrong(0, "the conversation has every letter from U+10600 to U+10736");
  }

  // ------------------------------------------------------------- where strings end

  // Its length without trailing white space.
  size_t StrippedBytes(size_t message, const JsonPath& path) const {
    return WithoutTrailingSpace(StringAt(messages_[message], path)).size();
  }

  absl::string_view SpaceBehind(size_t message) const {
    const JsonPath& path = places_[message].front();
    return absl::string_view(StringAt(messages_[message], path))
        .substr(StrippedBytes(message, path));
  }

  // The text with the ends of these messages marked; none if marks change it otherwise.
  std::optional<MarkedText> MarkEnds(const std::vector<size_t>& wanted, bool before_space) const {
    JinjaValue marked = messages_;
    for (const size_t i : wanted) {
      const JsonPath& path = places_[i].front();
      std::string& string = StringAt(marked[i], path);
      string.insert(before_space ? StrippedBytes(i, path) : string.size(), MarkOf(mark_, i));
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

  void SetEnd(size_t message, bool stripped, size_t in_text) {
    const JsonPath& path = places_[message].front();
    const size_t bytes = StringAt(messages_[message], path).size();
    ends_[message] = StringEnd{path, stripped ? StrippedBytes(message, path) : bytes, in_text};
  }

  // Finds the ends of answers and of the messages before them, as far as one rendering tells.
  void FindEnds() {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if ((IsAnswer(i) || IsAnswer(i + 1)) && !places_[i].empty()) wanted.push_back(i);
    }
    // A mark after its white space keeps a content from being stripped.
    const std::optional<MarkedText> outer = MarkEnds(wanted, false);
    if (!outer) return;
    if (outer->text == text_) {
      for (const auto& [message, at] : outer->marks) SetEnd(message, false, at);
      return;
    }
    const std::optional<MarkedText> inner = MarkEnds(wanted, true);
    if (!inner || inner->text != text_) return;
    for (size_t k = 0; k < inner->marks.size(); ++k) {
      const auto [message, at] = inner->marks[k];
      if (outer->marks[k].first != message) return;
      // Up to the next mark in both: the outer ones include the white space before it.
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
        SetEnd(message, true, at);
      } else if (rest == absl::StrCat(space, following(*outer))) {
        SetEnd(message, false, at + space.size());
      }
    }
  }

  // The first of these positions in a string that can be marked without another change.
  absl::StatusOr<std::optional<StringEnd>> FindPlace(size_t message, const JsonPath& path,
                                                     std::initializer_list<size_t> places) const {
    for (const size_t place : places) {
      RETURN_IF_ERROR(StopSignal::Check());
      JinjaValue marked = messages_;
      StringAt(marked[message], path).insert(place, mark_);
      const auto whole = render_(marked, false);
      if (absl::IsCancelled(whole.status())) return whole.status();
      if (!whole.ok()) continue;
      const size_t at = whole->find(mark_);
      if (at != std::string::npos && absl::StrReplaceAll(*whole, {{mark_, ""}}) == text_) {
        return StringEnd{path, place, at};
      }
    }
    return std::nullopt;
  }

  // None if the content is not written verbatim.
  absl::StatusOr<std::optional<size_t>> ContentBegin(size_t place) const {
    const JsonPath path("/content");
    const std::string& content = StringAt(messages_[place], path);
    const size_t space = content.size() - WithoutOuterSpace(content + "x").size() + 1;
    const StringEnd& end = *ends_[place];
    const absl::string_view written = absl::string_view(content).substr(0, end.in_string);
    if (space == 0 && absl::EndsWith(text_.substr(0, end.in_text), written)) {
      return end.in_text - written.size();
    }
    ASSIGN_OR_RETURN(const auto begin, FindPlace(place, path, {0, space}));
    if (!begin || begin->in_text > end.in_text) return std::nullopt;
    return begin->in_text;
  }

  // ------------------------------------------------------------ what is around them

  // The start of Frame::lead.
  size_t Anchor(size_t place, bool anchored) const {
    return anchored ? ends_[place - 1]->in_text : 0;
  }

  // The start of the assistant's words in a turn that does not start with the generation prompt:
  // the end of the common prefix with a plain answer in its place, be that the last message, one
  // followed by others, or one that the user replies to. (So reasoning has loss together with its
  // opening tag.) Never before `least`; none if no plain answer can be rendered.
  absl::StatusOr<std::optional<size_t>> HeaderEnd(size_t place, size_t least) const {
    const JinjaValue plain = {{"role", "assistant"}, {"content", mark_}};
    JinjaValue alone = FirstMessages(messages_, place);
    alone.push_back(plain);
    JinjaValue replied = alone;
    replied.push_back({{"role", "user"}, {"content", "."}});
    JinjaValue within = messages_;
    within[place] = plain;
    std::optional<size_t> end;
    for (const JinjaValue& variant : {replied, alone, within}) {
      RETURN_IF_ERROR(StopSignal::Check());
      const auto written = render_(variant, false);
      if (absl::IsCancelled(written.status())) return written.status();
      if (!written.ok()) continue;
      const size_t at = written->find(mark_);
      if (at == std::string::npos) continue;
      const size_t common = CommonBytes(text_, absl::string_view(*written).substr(0, at));
      if (common >= least) end = std::min(end.value_or(common), common);
    }
    return end;
  }

  absl::StatusOr<Frame> FrameOf(size_t place) {
    RETURN_IF_ERROR(StopSignal::Check());
    for (const JsonPath& path : places_[place]) {
      if (ends_[place]) break;
      const size_t size = StringAt(messages_[place], path).size();
      ASSIGN_OR_RETURN(ends_[place], FindPlace(place, path, {size, StrippedBytes(place, path)}));
    }
    size_t first = std::string::npos;
    std::string until;
    if (ends_[place]) {
      JinjaValue marked = FirstMessages(messages_, place + 1);
      StringAt(marked[place], ends_[place]->path).insert(ends_[place]->in_string, mark_);
      ASSIGN_OR_RETURN(until, render_(marked, false));
      first = until.find(mark_);
    }
    if (first == std::string::npos) {
      return Wrong(place, "the template does not write what it says as it is");
    }
    Frame frame;
    frame.closing = absl::StrReplaceAll(until.substr(first), {{mark_, ""}});
    const size_t end = ends_[place]->in_text;
    // A template may fail for an empty list of messages.
    const auto prompt = render_(FirstMessages(messages_, place), true);
    if (place > 0) RETURN_IF_ERROR(prompt.status());
    size_t begin = 0;
    if (prompt.ok() && absl::StartsWith(text_.substr(0, end), *prompt)) {
      begin = prompt->size();
    } else {
      const bool known = place > 0 && ends_[place - 1] && ends_[place - 1]->in_text <= end;
      const size_t least = known ? Anchor(place, true) : 0;
      std::optional<size_t> header;
      if (IsPlainAnswer(messages_[place])) {
        ASSIGN_OR_RETURN(header, ContentBegin(place));
        frame.by_content = header.has_value();
      }
      if (!header && (place == 0 || known)) {
        ASSIGN_OR_RETURN(header, HeaderEnd(place, least));
      }
      if (!header || *header > end) {
        return Wrong(place, "the template does not write its beginning as it is");
      }
      begin = *header;
      // The generation prompt's addition may match although the text before it differs.
      const auto before = render_(FirstMessages(messages_, place), false);
      if (known && begin > least && before.ok() && prompt.ok() &&
          absl::StartsWith(*prompt, *before) && prompt->size() > before->size()) {
        const absl::string_view added = absl::string_view(*prompt).substr(before->size());
        const size_t at = text_.substr(least, begin - least).rfind(added);
        if (at != absl::string_view::npos) {
          begin = least + at + added.size();
          frame.by_content = false;
        }
      }
      if (frame.by_content) return frame;
    }
    frame.anchored = place > 0 && ends_[place - 1] && ends_[place - 1]->in_text <= begin;
    const size_t anchor = Anchor(place, frame.anchored);
    frame.lead = std::string(text_.substr(anchor, begin - anchor));
    return frame;
  }

  // How much of the turn's closing text follows it.
  size_t ClosingBytes(size_t place, const Frame& frame) const {
    return CommonBytes(frame.closing, text_.substr(ends_[place]->in_text));
  }

  // Whether a turn may have the frame of `other`.
  bool Fits(size_t place, size_t other, const Frame& frame) const {
    if (!ends_[place] || ClosingBytes(place, frame) != ClosingBytes(other, frame)) return false;
    if (frame.by_content) return IsPlainAnswer(messages_[place]);
    if (!frame.anchored || place == 0 || !ends_[place - 1]) return false;
    const size_t anchor = Anchor(place, true);
    return anchor + frame.lead.size() <= ends_[place]->in_text &&
           absl::StartsWith(text_.substr(anchor), frame.lead);
  }

  absl::Status AddTurn(size_t place, const Frame& frame) {
    const size_t end = ends_[place]->in_text;
    const size_t closing = ClosingBytes(place, frame);
    if (closing == 0 && !frame.closing.empty()) {
      return Wrong(place, "the template ends this turn in another way when it is the last");
    }
    size_t begin = Anchor(place, frame.anchored) + frame.lead.size();
    if (frame.by_content) {
      ASSIGN_OR_RETURN(const auto content, ContentBegin(place));
      if (!content) return Wrong(place, "the template does not write its beginning as it is");
      begin = *content;
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
  std::vector<std::vector<JsonPath>> places_;   // [message] StringsAtEnd
  std::vector<std::optional<StringEnd>> ends_;  // [message]
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
