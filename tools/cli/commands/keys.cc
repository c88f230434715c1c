#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/files.h"
#include "runtime/control/keys/allow_list.h"
#include "runtime/control/keys/key_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/value_text.h"
#include "tools/text/table.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct KeysCommand {
  std::string name;
  std::string role;
  std::string key;   // a public one, or a file
  std::string file;  // of a key, or of the allowed ones
  bool replace = false;
  OutputFormat format = OutputFormat::kTable;
};

// Another command changes a list in milliseconds.
constexpr std::chrono::seconds kPatience{10};

constexpr char kRolesHelp[] =
    "  reader    looks: status, sessions, registers, metrics\n"
    "  client    opens sessions of its own, too\n"
    "  operator  stops the cluster, too\n"
    "  worker    joins as a worker, and nothing else\n";

void Line(const char* label, const std::string& text) {
  std::cout << text::Style::For(STDOUT_FILENO).Paint(text::Tint::kDim, label) << text << '\n';
}

Status New(const KeysCommand& command) {
  const Status named = control::CheckKeyName(command.name);
  if (!named.ok()) return WithExitCode(named, ExitCode::kUsage);
  const std::string path = command.file.empty() ? command.name + ".key" : command.file;
  const control::KeyPair pair = control::NewKeyPair();
  Status written = command.replace ? control::ReplaceKeyFile(path, pair, command.name)
                                   : control::WriteKeyFile(path, pair, command.name);
  if (written.code() == StatusCode::kAlreadyExists) {
    written = AlreadyExists(path,
                            " is there already; say --replace to make another key in its "
                            "place, or choose another --out");
  }
  LOCKSTEP_RETURN_IF_ERROR(written);
  const std::string public_key = pair.public_key.Text();
  if (command.format == OutputFormat::kJson) {
    std::cout << Json{{"name", command.name}, {"file", path}, {"public_key", public_key}}.dump(2)
              << '\n';
    return OkStatus();
  }
  Line("secret    ",
       path + " (any program that has it is \"" + command.name + "\": keep it where it is used)");
  Line("public    ", public_key);
  Line("to allow  ",
       "lockstep keys allow ROLE " + command.name + " " + public_key + " --file ALLOWED_KEYS");
  return OkStatus();
}

// The file of allowed keys, or of public ones, as it stands.
Status ShowList(const KeysCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, control::ReadTrustedFile(command.file));
  LOCKSTEP_ASSIGN_OR_RETURN(const control::AllowList list,
                            control::AllowList::Parse(text, command.file));
  Json keys = Json::array();
  const auto add = [&](const std::string& role, const std::string& name,
                       const control::PublicKey& key) {
    keys.push_back({{"role", role}, {"name", name}, {"public_key", key.Text()}});
  };
  for (const auto& [key, identity] : list.all()) add(Name(identity.role), identity.name, key);
  for (const auto& [key, name] : list.revoked()) add("revoked", name, key);
  if (command.format == OutputFormat::kJson) {
    std::cout << keys.dump(2) << '\n';
    return OkStatus();
  }
  text::Table table({{"ROLE"}, {"NAME"}, {"PUBLIC KEY"}});
  for (const Json& key : keys) {
    table.AddRow({key["role"].get<std::string>(), key["name"].get<std::string>(),
                  key["public_key"].get<std::string>()});
  }
  table.Print(std::cout, text::Style::For(STDOUT_FILENO));
  return OkStatus();
}

Status Show(const KeysCommand& command) {
  const StatusOr<control::KeyPair> pair = control::ReadKeyFile(command.file);
  if (pair.status().code() == StatusCode::kInvalidArgument) return ShowList(command);
  // Any user may see which keys are allowed; a list is no secret.
  if (pair.status().code() == StatusCode::kPermissionDenied && ShowList(command).ok()) {
    return OkStatus();
  }
  LOCKSTEP_RETURN_IF_ERROR(pair.status());
  const std::string public_key = pair->public_key.Text();
  if (command.format == OutputFormat::kJson) {
    std::cout << Json{{"file", command.file}, {"public_key", public_key}}.dump(2) << '\n';
  } else {
    std::cout << public_key << '\n';
  }
  return OkStatus();
}

// A public key as text, or that of a key file.
StatusOr<control::PublicKey> PublicKeyOf(const std::string& text) {
  if (text.rfind(control::kPublicPrefix, 0) == 0 || text.rfind(control::kSecretPrefix, 0) == 0) {
    return control::ParsePublicKey(text);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const control::KeyPair pair, control::ReadKeyFile(text));
  return pair.public_key;
}

