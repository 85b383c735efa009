#include "engine/data/jinja_render.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/data/jinja_values.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// A template may make and write this much, for each byte that it is given and besides.
constexpr int64_t kWorkPerByte = 64, kWorkBesides = 16 << 20;
constexpr int64_t kFarAway = int64_t{1} << 40;  // beyond every slice
constexpr int64_t kLoopBytes = 512;             // what "loop" takes
constexpr int64_t kMaxRange = 100'000;          // as Jinja's sandbox

// About how many bytes of memory a value takes.
int64_t SizeOf(const JinjaValue& value) {
  int64_t size = sizeof(JinjaValue);
  if (value.is_string()) size += static_cast<int64_t>(value.get_ref<const std::string&>().size());
  if (!value.is_structured()) return size;
  for (const JinjaValue& item : value) size += SizeOf(item);
  return size;
}

class Renderer {
 public:
  Renderer(const JinjaValue& variables, absl::string_view file)
      : file_(file), work_left_(kWorkBesides + kWorkPerByte * SizeOf(variables)) {
    scopes_.emplace_back();
    for (const auto& item : variables.items()) scopes_[0][item.key()] = item.value();
  }

  absl::Status Run(const std::vector<JinjaNode>& nodes) {
    for (const JinjaNode& node : nodes) {
      RETURN_IF_ERROR(
          Spend(sizeof(JinjaValue) + static_cast<int64_t>(node.text.size()), node.line));
      RETURN_IF_ERROR(Run(node));
      if (leaving_ != Leaving::kNot) break;
    }
    return absl::OkStatus();
  }

  JinjaText out;

