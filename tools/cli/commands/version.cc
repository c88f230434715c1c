#include <iostream>
#include <memory>

#include "runtime/base/version.h"
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
      std::cout << Json{{"version", kBuildVersion},
                        {"protocol", kProtocolVersion},
                        {"oldest_protocol", kOldestProtocolVersion}}
                       .dump(2)
                << '\n';
    } else {
      std::cout << "lockstep " << kBuildVersion << " (protocol " << kProtocolVersion << ")\n";
    }
    return OkStatus();
  });
}

}  // namespace lockstep::cli
