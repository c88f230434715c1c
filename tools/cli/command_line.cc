#include "tools/cli/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/strings/cord.h"
#include "services/config/settings.h"

namespace lockstep::cli {
namespace {

// CLI11's help without what the descriptions say better: which options exclude or need each other.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(34); }
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (!option->get_type_name().empty()) text += " " + option->get_type_name();
    if (!option->get_default_str().empty()) text += " (" + option->get_default_str() + ")";
    if (option->get_required()) text += " (required)";
    return text;
  }
};

// `help COMMAND...` is `COMMAND... --help`. Both with the last word first.
std::vector<std::string> HelpAsked(const std::vector<std::string>& words) {
  std::vector<std::string> asked = {"--help"};
  asked.insert(asked.end(), words.begin(), words.end() - 1);
  return asked;
}

// The command line as CLI11 wants it: last argument first. CLI11 would take "[2, 3]" apart as a
// list of its own, and refuses a "--" that stands behind the first of the arguments of `call`.
// There a blank in front, which means nothing in YAML, tells it what is a value.
std::vector<std::string> ReversedArguments(int argc, char** argv) {
  const bool is_call = std::string_view(argv[1]) == "call";
  bool only_values = false;
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (is_call && !only_values && argument == "--") {
      only_values = true;
      continue;
    }
    const bool is_value = argument.starts_with('[') || (only_values && argument.starts_with('-'));
    arguments.emplace_back(is_value ? " " : "");
    arguments.back() += argument;
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

// Like CLI::Range, whose error does not say that a word is no number. CLI11 puts the option's name
// in front.
template <typename Number>
CLI::Validator InRange(Number first, Number last, const char* kind) {
  const auto check = [first, last, kind](const std::string& text) {
    Number number{};
    const bool is_number = CLI::detail::lexical_cast(text, number);
    if (is_number && number >= first && number <= last) return std::string();
    std::ostringstream error;
    error << '"' << text << "\" is not " << kind << " from " << first << " to " << last
          << "; expected one such as " << std::clamp(Number{4}, first, last);
    return error.str();
  };
  return CLI::Validator(check, "");
}

// How a word may have been meant, for the end of a message; empty: it is like none of the known.
std::string DidYouMean(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = config::Nearest(word, known);
  return nearest.empty() ? "" : " (did you mean \"" + nearest + "\"?)";
}

// The command that was chosen last: "keys new".
CLI::App& Deepest(CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : Deepest(*chosen.front());
}

// The same with those above it: "lockstep keys new".
std::string PathTo(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app.get_name() : app.get_name() + " " + PathTo(*chosen.front());
}

// The first option, or command, that the command does not have, with what may have been meant;
// empty: none.
std::string DescribeUnknown(const CLI::App& app, const Words& words) {
  std::vector<std::string> options;
  for (const Words::Flag& flag : words.flags) {
    options.insert(options.end(), flag.names.begin(), flag.names.end());
  }
  std::vector<std::string> commands;
  for (const Words& command : words.commands) commands.push_back(command.name);
  for (const std::string& word : app.remaining(true)) {
    const std::string option = word.substr(0, word.find('='));
    if (option.size() > 1 && option.front() == '-' && option != "--") {
      return "there is no option " + option + DidYouMean(option, options);
    }
    if (!commands.empty())
      return "there is no command \"" + word + '"' + DidYouMean(word, commands);
  }
  return "";
}

// A command, or an option's value, that is missing; else CLI11's own words.
std::string DescribeError(const CLI::App& app, const CLI::ParseError& error, const Words& words) {
  const bool needs_command = app.get_require_subcommand_min() > 0 && app.get_subcommands().empty();
  if (needs_command && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    std::string names;
    for (const Words& command : words.commands) {
      names += (names.empty() ? "" : ", ") + command.name;
    }
    return "a command is missing: " + names;
  }
  const std::string text = error.what();
  const bool lacks_value = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  if (lacks_value && text.find(" required ") != std::string::npos) {
    return text.substr(0, text.find(':')) + " is given without its value";
  }
  return text;
}

constexpr char kPayloadUrl[] = "lockstep/cli/exit_code";

}  // namespace

Option& Option::Required() {
  option_->required();
  return *this;
}

