#include <iostream>
#include <memory>

#include "runtime/control/host.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/value_text.h"

namespace lockstep::cli {

void AddVersion(Command lockstep) {
  Command command = lockstep.AddCommand("version", "Show this program's version");
  auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  AddOutputOption(command, *format);
  command.Examples("  lockstep version\n  lockstep version --output json\n");
  command.Do([format] {
    if (*format == OutputFormat::kJson) {
      std::cout << Json{{"version", control::kBuildVersion},
                        {"protocol", control::kProtocolVersion},
                        {"oldest_protocol", control::kOldestProtocolVersion}}
                       .dump(2)
                << '\n';
    } else {
      std::cout << "lockstep " << control::kBuildVersion << " (protocol "
                << control::kProtocolVersion << ")\n";
    }
    return OkStatus();
  });
}

}  // namespace lockstep::cli