// Changes the list of allowed keys, while no other such command does.
template <typename Change>
Status ChangeList(const std::string& path, Change change) {
  // Before a lock file is made there.
  LOCKSTEP_RETURN_IF_ERROR(CheckDirectoriesTo(path));
  LOCKSTEP_ASSIGN_OR_RETURN(const control::ListLock lock,
                            control::ListLock::Take(path, Deadline::After(kPatience)));
  unsigned mode = 0644;
  struct stat file {};
  std::string text = "# Who may come in: role, public key, name.\n";
  if (stat(path.c_str(), &file) == 0) {
    mode = file.st_mode & 0777;
    LOCKSTEP_ASSIGN_OR_RETURN(text, control::ReadTrustedFile(path));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string changed, change(text));
  return control::WriteFileWhole(path, changed, mode);
}

Status Report(const KeysCommand& command, const char* done, const std::string& role,
              const control::PublicKey& key) {
  if (command.format == OutputFormat::kJson) {
    std::cout << Json{{"file", command.file}, {"role", role}, {"public_key", key.Text()}}.dump(2)
              << '\n';
  } else {
    Line(done, key.Text() + " in " + command.file);
  }
  return OkStatus();
}

Status Allow(const KeysCommand& command) {
  const StatusOr<control::Role> role = control::ParseRole(command.role);
  if (!role.ok()) return WithExitCode(role.status(), ExitCode::kUsage);
  LOCKSTEP_ASSIGN_OR_RETURN(const control::PublicKey key, PublicKeyOf(command.key));
  LOCKSTEP_RETURN_IF_ERROR(ChangeList(command.file, [&](const std::string& text) {
    return control::WithLine(text, command.file, {*role, command.name, key});
  }));
  return Report(command, "allowed   ", command.role, key);
}

Status Revoke(const KeysCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(const control::PublicKey key, PublicKeyOf(command.key));
  LOCKSTEP_RETURN_IF_ERROR(ChangeList(command.file, [&](const std::string& text) {
    return control::WithoutKey(text, command.file, key);
  }));
  return Report(command, "revoked   ", "revoked", key);
}

void AddNew(Command keys, const std::shared_ptr<KeysCommand>& options) {
  Command command = keys.AddCommand("new", "Make a key, in a file that only its owner can read");
  command.Add("NAME", options->name, "whose it is").Required().Placeholder("");
  command.Add("--out", options->file, "the file; without it NAME.key").Placeholder("FILE");
  command.AddFlag("--replace", options->replace, "take the place of a key that is there");
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep keys new controller\n"
      "  lockstep keys new racks --out worker.key\n");
  command.Do([options] { return New(*options); });
}

void AddShow(Command keys, const std::shared_ptr<KeysCommand>& options) {
  Command command =
      keys.AddCommand("show", "Print the public key of a key file, or who is in a list");
  command.Add("FILE", options->file, "a key file, or a list of allowed keys")
      .Required()
      .Placeholder("");
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep keys show controller.key\n"
      "  lockstep keys show allowed_keys\n");
  command.Do([options] { return Show(*options); });
}

void AddListFile(Command command, KeysCommand& options) {
  command.Add("-f,--file", options.file, "the controller's allowed_keys")
      .Required()
      .Placeholder("FILE");
  AddOutputOption(command, options.format);
}

void AddAllow(Command keys, const std::shared_ptr<KeysCommand>& options) {
  Command command = keys.AddCommand("allow", "Let the owner of a key come in");
  command.Add("ROLE", options->role, "reader, client, operator or worker")
      .Required()
      .Placeholder("");
  command.Add("NAME", options->name, "what it is called in logs").Required().Placeholder("");
  command.Add("KEY", options->key, "the public key, or its key file").Required().Placeholder("");
  AddListFile(command, *options);
  command.Examples("  lockstep keys allow worker racks worker.key --file allowed_keys\n\nRoles:\n" +
                   std::string(kRolesHelp));
  command.Do([options] { return Allow(*options); });
}

void AddRevoke(Command keys, const std::shared_ptr<KeysCommand>& options) {
  Command command =
      keys.AddCommand("revoke", "Let the owner of a key come in no more, and cut them off");
  command.Add("KEY", options->key, "the public key, or its key file").Required().Placeholder("");
  AddListFile(command, *options);
  command.Examples("  lockstep keys revoke trainer.key --file allowed_keys\n");
  command.Do([options] { return Revoke(*options); });
}

}  // namespace

void AddKeys(Command lockstep) {
  Command command = lockstep.AddCommand("keys", "Make keys, and say who may come in");
  command.RequireCommand();
  const auto options = std::make_shared<KeysCommand>();
  AddNew(command, options);
  AddShow(command, options);
  AddAllow(command, options);
  AddRevoke(command, options);
  command.Examples(
      "  lockstep keys new trainer\n"
      "  lockstep keys allow client trainer trainer.key --file allowed_keys\n"
      "  lockstep keys show allowed_keys\n");
}

}  // namespace lockstep::cli