Option& Option::Placeholder(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option& Option::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

// The descriptions say what is allowed: CLI11's own words for it would come twice.
Option& Option::Between(int first, int last) {
  option_->check(InRange(first, last, "a whole number"));
  return *this;
}

Option& Option::Between(double first, double last) {
  option_->check(InRange(first, last, "a number"));
  return *this;
}

Option& Option::OneOf(const std::vector<std::string>& values) {
  option_->check(CLI::IsMember(values, CLI::ignore_case));
  return *this;
}

Option& Option::ExistingDirectory() {
  option_->check(CLI::Validator(CLI::ExistingDirectory).description(""));
  return *this;
}

Option& Option::Repeatable() {
  option_->expected(1)->take_all();
  return *this;
}

Option& Option::Excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::Needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Command Command::AddCommand(const std::string& name, const std::string& doc) {
  return Command(app_->add_subcommand(name, doc), chosen_);
}

void Command::RequireCommand() { app_->require_subcommand(1); }

Option Command::Add(const std::string& names, std::string& field, const std::string& doc) {
  return Option(app_->add_option(names, field, doc));
}

Option Command::Add(const std::string& names, std::vector<std::string>& field,
                    const std::string& doc) {
  return Option(app_->add_option(names, field, doc));
}

Option Command::Add(const std::string& names, std::optional<int>& field, const std::string& doc) {
  return Option(app_->add_option(names, field, doc));
}

Option Command::Add(const std::string& names, double& field, const std::string& doc) {
  return Option(app_->add_option(names, field, doc));
}

Option Command::Add(const std::string& names, const std::function<void(const std::string&)>& store,
                    const std::string& doc) {
  return Option(app_->add_option_function<std::string>(names, store, doc));
}

Option Command::AddFlag(const std::string& names, bool& field, const std::string& doc) {
  return Option(app_->add_flag(names, field, doc));
}

Option Command::Get(const std::string& name) const { return Option(app_->get_option(name)); }

Words Command::Describe() const {
  const auto first_line = [](const std::string& doc) { return doc.substr(0, doc.find('\n')); };
  Words words{app_->get_name(), first_line(app_->get_description()), {}, {}};
  for (const CLI::Option* option : app_->get_options()) {
    if (!option->nonpositional()) continue;
    Words::Flag flag{{}, first_line(option->get_description()), option->get_items_expected() > 0};
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    words.flags.push_back(std::move(flag));
  }
  for (CLI::App* command : app_->get_subcommands([](CLI::App*) { return true; })) {
    words.commands.push_back(Command(command, chosen_).Describe());
  }
  return words;
}

void Command::Examples(const std::string& examples) {
  app_->footer("Examples:\n" + examples + "\n" + kExitCodesHelp);
}

void Command::Do(Action action) {
  // Those of a command's own commands come first, and hold.
  app_->callback([chosen = chosen_, action = std::move(action)] {
    if (!*chosen) *chosen = action;
  });
}

CommandLine::CommandLine(const std::string& name, const std::string& version,
                         const std::string& doc)
    : app_(std::make_unique<CLI::App>(doc, name)) {
  app_->set_version_flag("--version", name + " " + version);
  app_->require_subcommand(1);
  app_->formatter(std::make_shared<HelpFormatter>());
}

CommandLine::~CommandLine() = default;

std::string CommandLine::Help() const { return app_->help(); }

// CLI11 would say of a misspelt command only that one is missing.
Status CommandLine::CheckCommand(int argc, char** argv, int first) const {
  const CLI::App* app = app_.get();
  std::string path = "lockstep ";
  for (int i = first; i < argc; ++i) {
    const std::string word = argv[i];
    // Another command is only looked for where one has to be.
    if (word.starts_with('-') || app->get_require_subcommand_min() == 0) return OkStatus();
    const CLI::App* chosen = nullptr;
    std::vector<std::string> names;
    for (const CLI::App* command : std::as_const(*app).get_subcommands({})) {
      names.push_back(command->get_name());
      if (names.back() == word) chosen = command;
    }
    if (chosen == nullptr) {
      return InvalidArgument("there is no command \"", word, "\"", DidYouMean(word, names), "; `",
                             path, "--help` lists them");
    }
    app = chosen;
    path += word + " ";
  }
  return OkStatus();
}

StatusOr<Action> CommandLine::Parse(int argc, char** argv) {
  const bool asks_for_help = argc > 2 && std::string_view(argv[1]) == "help";
  LOCKSTEP_RETURN_IF_ERROR(CheckCommand(argc, argv, asks_for_help ? 2 : 1));
  try {
    std::vector<std::string> words = ReversedArguments(argc, argv);
    // `help --help` is about the command itself.
    const bool asks = words.front() == "--help" || words.front() == "-h";
    if (words.back() == "help" && !asks) words = HelpAsked(words);
    app_->parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    // --help and --version end here too.
    if (error.get_exit_code() == 0) {
      app_->exit(error);
      return Action([] { return OkStatus(); });
    }
    // A misspelt one may be why another seems to be missing.
    CLI::App& deepest = Deepest(*app_);
    const Words words = Command(&deepest, &chosen_).Describe();
    const std::string unknown = DescribeUnknown(*app_, words);
    return InvalidArgument(unknown.empty() ? DescribeError(deepest, error, words) : unknown, "; `",
                           PathTo(*app_), " --help` tells more");
  }
  return chosen_;
}

Status WithExitCode(Status status, ExitCode code) {
  // Ignored by an OK status.
  status.SetPayload(kPayloadUrl, absl::Cord(std::to_string(static_cast<int>(code))));
  return status;
}

ExitCode ExitCodeOf(const Status& status) {
  if (status.ok()) return ExitCode::kOk;
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return ExitCode::kFailed;
  return static_cast<ExitCode>(std::stoi(std::string(*payload)));
}

}  // namespace lockstep::cli
