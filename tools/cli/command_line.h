// The command line as the commands declare it: what may be said, what is checked, what the help
// tells, and what shall happen.
//
// CLI11 does the work behind these handles. It is a header that takes longer to compile than all
// else in a command's file together, so only command_line.cc includes it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep::cli {

// A handle, good for as long as its CommandLine.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& Required();
  // What stands for the value in the help; "": nothing.
  Option& Placeholder(const std::string& name);
  Option& ShowDefault();

  Option& Between(int first, int last);
  Option& Between(double first, double last);
  // Whatever the case of its letters.
  Option& OneOf(const std::vector<std::string>& values);
  Option& ExistingDirectory();
  // May be given often, each time with one value.
  Option& Repeatable();
  Option& Excludes(const Option& other);
  Option& Needs(const Option& other);

 private:
  CLI::Option* option_;
};

// What may be said, for programs that complete it.
struct Words {
  struct Flag {
    std::vector<std::string> names;  // "-c", "--connect"
    std::string doc;                 // its first line
    bool takes_value = false;
  };
  std::string name;
  std::string doc;
  std::vector<Flag> flags;
  std::vector<Words> commands;
};

// What a command does when it is chosen. Executed after parsing, so that CLI11 is out of the way.
using Action = std::function<Status()>;

// A handle, good for as long as its CommandLine. Fields that options store into are borrowed for
// that long, too.
class Command {
 public:
  Command(CLI::App* app, Action* chosen) : app_(app), chosen_(chosen) {}

  Command AddCommand(const std::string& name, const std::string& doc);
  // One of its commands must be chosen.
  void RequireCommand();

  // `names` is "-t,--timeout", or "FILE" for what is told by its place.
  Option Add(const std::string& names, std::string& field, const std::string& doc);
  Option Add(const std::string& names, std::vector<std::string>& field, const std::string& doc);
  Option Add(const std::string& names, std::optional<int>& field, const std::string& doc);
  Option Add(const std::string& names, double& field, const std::string& doc);
  Option Add(const std::string& names, const std::function<void(const std::string&)>& store,
             const std::string& doc);
  Option AddFlag(const std::string& names, bool& field, const std::string& doc);
  // One that was added before.
  Option Get(const std::string& name) const;

  // All that may be said from here on.
  Words Describe() const;

  // The help's last lines: examples (each indented by two spaces), then the exit codes.
  void Examples(const std::string& examples);

  void Do(Action action);

 private:
  CLI::App* app_;
  Action* chosen_;
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& version, const std::string& doc);
  ~CommandLine();

  Command root() { return Command(app_.get(), &chosen_); }
  std::string Help() const;

  // What is to be done; nothing more after --help and --version, which have been answered.
  // kInvalidArgument for a mistake, with how to learn more.
  StatusOr<Action> Parse(int argc, char** argv);

 private:
  // The words from `first` on are commands as far as commands are required.
  Status CheckCommand(int argc, char** argv, int first) const;

  const std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,             // the command failed: a worker's error, a wait that was too long
  kUsage = 2,              // wrong arguments, or a wrong file: nothing was executed
  kUnreachable = 3,        // no cluster answers
  kExpectationFailed = 4,  // a program ran to its end, but not every `expect` held
  kNotInOrder = 5,         // --exit-code: the cluster answers, and something is wrong with it
  kInterrupted = 130,      // ^C ended the command before it was done, as shells count it
};

// What every --help ends with.
inline constexpr char kExitCodesHelp[] =
    "Exit codes: 0 ok, 1 failed, 2 wrong arguments or file, 3 no cluster answers,\n"
    "            4 an expectation failed, 5 not in order (--exit-code),\n"
    "            130 interrupted";

// `status` with the exit code that it shall lead to; OK stays OK.
Status WithExitCode(Status status, ExitCode code);

// kOk for OK, else what WithExitCode() attached, else kFailed.
ExitCode ExitCodeOf(const Status& status);

template <typename... Parts>
Status UsageError(const Parts&... parts) {
  return WithExitCode(InvalidArgument(parts...), ExitCode::kUsage);
}

}  // namespace lockstep::cli
