#include "runtime/plan/passes/program_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/strings/escaping.h"

namespace lockstep::plan {
namespace {

// Where source lines stand, unless what is before them is longer.
constexpr size_t kSourceColumn = 56;

std::string Quoted(const std::string& text) { return '"' + absl::Utf8SafeCEscape(text) + '"'; }

// As it is, if it is a word; else quoted: names are any text.
std::string Word(const std::string& name) {
  const bool is_word = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_.-:/").find(c) != std::string_view::npos;
  });
  return is_word ? name : Quoted(name);
}

// "0-3, 7": all of them.
std::string Ranges(absl::Span<const Rank> ranks) {
  std::ostringstream text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text << (i == 0 ? "" : ", ") << ranks[i];
    if (end - i > 1) text << '-' << ranks[end - 1];
    i = end;
  }
  return text.str();
}

std::string TextOf(const Layout& layout) {
  std::ostringstream text;
  const std::vector<MeshAxis>& axes = layout.mesh().axes();
  text << layout.dtype() << layout.shape() << " on ";
  for (size_t a = 0; a < axes.size(); ++a) {
    text << (a == 0 ? "" : ",") << Word(axes[a].name) << '=' << axes[a].size;
  }
  text << " {" << Ranges(layout.mesh().ranks()) << "}: ";
  for (size_t a = 0; a < axes.size(); ++a) {
    text << (a == 0 ? "" : ", ") << layout.placements()[a].ToString();
  }
  return text.str();
}

std::string TextOf(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  const std::string shortest(text, end);
  const bool looks_whole = shortest.find_first_not_of("-0123456789") == std::string::npos;
  return looks_whole ? shortest + ".0" : shortest;
}

