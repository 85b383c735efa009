#include "engine/chat/jinja_render.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "engine/chat/jinja_filters.h"
#include "engine/chat/py_methods.h"
#include "engine/chat/py_operations.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// A template may read, make and write this much, for each byte that it is given and besides.
constexpr int64_t kWorkPerByte = 64, kWorkBesides = 16 << 20;
constexpr size_t kStepWork = 16;        // of an expression or a node
constexpr size_t kScopeWork = 512;      // of a turn of a loop, or a call
constexpr int64_t kMaxRange = 100'000;  // as Jinja's sandbox
// Of expressions and blocks within one another, macros that call macros included: the stack of a
// thread has room for several times as many.
constexpr int kMostLevels = 500;

// About how many bytes of memory a value takes.
int64_t SizeOf(const JinjaValue& value) {
  int64_t size = sizeof(JinjaValue);
  if (value.is_string()) size += static_cast<int64_t>(value.get_ref<const std::string&>().size());
  if (!value.is_structured()) return size;
  for (const JinjaValue& item : value) size += SizeOf(item);
  return size;
}

// Names with their values. A macro sees those of the place where it stands, whenever it is called:
// such scopes are kept.
struct JinjaScope {
  std::map<std::string, PyValue> names;
  JinjaScope* parent = nullptr;
  bool kept = false;
};

struct MacroRep : PyFunctionRep {
  const JinjaNode* node = nullptr;
  JinjaScope* scope = nullptr;
};

struct LoopRep : PyRep {
  std::vector<PyValue> items;
  size_t at = 0;
  std::vector<PyValue> changed;  // what loop.changed() was called with
};

struct LoopMethodRep : PyFunctionRep {
  PyValue loop;
};

class Renderer {
 public:
  Renderer(const JinjaValue& variables, ChatClock now, absl::string_view file)
      : now_(now), work_(file, kWorkBesides + kWorkPerByte * SizeOf(variables)) {
    scope_ = &root_;
  }

  absl::Status Start(const JinjaValue& variables) {
    for (const char* name : {"range", "namespace", "dict", "raise_exception", "strftime_now"}) {
      if (absl::string_view(name) == "strftime_now" && !now_) continue;
      auto rep = std::make_shared<PyFunctionRep>();
      rep->name = name;
      root_.names[name] = PyValue(PyValue::Kind::kFunction, std::move(rep));
    }
    for (const auto& item : variables.items()) {
      ASSIGN_OR_RETURN(root_.names[item.key()], work_.FromJson(item.value()));
    }
    return absl::OkStatus();
  }

  absl::Status Run(const std::vector<JinjaNode>& nodes) {
    for (const JinjaNode& node : nodes) {
      work_.line = node.line;
      RETURN_IF_ERROR(work_.Spend(kStepWork + node.text.size()));
      const Deeper deeper(this);
      if (depth_ > kMostLevels) return TooDeep();
      RETURN_IF_ERROR(Run(node));
      if (leaving_ != Leaving::kNot) break;
    }
    return absl::OkStatus();
  }

  JinjaText out;

 private:
  enum class Leaving { kNot, kBreak, kContinue };

  class Deeper {
   public:
    explicit Deeper(Renderer* renderer) : renderer_(renderer) { ++renderer_->depth_; }
    ~Deeper() { --renderer_->depth_; }
    Deeper(const Deeper&) = delete;

   private:
    Renderer* const renderer_;
  };

  absl::Status TooDeep() const {
    return work_.Wrong("too deeply nested, or a macro without an end");
  }

  // While alive, names that are set belong to a new scope below `parent`.
  class InScope {
   public:
    InScope(Renderer* renderer, JinjaScope* parent)
        : renderer_(renderer), scope_(std::make_unique<JinjaScope>()), before_(renderer->scope_) {
      scope_->parent = parent;
      renderer_->scope_ = scope_.get();
    }
    ~InScope() {
      renderer_->scope_ = before_;
      if (scope_->kept) renderer_->kept_scopes_.push_back(std::move(scope_));
    }
    InScope(const InScope&) = delete;

