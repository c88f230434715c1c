#include "services/local/remote_command.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace lockstep::local {

std::string ShellWord(const std::string& text) {
  // Some shells expand a leading '='.
  const bool is_plain =
      !text.empty() && text.front() != '=' && std::all_of(text.begin(), text.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               (c != '\0' && std::strchr("_./-+:@%,=", c) != nullptr);
      });
  if (is_plain) return text;
  std::string quoted = "'";
  for (const char c : text) {
    // A quote and a backslash stand outside of the quotes: in them, shells differ.
    if (c == '\'' || c == '\\') {
      quoted += std::string("'\\") + c + "'";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string ShellLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + ShellWord(word);
  return line;
}

std::vector<std::string> RemoteCommand(const std::vector<std::string>& ssh, const std::string& host,
                                       const std::string& program) {
  std::vector<std::string> command = ssh;
  command.push_back(host);
  // The shell's place is taken: no process between ssh and the worker outlives either.
  command.push_back("exec " + ShellLine({program, "--config", "-", "--die-with-input"}));
  return command;
}

}  // namespace lockstep::local
