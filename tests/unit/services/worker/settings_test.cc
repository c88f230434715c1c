#include "services/worker/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/control/keys/key.h"
#include "services/config/yaml.h"
#include "tests/support/files.h"

namespace lockstep::worker {
namespace {

using support::Write;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(WorkerSettingsTest, WithoutKeysOnlyThisHostIsReached) {
  const std::string endpoint = "controller_endpoint=tcp://10.1.2.3:1";
  EXPECT_THAT(Message(LoadOptions({"", {endpoint}}).status()),
              HasSubstr("\"key: FILE\" and \"controller_key: KEY\""));
  const std::string key = control::NewKeyPair().public_key.Text();
  const auto worker = LoadOptions({"", {endpoint, "key=own.key", "controller_key=" + key}});
  ASSERT_EQ(worker.status(), OkStatus());
  EXPECT_EQ(worker->controller_key, key);
}

TEST(WorkerSettingsTest, OneKeyWithoutTheOtherIsRefused) {
  EXPECT_THAT(
      Message(LoadOptions({"", {"controller_endpoint=tcp://127.0.0.1:1", "key=own.key"}}).status()),
      HasSubstr("key: given without controller_key"));
}

TEST(WorkerSettingsTest, SecretHasNoPlaceOnACommandLine) {
  const std::string secret = control::NewKeyPair().secret_key.SecretText();
  const Status assigned =
      LoadOptions({"", {"controller_endpoint=tcp://127.0.0.1:1", "key=" + secret}}).status();
  EXPECT_THAT(Message(assigned),
              AllOf(HasSubstr("write it to a file of its own"), Not(HasSubstr(secret))));
}

TEST(WorkerSettingsTest, AnAddressForOthersIsNoWildcard) {
  for (const char* const wildcard : {"'*'", "0.0.0.0", "'::'", "'[::]'"}) {
    const std::string line = std::string("advertise_address: ") + wildcard;
    EXPECT_THAT(
        Message(LoadOptions({Write("controller_endpoint: ipc:///run/x\n" + line), {}}).status()),
        HasSubstr("leads nobody here"));
  }
}

TEST(WorkerSettingsTest, SecretIsRefusedAndNotRepeatedWhereverItIs) {
  const std::string secret = control::NewKeyPair().secret_key.SecretText();
  for (const std::string& line :
       {"controller_key: ./" + secret, "bulk_endpoint: " + secret, "module_path: [" + secret + "]",
        "module_sha256: [" + secret + "]", "data_address: " + secret}) {
    const std::string path = Write("controller_endpoint: ipc:///run/x\n" + line);
    EXPECT_THAT(Message(LoadOptions({path, {}}).status()),
                AllOf(HasSubstr(":2: "), HasSubstr("secret"), Not(HasSubstr(secret.substr(4)))))
        << line;
  }
}

TEST(WorkerSettingsTest, DigestsAreWrittenAsTheirToolPrintsThem) {
  const std::string digest(64, 'a');
  const auto worker = LoadOptions(
      {"", {"controller_endpoint=tcp://127.0.0.1:1", "module_sha256=[" + digest + "]"}});
  ASSERT_EQ(worker.status(), OkStatus());
  EXPECT_EQ(worker->module_sha256, std::vector<std::string>{digest});
  for (const std::string& bad :
       {std::string(63, 'a'), std::string(64, 'A'), std::string(64, 'g')}) {
    EXPECT_THAT(
        Message(LoadOptions({"", {"controller_endpoint=tcp://127.0.0.1:1", "module_sha256=" + bad}})
                    .status()),
        HasSubstr("is no SHA-256"));
  }
}

TEST(WorkerSettingsTest, RelativeModulePathsStartAtTheFile) {
  const std::string path =
      Write("controller_endpoint: ipc:///run/x\nmodule_path: [modules, ../lib, /abs]\n");
  const auto options = LoadOptions({path, {}});
  ASSERT_TRUE(options.ok()) << options.status();
  const std::string directory = testing::TempDir().substr(0, testing::TempDir().rfind('/'));
  ASSERT_EQ(options->module_path.size(), 3u);
  EXPECT_EQ(options->module_path[0], directory + "/modules");
  EXPECT_EQ(options->module_path[1], directory.substr(0, directory.rfind('/')) + "/lib");
  EXPECT_EQ(options->module_path[2], "/abs");
}

TEST(WorkerSettingsTest, ControllerEndpointIsRequired) {
  const Status status = LoadOptions({}).status();
  EXPECT_EQ(Message(status),
            "settings: controller_endpoint: missing, but required; allowed: tcp://ADDRESS:PORT, "
            "ipc:///PATH, inproc://NAME");
}

TEST(WorkerSettingsTest, WrittenOptionsReadBack) {
  WorkerOptions worker;
  worker.controller_endpoint = "ipc:///tmp/w";
  worker.rank = 3;
  worker.module_path = {"/a, b", "/c: d", "/e"};
  const auto worker_back = LoadOptions({Write(ToYaml(worker)), {}});
  ASSERT_TRUE(worker_back.ok()) << worker_back.status();
  EXPECT_EQ(worker_back->module_path, worker.module_path);
  EXPECT_EQ(worker_back->rank, 3);
  EXPECT_EQ(worker_back->cluster, "");
  EXPECT_EQ(ToYaml(*worker_back), ToYaml(worker));
}

TEST(WorkerSettingsTest, DefaultsAreWithinWhatIsAllowed) {
  WorkerOptions options;
  for (const config::Setting& setting : WorkerSettings(options)) {
    if (setting.required || setting.refused || setting.fallback == "\"\"") continue;
    config::Problems problems;
    config::Apply(
        config::ParseYaml(setting.key + ": " + setting.fallback, "default", "/", problems),
        {setting}, "default", problems);
    EXPECT_TRUE(problems.empty()) << setting.key << ": " << problems.ToStatus();
  }
}

}  // namespace
}  // namespace lockstep::worker