std::string TextOf(const Literal& literal) {
  return std::visit(
      []<typename T>(const T& value) -> std::string {
        if constexpr (std::is_same_v<T, bool>) {
          return value ? "true" : "false";
        } else if constexpr (std::is_same_v<T, int64_t>) {
          return std::to_string(value);
        } else if constexpr (std::is_same_v<T, double>) {
          return TextOf(value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return Quoted(value);
        } else if constexpr (std::is_same_v<T, Shape>) {
          return value.ToString();
        } else {
          return std::string(Name(value));
        }
      },
      literal);
}

class Writer {
 public:
  Writer(const Program& program, absl::Span<const std::string> names)
      : program_(program), is_shown_(program.values().size(), false) {
    NameValues(names);
    NumberLayouts();
  }

  std::string Write() {
    for (size_t i = 0; i < layouts_.size(); ++i) {
      Line("L" + std::to_string(i) + " = " + TextOf(*layouts_[i]));
    }
    if (!layouts_.empty()) Line("");
    for (const ValueId id : program_.inputs()) {
      Line("input " + NamedAs(id) + ": " + LayoutName(id));
      is_shown_[static_cast<size_t>(id)] = true;
    }
    for (const ProgramOp& op : program_.ops()) {
      WriteMade(op);
      Line(std::visit([&](const auto& what) { return Text(what); }, op.what), op.where);
    }
    for (const ValueId id : program_.outputs()) Line("output " + NamedAs(id));
    return text_;
  }

  std::string Write(const LoweredProgram& lowered) {
    for (const LoweredOp& op : lowered.ops) {
      const ProgramOp& source = program_.ops()[op.op];
      const auto* const call = std::get_if<CallOp>(&source.what);
      if (const auto* const chunk = std::get_if<ChunkOp>(&source.what)) {
        Line(Text(*chunk) + (op.in_place ? ", in its place where it lies in a row" : ""),
             source.where);
      } else if (call == nullptr) {
        Line(NameOf(op.result) + " = " + op.reshard->Describe() + " of " + NameOf(op.source),
             source.where);
      } else {
        const std::string result = call->result == kNoValue ? "" : NameOf(call->result) + " = ";
        Line(result + Called(*call), source.where);
      }
    }
    for (size_t i = 0; i < lowered.lies_in.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      if (lowered.lies_in[i] != id) Line(NameOf(id) + " lies in " + NameOf(lowered.lies_in[i]));
    }
    return text_;
  }

 private:
  void Line(std::string line, const std::string& where = "") {
    if (!where.empty()) {
      line.resize(std::max(line.size() + 2, kSourceColumn), ' ');
      line += "# " + absl::Utf8SafeCEscape(where);
    }
    text_ += line + '\n';
  }

  void NameValues(absl::Span<const std::string> names) {
    std::map<std::string, int> uses;
    for (size_t i = 0; i < program_.values().size(); ++i) {
      const bool is_given = i < names.size() && !names[i].empty();
      const ProgramValue& value = program_.values()[i];
      names_.push_back(is_given ? names[i] : value.name);
      // Of values before it.
      const std::string whole =
          value.chunk_of == kNoValue ? "" : names_[static_cast<size_t>(value.chunk_of)];
      if (!whole.empty()) names_.back() = whole + "." + std::to_string(value.chunk + 1);
      ++uses[names_.back()];
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      const bool is_only = !names_[i].empty() && uses[names_[i]] == 1;
      const std::string word = names_[i].empty() ? "" : Word(names_[i]);
      names_[i] = is_only ? word : word + '%' + std::to_string(i);
    }
  }

  void NumberLayouts() {
    for (const ProgramValue& value : program_.values()) {
      const auto known = std::find_if(layouts_.begin(), layouts_.end(), [&](const Layout* layout) {
        return *layout == value.layout;
      });
      layout_numbers_.push_back(static_cast<size_t>(known - layouts_.begin()));
      if (known == layouts_.end()) layouts_.push_back(&value.layout);
    }
  }

  const std::string& NameOf(ValueId id) const { return names_[static_cast<size_t>(id)]; }
  std::string LayoutName(ValueId id) const {
    return "L" + std::to_string(layout_numbers_[static_cast<size_t>(id)]);
  }
  // Of an input or output, whose name the caller knows: "x", or "x = x%3".
  std::string NamedAs(ValueId id) const {
    const std::string name = Word(program_.value(id).name);
    return name == NameOf(id) ? name : name + " = " + NameOf(id);
  }
  std::string Declared(ValueId id) const { return NameOf(id) + ": " + LayoutName(id) + " = "; }

  // What the program has made for calls to write to, before the first of them.
  void WriteMade(const ProgramOp& op) {
    const auto* const call = std::get_if<CallOp>(&op.what);
    if (call == nullptr) {
      is_shown_[static_cast<size_t>(op.ends()->result)] = true;
      return;
    }
    if (call->result != kNoValue) is_shown_[static_cast<size_t>(call->result)] = true;
    for (const CallArgument& argument : call->arguments) {
      if (argument.use == CallArgument::Use::kLiteral) continue;
      if (is_shown_[static_cast<size_t>(argument.value)]) continue;
      is_shown_[static_cast<size_t>(argument.value)] = true;
      Line(Declared(argument.value) + "make");
    }
  }

  std::string Text(const CallArgument& argument) const {
    switch (argument.use) {
      case CallArgument::Use::kLiteral:
        return TextOf(argument.literal);
      case CallArgument::Use::kRead:
        return NameOf(argument.value);
      case CallArgument::Use::kWrite:
        return "write " + NameOf(argument.value);
      case CallArgument::Use::kUpdate:
        return "update " + NameOf(argument.value);
    }
    return "";
  }
  std::string Called(const CallOp& call) const {
    std::string text = Word(program_.functions()[static_cast<size_t>(call.function)]) + '(';
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      text += (i == 0 ? "" : ", ") + Text(call.arguments[i]);
    }
    text += ')';
    if (!call.chunks.has_value()) return text;
    const Chunks& chunks = *call.chunks;
    return text + " in " + std::to_string(chunks.count) + " chunks along " +
           std::to_string(chunks.along) + " of argument " + std::to_string(chunks.argument) +
           ", to " + std::to_string(chunks.result_along);
  }

  std::string Text(const CallOp& call) const {
    return (call.result == kNoValue ? "" : Declared(call.result)) + Called(call);
  }
  std::string Text(const ReshardOp& reshard) const {
    return Declared(reshard.result) + "reshard " + NameOf(reshard.source);
  }
  std::string Text(const ViewOp& view) const {
    const bool is_copy = program_.value(view.source).layout == program_.value(view.result).layout;
    return Declared(view.result) + (is_copy ? "copy " : "view ") + NameOf(view.source);
  }
  std::string Text(const ChunkOp& op) const {
    const std::string chunk = "chunk " + std::to_string(op.number + 1) + " of " +
                              std::to_string(op.cut->count()) + " along " + std::to_string(op.dim);
    return op.puts ? "put " + NameOf(op.source) + " into " + chunk + " of " + NameOf(op.result)
                   : Declared(op.result) + chunk + " of " + NameOf(op.source);
  }
  std::string Text(const CollectiveOp& op) const {
    Collective what = op.what;
    what.axis = Word(what.axis);
    return Declared(op.result) + what.ToString(NameOf(op.source));
  }

  const Program& program_;
  std::vector<std::string> names_;      // by value
  std::vector<size_t> layout_numbers_;  // by value
  std::vector<const Layout*> layouts_;  // each once
  std::vector<bool> is_shown_;          // by value: a line has said what it is
  std::string text_;
};

}  // namespace

std::string ToText(const Program& program, absl::Span<const std::string> names) {
  return Writer(program, names).Write();
}

std::string ToText(const LoweredProgram& lowered, absl::Span<const std::string> names) {
  return Writer(*lowered.program, names).Write(lowered);
}

}  // namespace lockstep::plan
