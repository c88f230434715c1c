// The command line that runs a worker on another host.
#pragma once

#include <string>
#include <vector>

namespace lockstep::local {

// `text` as one word of any shell's: as it is where that is safe, else in single quotes. It has no
// control characters.
std::string ShellWord(const std::string& text);
// `words` as a person would type them.
std::string ShellLine(const std::vector<std::string>& words);

// `ssh`, then `host` and a command line for the shell there: it runs `program`, a worker that reads
// its configuration from standard input and stops when that ends. No setting is in it, because
// any user may look at the processes of a host.
std::vector<std::string> RemoteCommand(const std::vector<std::string>& ssh, const std::string& host,
                                       const std::string& program);

}  // namespace lockstep::local