   private:
    Renderer* const renderer_;
    std::unique_ptr<JinjaScope> scope_;
    JinjaScope* const before_;
  };

  // ------------------------------------------------------------------ statements

  absl::Status RunInScope(const std::vector<JinjaNode>& nodes) {
    RETURN_IF_ERROR(work_.Spend(kScopeWork));
    const InScope scope(this, scope_);
    return Run(nodes);
  }

  // The text that a body writes, by itself.
  absl::StatusOr<PyValue> TextOf(const std::vector<JinjaNode>& nodes) {
    std::string before = std::exchange(out.text, std::string());
    const absl::Status status = RunInScope(nodes);
    std::string text = std::exchange(out.text, std::move(before));
    RETURN_IF_ERROR(status);
    return work_.Text(std::move(text));
  }

  absl::Status Write(const PyValue& value) {
    if (value.is(PyValue::Kind::kString)) {
      RETURN_IF_ERROR(work_.Spend(PyTextOf(value).size()));
      out.text += PyTextOf(value);
    } else {
      ASSIGN_OR_RETURN(const std::string text, PyText(value, work_));
      out.text += text;
    }
    return absl::OkStatus();
  }

  absl::Status Run(const JinjaNode& node) {
    switch (node.kind) {
      case JinjaNode::Kind::kText:
        out.text += node.text;
        return absl::OkStatus();
      case JinjaNode::Kind::kOutput: {
        ASSIGN_OR_RETURN(const PyValue value, Evaluate(*node.expression));
        work_.line = node.line;
        return Write(value);
      }
      case JinjaNode::Kind::kIf: {
        ASSIGN_OR_RETURN(const PyValue value, Evaluate(*node.expression));
        return Run(PyTrue(value) ? node.body : node.otherwise);
      }
      case JinjaNode::Kind::kFor:
        return For(node);
      case JinjaNode::Kind::kSet:
        return Set(node);
      case JinjaNode::Kind::kWith:
        return With(node);
      case JinjaNode::Kind::kGeneration: {
        const size_t begin = out.text.size();
        RETURN_IF_ERROR(RunInScope(node.body));
        out.generated.emplace_back(begin, out.text.size());
        return absl::OkStatus();
      }
      case JinjaNode::Kind::kMacro:
        scope_->names[node.text] = MacroOf(node);
        return absl::OkStatus();
      case JinjaNode::Kind::kCall: {
        ASSIGN_OR_RETURN(const PyValue callee, Evaluate(*node.expression->children[0]));
        ASSIGN_OR_RETURN(PyArguments arguments, Evaluated(*node.expression));
        arguments.named.emplace_back("caller", MacroOf(node));
        ASSIGN_OR_RETURN(const PyValue value, Call(callee, arguments, *node.expression));
        return Write(value);
      }
      case JinjaNode::Kind::kFilter: {
        ASSIGN_OR_RETURN(const PyValue text, TextOf(node.body));
        ASSIGN_OR_RETURN(const PyValue value, Filtered(*node.expression, text));
        return Write(value);
      }
      case JinjaNode::Kind::kBreak:
      case JinjaNode::Kind::kContinue:
        leaving_ = node.kind == JinjaNode::Kind::kBreak ? Leaving::kBreak : Leaving::kContinue;
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  PyValue MacroOf(const JinjaNode& node) {
    auto rep = std::make_shared<MacroRep>();
    rep->name = node.text;
    rep->node = &node;
    rep->scope = scope_;
    for (JinjaScope* scope = scope_; scope != nullptr && !scope->kept; scope = scope->parent) {
      scope->kept = true;
    }
    return PyValue(PyValue::Kind::kFunction, std::move(rep));
  }

  absl::Status Assign(const JinjaExpression& target, PyValue value) {
    if (target.kind == JinjaKind::kTuple) {
      ASSIGN_OR_RETURN(const std::vector<PyValue> values, PyItems(value, work_));
      if (values.size() != target.children.size()) {
        return work_.Wrong(absl::StrCat(PyTypeName(value), " of ", values.size(), " is not ",
                                        target.children.size(), " values"));
      }
      for (size_t i = 0; i < values.size(); ++i) {
        RETURN_IF_ERROR(Assign(*target.children[i], values[i]));
      }
      return absl::OkStatus();
    }
    if (target.kind == JinjaKind::kName) {
      scope_->names[target.text] = std::move(value);
      return absl::OkStatus();
    }
    const std::string& name = target.children[0]->text;
    const PyValue* named = Find(name);
    if (named == nullptr || !named->is(PyValue::Kind::kNamespace)) {
      return work_.Wrong(absl::StrCat("\"", name, "\" is no namespace"));
    }
    PyNamespaceRep& space = named->rep<PyNamespaceRep>();
    if (PyValue* known = space.Find(target.text)) {
      *known = std::move(value);
    } else {
      RETURN_IF_ERROR(work_.Spend(kScopeWork));
      space.attributes.emplace_back(target.text, std::move(value));
    }
    return absl::OkStatus();
  }

  absl::Status Set(const JinjaNode& node) {
    PyValue value;
    if (node.expression != nullptr) {
      ASSIGN_OR_RETURN(value, Evaluate(*node.expression));
    } else {
      ASSIGN_OR_RETURN(value, TextOf(node.body));
      if (leaving_ != Leaving::kNot) return absl::OkStatus();
      if (node.condition != nullptr) {
        ASSIGN_OR_RETURN(value, Filtered(*node.condition, value));
      }
    }
    work_.line = node.line;
    return Assign(*node.target, std::move(value));
  }

  absl::Status With(const JinjaNode& node) {
    RETURN_IF_ERROR(work_.Spend(kScopeWork));
    std::vector<PyValue> values;
    for (const auto& expression : node.values) {
      ASSIGN_OR_RETURN(values.emplace_back(), Evaluate(*expression));
    }
    const InScope scope(this, scope_);
    for (size_t i = 0; i < values.size(); ++i) {
      RETURN_IF_ERROR(Assign(*node.targets[i], std::move(values[i])));
    }
    return Run(node.body);
  }

  absl::Status For(const JinjaNode& node) {
    ASSIGN_OR_RETURN(const PyValue all, Evaluate(*node.expression));
    work_.line = node.line;
    ASSIGN_OR_RETURN(std::vector<PyValue> items, PyItems(all, work_));
    if (node.condition != nullptr) {
      std::vector<PyValue> kept;
      for (PyValue& item : items) {
        RETURN_IF_ERROR(work_.Spend(kScopeWork));
        const InScope scope(this, scope_);
        RETURN_IF_ERROR(Assign(*node.target, item));
        ASSIGN_OR_RETURN(const PyValue keep, Evaluate(*node.condition));
        if (PyTrue(keep)) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    const auto loop = std::make_shared<LoopRep>();
    for (const PyValue& item : items) loop->depth = std::max(loop->depth, item.depth() + 1);
    loop->items = std::move(items);
    bool otherwise = true;  // no body has come to its end
    for (; loop->at < loop->items.size(); ++loop->at) {
      work_.line = node.line;
      RETURN_IF_ERROR(work_.Spend(kScopeWork));
      const InScope scope(this, scope_);
      scope_->names["loop"] = PyValue(PyValue::Kind::kLoop, loop);
      RETURN_IF_ERROR(Assign(*node.target, loop->items[loop->at]));
      RETURN_IF_ERROR(Run(node.body));
      const Leaving left = std::exchange(leaving_, Leaving::kNot);
      if (left == Leaving::kBreak) {
        if (all.is(PyValue::Kind::kGenerator)) all.rep<PyGeneratorRep>().lost = true;
        break;
      }
      if (left == Leaving::kNot) otherwise = false;
    }
    return otherwise ? RunInScope(node.otherwise) : absl::OkStatus();
  }

  // ----------------------------------------------------------------- expressions

  const PyValue* Find(const std::string& name) const {
    for (const JinjaScope* scope = scope_; scope != nullptr; scope = scope->parent) {
      const auto found = scope->names.find(name);
      if (found != scope->names.end()) return &found->second;
    }
    return nullptr;
  }

  absl::StatusOr<PyValue> Evaluate(const JinjaExpression& e) {
    RETURN_IF_ERROR(work_.Spend(kStepWork));
    const Deeper deeper(this);
    if (depth_ > kMostLevels) return TooDeep();
    switch (e.kind) {
      case JinjaKind::kLiteral:
        return e.value;
      case JinjaKind::kName: {
        const PyValue* found = Find(e.text);
        if (found != nullptr) return *found;
        work_.line = e.line;
        if (e.text == "cycler" || e.text == "joiner" || e.text == "lipsum") {
          return work_.Refused("the function " + e.text);
        }
        return PyValue(PyValue::Kind::kUndefined, NameRep(e.text));
      }
      case JinjaKind::kList:
      case JinjaKind::kTuple: {
        std::vector<PyValue> items;
        for (const auto& child : e.children) {
          ASSIGN_OR_RETURN(items.emplace_back(), Evaluate(*child));
        }
        work_.line = e.line;
        return work_.List(std::move(items), e.kind == JinjaKind::kList ? PyValue::Kind::kList
                                                                       : PyValue::Kind::kTuple);
      }
      case JinjaKind::kDict: {
        std::vector<std::pair<PyValue, PyValue>> items;
        for (size_t i = 0; i < e.children.size(); i += 2) {
          ASSIGN_OR_RETURN(PyValue key, Evaluate(*e.children[i]));
          ASSIGN_OR_RETURN(PyValue value, Evaluate(*e.children[i + 1]));
          items.emplace_back(std::move(key), std::move(value));
        }
        work_.line = e.line;
        return work_.Dict(std::move(items));
      }
      case JinjaKind::kSlice: {
        PyValue values[4] = {{}, PyValue::None(), PyValue::None(), PyValue::None()};
        for (size_t i = 0; i < 4; ++i) {
          if (e.children[i] == nullptr) continue;
          ASSIGN_OR_RETURN(values[i], Evaluate(*e.children[i]));
        }
        work_.line = e.line;
        return PySlice(values[0], {values[1], values[2], values[3]}, work_);
      }
      case JinjaKind::kCall: {
        ASSIGN_OR_RETURN(const PyValue callee, Evaluate(*e.children[0]));
        ASSIGN_OR_RETURN(const PyArguments arguments, Evaluated(e));
        return Call(callee, arguments, e);
      }
      case JinjaKind::kFilter:
        return Filtered(e, PyValue());
      case JinjaKind::kBinary:
        return Binary(e);
      case JinjaKind::kConcat: {
        std::string text;
        for (const auto& child : e.children) {
          ASSIGN_OR_RETURN(const PyValue value, Evaluate(*child));
          work_.line = e.line;
          ASSIGN_OR_RETURN(const std::string part, PyText(value, work_));
          text += part;
        }
        return work_.Text(std::move(text));
      }
      case JinjaKind::kCompare:
        return Compare(e);
      case JinjaKind::kCondition: {
        ASSIGN_OR_RETURN(const PyValue condition, Evaluate(*e.children[1]));
        const JinjaExpression* chosen = e.children[PyTrue(condition) ? 0 : 2].get();
        return chosen == nullptr ? PyValue() : Evaluate(*chosen);
      }
      default:
        return OfOne(e);
    }
  }

  // What is made of child 0.
  absl::StatusOr<PyValue> OfOne(const JinjaExpression& e) {
    ASSIGN_OR_RETURN(const PyValue of, Evaluate(*e.children[0]));
    work_.line = e.line;
    switch (e.kind) {
      case JinjaKind::kAttribute:
        return of.is(PyValue::Kind::kLoop) ? OfLoop(of, e.text) : PyAttribute(of, e.text, work_);
      case JinjaKind::kItem: {
        ASSIGN_OR_RETURN(const PyValue key, Evaluate(*e.children[1]));
        work_.line = e.line;
        if (of.is(PyValue::Kind::kLoop) && key.is(PyValue::Kind::kString))
          return OfLoop(of, PyTextOf(key));
        return PyItem(of, key, work_);
      }
      case JinjaKind::kTest: {
        ASSIGN_OR_RETURN(const PyArguments arguments, Evaluated(e));
        work_.line = e.line;
        ASSIGN_OR_RETURN(const bool holds, JinjaTest(e.text, of, arguments, work_));
        return PyValue::Bool(holds);
      }
      case JinjaKind::kNot:
        return PyValue::Bool(!PyTrue(of));
      case JinjaKind::kPlus:
        if (of.number()) return of.is(PyValue::Kind::kBool) ? PyValue::Int(of.integer()) : of;
        return work_.Wrong("+ before " + PyTypeName(of));
      default:
        if (of.is(PyValue::Kind::kFloat)) return PyValue::Float(-of.real());
        if (!of.number()) return work_.Wrong("- before " + PyTypeName(of));
        return PyArithmetic("-", PyValue::Int(0), of, work_);
    }
  }

  absl::StatusOr<PyArguments> Evaluated(const JinjaExpression& e) {
    PyArguments arguments;
    for (size_t i = 1; i < e.children.size(); ++i) {
      ASSIGN_OR_RETURN(PyValue value, Evaluate(*e.children[i]));
      const std::string name = i - 1 < e.keywords.size() ? e.keywords[i - 1] : "";
      if (name.empty()) {
        arguments.values.push_back(std::move(value));
      } else if (name == "*") {
        ASSIGN_OR_RETURN(std::vector<PyValue> items, PyItems(value, work_));
        absl::c_move(items, std::back_inserter(arguments.values));
      } else {
        arguments.named.emplace_back(name, std::move(value));
      }
    }
    return arguments;
  }

  // `block`: what the filters of a block are over.
  absl::StatusOr<PyValue> Filtered(const JinjaExpression& e, const PyValue& block) {
    PyValue of = block;
    if (e.children[0] != nullptr) {
      const JinjaExpression& inner = *e.children[0];
      const bool chain = inner.kind == JinjaKind::kFilter;
      ASSIGN_OR_RETURN(of, chain ? Filtered(inner, block) : Evaluate(inner));
    }
    ASSIGN_OR_RETURN(const PyArguments arguments, Evaluated(e));
    work_.line = e.line;
    return JinjaFilter(e.text, of, arguments, work_);
  }

  absl::StatusOr<PyValue> Binary(const JinjaExpression& e) {
    ASSIGN_OR_RETURN(const PyValue left, Evaluate(*e.children[0]));
    if (e.text == "and" || e.text == "or") {
      if (PyTrue(left) == (e.text == "or")) return left;
      return Evaluate(*e.children[1]);
    }
    ASSIGN_OR_RETURN(const PyValue right, Evaluate(*e.children[1]));
    work_.line = e.line;
    return PyArithmetic(e.text, left, right, work_);
  }

  absl::StatusOr<PyValue> Compare(const JinjaExpression& e) {
    ASSIGN_OR_RETURN(PyValue left, Evaluate(*e.children[0]));
    for (size_t i = 0; i < e.keywords.size(); ++i) {
      const std::string& sign = e.keywords[i];
      ASSIGN_OR_RETURN(PyValue right, Evaluate(*e.children[i + 1]));
      work_.line = e.line;
      bool holds = false;
      if (sign == "==" || sign == "!=") {
        ASSIGN_OR_RETURN(const bool equal, PyEqual(left, right, work_));
        holds = equal == (sign == "==");
      } else if (absl::EndsWith(sign, "in")) {
        ASSIGN_OR_RETURN(const bool found, PyContains(right, left, work_));
        holds = found == (sign == "in");
      } else {
        ASSIGN_OR_RETURN(holds, PyCompare(sign, left, right, work_));
      }
      if (!holds) return PyValue::Bool(false);
      left = std::move(right);
    }
    return PyValue::Bool(true);
  }

  // ------------------------------------------------------------------------ calls

  absl::StatusOr<PyValue> OfLoop(const PyValue& value, const std::string& name) {
    LoopRep& loop = value.rep<LoopRep>();
    const auto at = static_cast<int64_t>(loop.at), count = static_cast<int64_t>(loop.items.size());
    if (name == "index") return PyValue::Int(at + 1);
    if (name == "index0") return PyValue::Int(at);
    if (name == "revindex") return PyValue::Int(count - at);
    if (name == "revindex0") return PyValue::Int(count - at - 1);
    if (name == "first") return PyValue::Bool(at == 0);
    if (name == "last") return PyValue::Bool(at + 1 == count);
    if (name == "length") return PyValue::Int(count);
    if (name == "depth") return PyValue::Int(1);
    if (name == "depth0") return PyValue::Int(0);
    if (name == "previtem") return at > 0 ? loop.items[loop.at - 1] : PyValue();
    if (name == "nextitem") return at + 1 < count ? loop.items[loop.at + 1] : PyValue();
    if (name != "cycle" && name != "changed") return PyValue();
    auto rep = std::make_shared<LoopMethodRep>();
    rep->name = "loop." + name;
    rep->loop = value;
    rep->depth = value.depth() + 1;
    return PyValue(PyValue::Kind::kFunction, std::move(rep));
  }

  absl::StatusOr<PyValue> Call(const PyValue& callee, const PyArguments& arguments,
                               const JinjaExpression& e) {
    work_.line = e.line;
    RETURN_IF_ERROR(work_.Spend(kStepWork));
    if (callee.is(PyValue::Kind::kMethod))
      return PyCallMethod(callee.rep<PyMethodRep>(), arguments, work_);
    if (!callee.is(PyValue::Kind::kFunction)) {
      const JinjaExpression& named = *e.children[0];
      const bool function = named.kind == JinjaKind::kName;
      if (callee.undefined()) {
        return work_.Wrong(
            absl::StrCat("there is no ", function ? "function " : "method ", named.text));
      }
      return work_.Wrong(absl::StrCat(PyTypeName(callee), " can't be called"));
    }
    const std::string& name = callee.rep<PyFunctionRep>().name;
    if (const auto* macro = dynamic_cast<MacroRep*>(&callee.rep<PyFunctionRep>())) {
      return CallMacro(*macro, arguments);
    }
    if (const auto* of_loop = dynamic_cast<LoopMethodRep*>(&callee.rep<PyFunctionRep>())) {
      return CallOfLoop(name, of_loop->loop.rep<LoopRep>(), arguments);
    }
    if (name == "raise_exception") {
      ASSIGN_OR_RETURN(const PyParameters given,
                       PyParameters::Bind(name, "message!", arguments, work_));
      ASSIGN_OR_RETURN(const std::string why, PyText(given.value(0), work_));
      return work_.Wrong(absl::StrCat("the template raises: ", why));
    }
    if (name == "strftime_now") return Date(arguments);
    if (name == "range") return Range(arguments);
    return SpaceOrDict(name, arguments);
  }

  absl::StatusOr<PyValue> CallOfLoop(const std::string& name, LoopRep& loop,
                                     const PyArguments& arguments) {
    const std::vector<PyValue>& values = arguments.values;
    if (!arguments.named.empty() || values.empty()) return work_.Wrong(name + " takes values");
    if (name == "loop.cycle") return values[loop.at % values.size()];
    bool same = loop.changed.size() == values.size();
    for (size_t i = 0; same && i < values.size(); ++i) {
      ASSIGN_OR_RETURN(same, PyEqual(loop.changed[i], values[i], work_));
    }
    if (same) return PyValue::Bool(false);
    for (const PyValue& value : values) {
      if (value.is(PyValue::Kind::kLoop) || value.is(PyValue::Kind::kFunction)) {
        return work_.Refused("loop.changed of " + PyTypeName(value));
      }
      loop.depth = std::max(loop.depth, value.depth() + 1);
      if (loop.depth > JinjaWork::kMostDepth) return TooDeep();
    }
    loop.changed = values;
    return PyValue::Bool(true);
  }

  absl::StatusOr<PyValue> CallMacro(const MacroRep& macro, const PyArguments& arguments) {
    const JinjaNode& node = *macro.node;
    RETURN_IF_ERROR(work_.Spend(kScopeWork));
    const InScope scope(this, macro.scope);
    std::vector<std::pair<std::string, PyValue>> named = arguments.named;
    const auto take = [&](const std::string& name, PyValue* value) {
      const auto found = std::find_if(named.begin(), named.end(),
                                      [&](const auto& one) { return one.first == name; });
      if (found == named.end()) return false;
      *value = std::move(found->second);
      named.erase(found);
      return true;
    };
    for (size_t i = 0; i < node.names.size(); ++i) {
      PyValue value(PyValue::Kind::kUndefined, NameRep(node.names[i]));
      if (i < arguments.values.size()) {
        value = arguments.values[i];
      } else if (!take(node.names[i], &value) && node.values[i] != nullptr) {
        ASSIGN_OR_RETURN(value, Evaluate(*node.values[i]));
      }
      scope_->names[node.names[i]] = std::move(value);
    }
    if (node.takes_caller) {
      PyValue caller(PyValue::Kind::kUndefined, NameRep("caller"));
      take("caller", &caller);
      scope_->names["caller"] = std::move(caller);
    }
    if (node.takes_named) {
      std::vector<std::pair<PyValue, PyValue>> rest;
      for (auto& [name, value] : named) {
        ASSIGN_OR_RETURN(PyValue key, work_.Text(name));
        rest.emplace_back(std::move(key), std::move(value));
      }
      ASSIGN_OR_RETURN(scope_->names["kwargs"], work_.Dict(std::move(rest)));
    } else if (!named.empty()) {
      return work_.Wrong(
          absl::StrCat("the macro ", macro.name, " has no argument ", named.front().first));
    }
    const size_t taken = std::min(arguments.values.size(), node.names.size());
    if (node.takes_values) {
      ASSIGN_OR_RETURN(scope_->names["varargs"],
                       work_.List({arguments.values.begin() + static_cast<std::ptrdiff_t>(taken),
                                   arguments.values.end()},
                                  PyValue::Kind::kTuple));
    } else if (taken < arguments.values.size()) {
      return work_.Wrong(absl::StrCat("the macro ", macro.name, " takes ", node.names.size(),
                                      " arguments, not ", arguments.values.size()));
    }
    return TextOf(node.body);
  }

  // As Python's datetime.now().strftime().
  absl::StatusOr<PyValue> Date(const PyArguments& arguments) {
    ASSIGN_OR_RETURN(const PyParameters given,
                     PyParameters::Bind("strftime_now", "format!", arguments, work_));
    ASSIGN_OR_RETURN(std::string format, given.Text(0, "", work_));
    if (format.size() > 1000 || absl::StrContains(format, "%f") ||
        absl::StrContains(format, '\0')) {
      return work_.Refused("strftime_now with such a format");
    }
    if (format.empty()) return work_.Text("");
    std::tm time = {};
    time.tm_year = static_cast<int>(now_->year() - 1900);
    time.tm_mon = now_->month() - 1;
    time.tm_mday = now_->day();
    time.tm_hour = now_->hour();
    time.tm_min = now_->minute();
    time.tm_sec = now_->second();
    time.tm_wday = (static_cast<int>(absl::GetWeekday(*now_)) + 1) % 7;
    time.tm_yday = absl::GetYearDay(absl::CivilDay(*now_)) - 1;
    time.tm_isdst = -1;
    std::string text(format.size() * 64 + 64, '\0');
    format += ' ';  // an empty text is no failure
    const size_t written = std::strftime(text.data(), text.size(), format.c_str(), &time);
    if (written == 0) return work_.Refused("strftime_now with such a format");
    text.resize(written - 1);
    return work_.Text(std::move(text));
  }

  absl::StatusOr<PyValue> Range(const PyArguments& arguments) {
    int64_t bounds[3] = {0, 0, 1};
    const size_t count = arguments.values.size();
    for (size_t i = 0; i < count && i < 3; ++i) {
      if (!arguments.values[i].integral()) return work_.Wrong("range() without a number");
      bounds[count == 1 ? 1 : i] = arguments.values[i].integer();
    }
    if (bounds[2] == 0 || count == 0 || count > 3 || !arguments.named.empty()) {
      return work_.Wrong("range() takes one to three numbers, the last not 0");
    }
    std::vector<PyValue> items;
    for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
      if (items.size() == static_cast<size_t>(kMaxRange)) {
        return work_.Wrong(absl::StrCat("a range of more than ", kMaxRange));
      }
      items.push_back(PyValue::Int(i));
      if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    return work_.List(std::move(items), PyValue::Kind::kView);
  }

  // namespace() and dict().
  absl::StatusOr<PyValue> SpaceOrDict(const std::string& name, const PyArguments& arguments) {
    std::vector<std::pair<PyValue, PyValue>> items;
    if (!arguments.values.empty()) {
      if (!arguments.values[0].is(PyValue::Kind::kDict) || arguments.values.size() > 1) {
        return work_.Refused(name + "() of anything but one dictionary and names");
      }
      items = PyDictOf(arguments.values[0]).items();
    }
    for (const auto& [key, value] : arguments.named) {
      ASSIGN_OR_RETURN(PyValue text, work_.Text(key));
      items.emplace_back(std::move(text), value);
    }
    if (name == "dict") return work_.Dict(std::move(items));
    RETURN_IF_ERROR(work_.Spend(kScopeWork * (1 + items.size())));
    PyNamespaceRep& space = namespaces_.emplace_back();
    for (auto& [key, value] : items) {
      if (!key.is(PyValue::Kind::kString)) continue;
      if (PyValue* known = space.Find(PyTextOf(key))) {
        *known = std::move(value);
      } else {
        space.attributes.emplace_back(PyTextOf(key), std::move(value));
      }
    }
    // It belongs to the renderer: namespaces may hold one another.
    return PyValue(PyValue::Kind::kNamespace,
                   std::shared_ptr<PyRep>(std::shared_ptr<PyRep>(), &space));
  }

  // For messages: what is undefined has the name that was looked for.
  std::shared_ptr<PyRep> NameRep(const std::string& name) {
    auto& rep = undefined_[name];
    if (rep == nullptr) {
      rep = std::make_shared<PyTextRep>();
      rep->text = name;
    }
    return rep;
  }

  const ChatClock now_;
  JinjaWork work_;
  JinjaScope root_;
  JinjaScope* scope_ = nullptr;
  std::deque<PyNamespaceRep> namespaces_;
  std::vector<std::unique_ptr<JinjaScope>> kept_scopes_;
  std::map<std::string, std::shared_ptr<PyTextRep>> undefined_;
  Leaving leaving_ = Leaving::kNot;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<JinjaText> RenderJinja(const JinjaTemplate& parsed, const JinjaValue& variables,
                                      ChatClock now, absl::string_view file) {
  Renderer renderer(variables, now, file);
  RETURN_IF_ERROR(renderer.Start(variables));
  RETURN_IF_ERROR(renderer.Run(parsed.nodes));
  return std::move(renderer.out);
}

}  // namespace spillway
