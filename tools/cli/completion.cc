#include "tools/cli/completion.h"

#include <functional>
#include <string_view>
#include <vector>

namespace lockstep::cli {
namespace {

// Between single quotes of a shell.
std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Calls `visit` with each command of the tree, and the words that lead to it ("keys new").
void ForEach(const Words& command, const std::string& path,
             const std::function<void(const std::string& path, const Words&)>& visit) {
  visit(path, command);
  for (const Words& inner : command.commands) {
    ForEach(inner, path.empty() ? inner.name : path + " " + inner.name, visit);
  }
}

std::string CommandsOf(const Words& command) {
  std::string names;
  for (const Words& inner : command.commands) names += (names.empty() ? "" : " ") + inner.name;
  return names;
}

// Those that take a value, or that do not.
std::string FlagsOf(const Words& command, bool take_value) {
  std::string names;
  for (const Words::Flag& flag : command.flags) {
    if (flag.takes_value != take_value) continue;
    for (const std::string& name : flag.names) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}

// The tables that the functions below look in: by the words that lead to a command.
std::string Tables(const Words& program) {
  std::string text;
  const auto add = [&](const std::string& table, const auto& words_of) {
    text += "  typeset -A " + table + "\n";
    ForEach(program, "", [&](const std::string& path, const Words& command) {
      text += "  " + table + "[" + Quoted("/" + path) + "]=" + Quoted(words_of(command)) + "\n";
    });
  };
  add("commands", CommandsOf);
  add("valued", [](const Words& command) { return FlagsOf(command, true); });
  add("plain", [](const Words& command) { return FlagsOf(command, false); });
  return text;
}

// Steps over the words before the cursor: `at` is the command that they lead to.
constexpr char kWalk[] = R"(
  local at=/ word skip= i
  for word in "${before[@]}"; do
    if [[ -n $skip ]]; then
      skip=
    elif [[ " ${valued[$at]} " == *" $word "* ]]; then
      skip=1
    elif [[ " ${commands[$at]} " == *" $word "* ]]; then
      if [[ $at == / ]]; then at=/$word; else at="$at $word"; fi
    fi
  done
)";

std::string Bash(const Words& program) {
  return "# bash completion for " + program.name + ": source <(" + program.name +
         " completion bash)\n_" + program.name + "() {\n" + Tables(program) +
         "  local current=${COMP_WORDS[COMP_CWORD]}\n"
         "  local before=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n" +
         kWalk +
         R"(  COMPREPLY=()
  if [[ -n $skip ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "${valued[$at]} ${plain[$at]}" -- "$current"))
  elif [[ -n ${commands[$at]} ]]; then
    COMPREPLY=($(compgen -W "${commands[$at]}" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
)" + "complete -o filenames -F _" +
         program.name + " " + program.name + "\n";
}

std::string Zsh(const Words& program) {
  return "#compdef " + program.name + "\n# zsh completion for " + program.name + ": source <(" +
         program.name + " completion zsh)\n_" + program.name + "() {\n  emulate -L zsh\n" +
         Tables(program) +
         "  local current=${words[CURRENT]}\n"
         "  local before=(\"${(@)words[2,CURRENT-1]}\")\n" +
         kWalk +
         R"(  if [[ -n $skip ]]; then
    _files
  elif [[ $current == -* ]]; then
    compadd -- ${=valued[$at]} ${=plain[$at]}
  elif [[ -n ${commands[$at]} ]]; then
    compadd -- ${=commands[$at]}
  else
    _files
  fi
}
)" + "compdef _" +
         program.name + " " + program.name + "\n";
}

std::string Fish(const Words& program) {
  std::string text =
      "# fish completion for " + program.name + ": " + program.name + " completion fish | source\n";
  ForEach(program, "", [&](const std::string& path, const Words& command) {
    // True where the words before the cursor lead to this command.
    std::string condition;
    if (path.empty()) {
      condition = "__fish_use_subcommand";
    } else {
      std::string rest = path;
      for (size_t blank = 0; blank != std::string::npos;) {
        blank = rest.find(' ');
        condition += (condition.empty() ? "" : "; and ") +
                     std::string("__fish_seen_subcommand_from ") + rest.substr(0, blank);
        if (blank != std::string::npos) rest = rest.substr(blank + 1);
      }
    }
    const std::string start = "complete -c " + program.name + " -n " + Quoted(condition);
    for (const Words& inner : command.commands) {
      text += start + " -f -a " + Quoted(inner.name) + " -d " + Quoted(inner.doc) + "\n";
    }
    for (const Words::Flag& flag : command.flags) {
      text += start;
      for (const std::string& name : flag.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      text += (flag.takes_value ? " -r" : "") + std::string(" -d ") + Quoted(flag.doc) + "\n";
    }
  });
  return text;
}

}  // namespace

StatusOr<std::string> CompletionScript(const std::string& shell, const Words& program) {
  if (shell == "bash") return Bash(program);
  if (shell == "zsh") return Zsh(program);
  if (shell == "fish") return Fish(program);
  return InvalidArgument("there is no completion for \"", shell, "\"; for bash, zsh and fish");
}

}  // namespace lockstep::cli