 private:
  template <typename WithLine>
  JinjaPlace At(const WithLine& with_line) const {
    return {file_, with_line.line};
  }
  enum class Leaving { kNot, kBreak, kContinue };
  absl::Status Spend(int64_t work, int line) {
    if ((work_left_ -= work) >= 0) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(file_, ":", line, ": the template does not come to an end"));
  }

  // A namespace or a generator: the values that name it hold its number in kept_.
  struct Kept {
    JinjaValue value;
    bool taken = false;
  };
  absl::StatusOr<JinjaValue> Keep(JinjaKept kind, JinjaValue value, int line) {
    RETURN_IF_ERROR(Spend(sizeof(Kept) + SizeOf(value), line));
    kept_.push_back({std::move(value)});
    return JinjaValue::binary({static_cast<uint8_t>(kind)}, kept_.size() - 1);
  }
  // Null for what is none.
  Kept* KeptOf(const JinjaValue& value, JinjaKept kind) {
    return IsJinjaKept(value, kind) ? &kept_[value.get_binary().subtype()] : nullptr;
  }

  // A generator's list, for what goes through it; any other value as it is.
  absl::StatusOr<const JinjaValue*> Taken(const JinjaValue* value, int line) {
    Kept* generator = KeptOf(*value, JinjaKept::kGenerator);
    if (generator == nullptr) return value;
    if (std::exchange(generator->taken, true)) {
      return JinjaPlace{file_, line}.Refused("going a second time through " +
                                             JinjaTypeName(*value));
    }
    return &generator->value;
  }

  // ------------------------------------------------------------------ statements

  absl::Status RunInScope(const std::vector<JinjaNode>& nodes) {
    scopes_.emplace_back();
    RETURN_IF_ERROR(Run(nodes));
    scopes_.pop_back();
    return absl::OkStatus();
  }

  absl::Status Run(const JinjaNode& node) {
    switch (node.kind) {
      case JinjaNode::Kind::kText:
        out.text += node.text;
        return absl::OkStatus();
      case JinjaNode::Kind::kOutput: {
        ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*node.expression));
        ASSIGN_OR_RETURN(const std::string text, JinjaToText(value, At(node)));
        out.text += text;
        return absl::OkStatus();
      }
      case JinjaNode::Kind::kIf: {
        JinjaValue made;
        ASSIGN_OR_RETURN(const JinjaValue* value, Look(*node.expression, &made));
        return Run(JinjaTrue(*value) ? node.body : node.otherwise);
      }
      case JinjaNode::Kind::kFor:
        return For(node);
      case JinjaNode::Kind::kSet:
        return Set(node);
      case JinjaNode::Kind::kGeneration: {
        const size_t begin = out.text.size();
        RETURN_IF_ERROR(RunInScope(node.body));
        out.generated.emplace_back(begin, out.text.size());
        return absl::OkStatus();
      }
      case JinjaNode::Kind::kBreak:
      case JinjaNode::Kind::kContinue:
        leaving_ = node.kind == JinjaNode::Kind::kBreak ? Leaving::kBreak : Leaving::kContinue;
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::Status Set(const JinjaNode& node) {
    JinjaValue value;
    if (node.expression != nullptr) {
      ASSIGN_OR_RETURN(value, Evaluate(*node.expression));
    } else {
      std::string before = std::exchange(out.text, std::string());
      RETURN_IF_ERROR(RunInScope(node.body));
      value = std::exchange(out.text, std::move(before));
      if (leaving_ != Leaving::kNot) return absl::OkStatus();
    }
    if (node.names.size() == 1) {
      scopes_.back()[node.names[0]] = std::move(value);
      return absl::OkStatus();
    }
    const JinjaValue* named = Find(node.names[0]);
    Kept* space = named == nullptr ? nullptr : KeptOf(*named, JinjaKept::kNamespace);
    if (space == nullptr) {
      return At(node).Wrong(absl::StrCat("\"", node.names[0], "\" is no namespace"));
    }
    space->value[node.names[1]] = std::move(value);
    return absl::OkStatus();
  }

  absl::Status For(const JinjaNode& node) {
    JinjaValue made;
    ASSIGN_OR_RETURN(const JinjaValue* all, Look(*node.expression, &made));
    ASSIGN_OR_RETURN(all, Taken(all, node.line));
    ASSIGN_OR_RETURN(std::vector<JinjaValue> items, JinjaItems(*all, At(node)));
    scopes_.emplace_back();
    if (node.condition != nullptr) {
      std::vector<JinjaValue> kept;
      for (JinjaValue& item : items) {
        RETURN_IF_ERROR(Bind(node, item));
        ASSIGN_OR_RETURN(const JinjaValue keep, Evaluate(*node.condition));
        if (JinjaTrue(keep)) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    const size_t count = items.size();
    bool otherwise = true;  // no body has come to its end
    for (size_t i = 0; i < count; ++i) {
      RETURN_IF_ERROR(Spend(kLoopBytes + SizeOf(items[i]), node.line));
      scopes_.back().clear();
      RETURN_IF_ERROR(Bind(node, items[i]));
      JinjaValue loop = {{"index", i + 1},
                         {"index0", i},
                         {"revindex", count - i},
                         {"revindex0", count - i - 1},
                         {"first", i == 0},
                         {"last", i + 1 == count},
                         {"length", count},
                         {"depth", 1},
                         {"depth0", 0}};
      if (i > 0) loop["previtem"] = items[i - 1];
      if (i + 1 < count) loop["nextitem"] = items[i + 1];
      scopes_.back()["loop"] = std::move(loop);
      RETURN_IF_ERROR(Run(node.body));
      const Leaving left = std::exchange(leaving_, Leaving::kNot);
      if (left == Leaving::kBreak) break;
      if (left == Leaving::kNot) otherwise = false;
    }
    scopes_.pop_back();
    return otherwise ? RunInScope(node.otherwise) : absl::OkStatus();
  }

  absl::Status Bind(const JinjaNode& node, const JinjaValue& item) {
    if (node.names.size() == 1) {
      scopes_.back()[node.names[0]] = item;
      return absl::OkStatus();
    }
    if (!item.is_array() || item.size() != node.names.size()) {
      return At(node).Wrong(
          absl::StrCat(JinjaTypeName(item), " is not ", node.names.size(), " values"));
    }
    for (size_t i = 0; i < node.names.size(); ++i) scopes_.back()[node.names[i]] = item[i];
    return absl::OkStatus();
  }

  // ----------------------------------------------------------------- expressions

  JinjaValue* Find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return &found->second;
    }
    return nullptr;
  }

  absl::StatusOr<JinjaValue> Evaluate(const JinjaExpression& e) {
    ASSIGN_OR_RETURN(JinjaValue value, Made(e));
    RETURN_IF_ERROR(Spend(SizeOf(value), e.line));
    return value;
  }

  // The value where it stands, if it is a variable's or lies in one; `made` otherwise, which
  // gets it. Conversations are long, and templates look into them for every message.
  absl::StatusOr<const JinjaValue*> Look(const JinjaExpression& e, JinjaValue* made) {
    if (e.kind == JinjaKind::kName) {
      RETURN_IF_ERROR(Spend(sizeof(JinjaValue), e.line));
      const JinjaValue* found = Find(e.text);
      if (found == nullptr) *made = JinjaUndefined();
      return found == nullptr ? made : found;
    }
    if (e.kind != JinjaKind::kAttribute && e.kind != JinjaKind::kItem) {
      ASSIGN_OR_RETURN(*made, Evaluate(e));
      return made;
    }
    JinjaValue inner_made, key = e.text;
    ASSIGN_OR_RETURN(const JinjaValue* of, Look(*e.children[0], &inner_made));
    if (e.kind == JinjaKind::kItem) {
      ASSIGN_OR_RETURN(key, Evaluate(*e.children[1]));
    }
    if (const Kept* space = KeptOf(*of, JinjaKept::kNamespace)) of = &space->value;
    const JinjaValue* place = of == &inner_made ? nullptr : JinjaElement(*of, key);
    if (place != nullptr) return place;
    ASSIGN_OR_RETURN(*made, JinjaItem(*of, key, At(e)));
    return made;
  }

  absl::StatusOr<JinjaValue> Made(const JinjaExpression& e) {
    JinjaValue made;
    switch (e.kind) {
      case JinjaKind::kLiteral:
        return e.value;
      case JinjaKind::kName:
      case JinjaKind::kAttribute:
      case JinjaKind::kItem: {
        ASSIGN_OR_RETURN(const JinjaValue* value, Look(e, &made));
        return *value;
      }
      case JinjaKind::kList: {
        JinjaValue list = JinjaValue::array();
        for (const auto& child : e.children) {
          ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*child));
          list.push_back(std::move(value));
        }
        return list;
      }
      case JinjaKind::kDict: {
        JinjaValue dict = JinjaValue::object();
        for (size_t i = 0; i < e.children.size(); i += 2) {
          ASSIGN_OR_RETURN(const JinjaValue key, Evaluate(*e.children[i]));
          if (!key.is_string()) return At(e).Refused("a key that is no string");
          ASSIGN_OR_RETURN(dict[key.get<std::string>()], Evaluate(*e.children[i + 1]));
        }
        return dict;
      }
      case JinjaKind::kSlice: {
        ASSIGN_OR_RETURN(const JinjaValue* of, Look(*e.children[0], &made));
        std::optional<int64_t> bounds[3];
        for (size_t i = 0; i < 3; ++i) {
          if (e.children[i + 1] == nullptr) continue;
          ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*e.children[i + 1]));
          if (value.is_null()) continue;
          if (!value.is_number_integer()) return At(e).Wrong("a slice by " + JinjaTypeName(value));
          bounds[i] = std::clamp(value.get<int64_t>(), -kFarAway, kFarAway);
        }
        return JinjaSlice(*of, bounds, At(e));
      }
      case JinjaKind::kCall:
        return Call(e);
      case JinjaKind::kFilter:
      case JinjaKind::kTest:
      case JinjaKind::kNot:
      case JinjaKind::kMinus: {
        ASSIGN_OR_RETURN(const JinjaValue* of, Look(*e.children[0], &made));
        if (e.kind == JinjaKind::kNot) return JinjaValue(!JinjaTrue(*of));
        if (e.kind == JinjaKind::kMinus) return JinjaArithmetic("-", JinjaValue(0), *of, At(e));
        if (e.kind == JinjaKind::kFilter) return Filter(e, of);
        ASSIGN_OR_RETURN(const JinjaArguments arguments, Evaluated(e));
        return JinjaTest(e.text, *of, arguments, At(e));
      }
      case JinjaKind::kBinary:
        return Binary(e);
      case JinjaKind::kCondition: {
        ASSIGN_OR_RETURN(const JinjaValue* condition, Look(*e.children[1], &made));
        const JinjaExpression* chosen = e.children[JinjaTrue(*condition) ? 0 : 2].get();
        return chosen == nullptr ? JinjaUndefined() : Evaluate(*chosen);
      }
    }
    return JinjaUndefined();
  }

  absl::StatusOr<JinjaArguments> Evaluated(const JinjaExpression& e) {
    JinjaArguments out;
    for (size_t i = 1; i < e.children.size(); ++i) {
      ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*e.children[i]));
      const std::string name = i - 1 < e.keywords.size() ? e.keywords[i - 1] : "";
      if (name.empty()) {
        out.values.push_back(std::move(value));
      } else {
        out.named[name] = std::move(value);
      }
    }
    return out;
  }

  absl::StatusOr<JinjaValue> Binary(const JinjaExpression& e) {
    const std::string& sign = e.text;
    JinjaValue left_made, right_made;
    ASSIGN_OR_RETURN(const JinjaValue* left_value, Look(*e.children[0], &left_made));
    const JinjaValue& left = *left_value;
    if (sign == "and" || sign == "or") {
      return JinjaTrue(left) == (sign == "or") ? left : Evaluate(*e.children[1]);
    }
    ASSIGN_OR_RETURN(const JinjaValue* right_value, Look(*e.children[1], &right_made));
    const JinjaValue& right = *right_value;
    if (sign == "==") return JinjaValue(JinjaEqual(left, right));
    if (sign == "!=") return JinjaValue(!JinjaEqual(left, right));
    if (sign == "in" || sign == "not in") {
      ASSIGN_OR_RETURN(right_value, Taken(right_value, e.line));
      ASSIGN_OR_RETURN(const bool found, JinjaContains(*right_value, left, At(e)));
      return JinjaValue(found == (sign == "in"));
    }
    if (sign == "~") {
      ASSIGN_OR_RETURN(const std::string first, JinjaToText(left, At(e)));
      ASSIGN_OR_RETURN(const std::string second, JinjaToText(right, At(e)));
      return JinjaValue(first + second);
    }
    if (sign[0] == '<' || sign[0] == '>') {
      ASSIGN_OR_RETURN(const bool holds, JinjaCompare(sign, left, right, At(e)));
      return JinjaValue(holds);
    }
    return JinjaArithmetic(sign, left, right, At(e));
  }

  // ------------------------------------------------------------ calls and filters

  absl::StatusOr<JinjaValue> Filter(const JinjaExpression& e, const JinjaValue* of) {
    constexpr absl::string_view kGoThrough[] = {"list",       "join",       "first",  "map",
                                                "selectattr", "rejectattr", "reverse"};
    constexpr absl::string_view kGenerate[] = {"map", "selectattr", "rejectattr", "items"};
    const auto is_in = [&](const auto& names) {
      return std::count(std::begin(names), std::end(names), e.text) > 0;
    };
    ASSIGN_OR_RETURN(const JinjaArguments arguments, Evaluated(e));
    // In Python a list is reversed bit by bit, a generator at once.
    const bool generates = is_in(kGenerate) || (e.text == "reverse" && !of->is_string() &&
                                                !IsJinjaKept(*of, JinjaKept::kGenerator));
    if (is_in(kGoThrough)) {
      ASSIGN_OR_RETURN(of, Taken(of, e.line));
    }
    ASSIGN_OR_RETURN(JinjaValue value, JinjaFilter(e.text, *of, arguments, At(e)));
    if (!generates) return value;
    return Keep(JinjaKept::kGenerator, std::move(value), e.line);
  }

  absl::StatusOr<JinjaValue> Call(const JinjaExpression& e) {
    ASSIGN_OR_RETURN(const JinjaArguments arguments, Evaluated(e));
    const JinjaExpression& callee = *e.children[0];
    if (callee.kind == JinjaKind::kAttribute) {
      JinjaValue made;
      ASSIGN_OR_RETURN(const JinjaValue* of, Look(*callee.children[0], &made));
      return JinjaMethod(callee.text, *of, arguments, At(e));
    }
    const std::string name = callee.kind == JinjaKind::kName ? callee.text : "";
    if (name == "raise_exception") {
      ASSIGN_OR_RETURN(const std::string why, JinjaToText(arguments.Get(0, "message"), At(e)));
      return At(e).Wrong(absl::StrCat("the template raises: ", why));
    }
    if (name == "namespace") {
      JinjaValue space = JinjaValue::object();
      if (!arguments.values.empty()) space = arguments.values[0];
      if (!space.is_object() || arguments.values.size() > 1)
        return At(e).Refused("namespace() of anything but one dictionary and names");
      for (const auto& [key, value] : arguments.named) space[key] = value;
      return Keep(JinjaKept::kNamespace, std::move(space), e.line);
    }
    if (name == "range") {
      int64_t bounds[3] = {0, 0, 1};
      const size_t count = arguments.values.size();
      for (size_t i = 0; i < count && i < 3; ++i) {
        if (!arguments.values[i].is_number_integer())
          return At(e).Wrong("range() without a number");
        bounds[count == 1 ? 1 : i] = arguments.values[i].get<int64_t>();
      }
      JinjaValue list = JinjaValue::array();
      if (bounds[2] == 0 || count == 0 || count > 3)
        return At(e).Wrong("range() takes one to three numbers, the last not 0");
      for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
        if (list.size() == kMaxRange)
          return At(e).Wrong(absl::StrCat("a range of more than ", kMaxRange));
        list.push_back(i);
        if (__builtin_add_overflow(i, bounds[2], &i)) break;
      }
      return list;
    }
    return At(e).Refused(
        absl::StrCat("the function ", name.empty() ? "that is called here" : name));
  }

  const absl::string_view file_;
  std::vector<std::map<std::string, JinjaValue>> scopes_;
  std::deque<Kept> kept_;  // does not move what values lie in
  Leaving leaving_ = Leaving::kNot;
  int64_t work_left_;
};

}  // namespace

absl::StatusOr<JinjaText> RenderJinja(const std::vector<JinjaNode>& nodes,
                                      const JinjaValue& variables, absl::string_view file) {
  Renderer renderer(variables, file);
  RETURN_IF_ERROR(renderer.Run(nodes));
  return std::move(renderer.out);
}

}  // namespace spillway
