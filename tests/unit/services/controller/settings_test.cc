#include "services/controller/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/control/keys/key.h"
#include "services/config/yaml.h"
#include "tests/support/files.h"

namespace lockstep::controller {
namespace {

using support::Write;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using namespace std::chrono_literals;

constexpr char kEndpoints[] =
    "client_endpoint: tcp://127.0.0.1:7400\n"
    "worker_endpoint: tcp://127.0.0.1:7401\n"
    "liveness_endpoint: tcp://127.0.0.1:7402\n";

TEST(ControllerSettingsTest, FileAndAssignmentsAreTypedAndTheLatterWin) {
  const std::string path = Write(std::string(kEndpoints) +
                                 "cluster: demo\nworkers: 3\nheartbeat_interval: 250ms\n"
                                 "flow_window_bytes: 4MiB\npoll_before_sleep: 50us\n");
  const auto options = LoadOptions({path, {"workers=5", "session_lease=1min"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->cluster, "demo");
  EXPECT_EQ(options->workers, 5);
  EXPECT_EQ(options->client_endpoint, "tcp://127.0.0.1:7400");
  EXPECT_EQ(options->heartbeat_interval, 250ms);
  EXPECT_EQ(options->session_lease, 60s);
  EXPECT_EQ(options->flow_window_bytes, size_t{4} << 20);
  EXPECT_EQ(options->poll_before_sleep, 50us);
  EXPECT_EQ(options->worker_timeout, ControllerOptions().worker_timeout);
}

TEST(ControllerSettingsTest, AllProblemsAreReportedWithLineKeyValueAndWhatIsAllowed) {
  const std::string path = Write(
      "workers: many\n"
      "heartbeet_interval: 1s\n"
      "worker_timeout: 5 parsecs\n"
      "session_lease: 1us\n"
      "cluster: Über\n"
      "client_endpoint: tcp://0.0.0.0:7400\n"
      "worker_endpoint:\n"
      "flow_window_bytes: [1MiB]\n");
  const Status status = LoadOptions({path, {"nonsense=1"}}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  const std::string text = Message(status);
  const auto has = [&](const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  };
  has(path + ":1: workers: \"many\" is not a whole number; allowed: 1 to 4096");
  has(path + ":2: heartbeet_interval: unknown key; did you mean \"heartbeat_interval\"?");
  has(path + ":3: worker_timeout: \"5 parsecs\" is not a duration");
  has("; allowed: 50ms to 10min");
  has(path + ":4: session_lease: \"1us\" is out of bounds; allowed: 500ms to 24h");
  has(path + ":5: cluster: \"Über\" is no name; allowed: a lower-case letter");
  has(path + ":6: client_endpoint: \"tcp://0.0.0.0:7400\" is not on this host: without keys");
  has(path + ":7: worker_endpoint: has no value; allowed: tcp://ADDRESS:PORT");
  has(path +
      ":8: flow_window_bytes: [1MiB] is a list, expected one value; allowed: 64KiB to 16GiB");
  has("--set nonsense=1: nonsense: unknown key; allowed: cluster, workers,");
  has(path + ": liveness_endpoint: missing, but required; allowed: tcp://");
}

TEST(ControllerSettingsTest, WithoutKeysOnlyThisHostIsReached) {
  const std::vector<std::string> endpoints = {"client_endpoint=tcp://10.1.0.0/16:1",
                                              "worker_endpoint=tcp://eth0:2",
                                              "liveness_endpoint=tcp://[fd00::1]:3"};
  const Status refused = LoadOptions({"", endpoints}).status();
  EXPECT_THAT(Message(refused),
              AllOf(HasSubstr("worker_endpoint: \"tcp://eth0:2\" is not on this host"),
                    HasSubstr("add the lines \"key: FILE\" and \"allowed_keys: FILE\"")));
  std::vector<std::string> with_keys = endpoints;
  with_keys.push_back("key=own.key");
  with_keys.push_back("allowed_keys=allowed");
  const auto controller = LoadOptions({"", with_keys});
  ASSERT_EQ(controller.status(), OkStatus());
  EXPECT_EQ(controller->key, std::filesystem::current_path().string() + "/own.key");
}

TEST(ControllerSettingsTest, OneKeyWithoutTheOtherIsRefused) {
  EXPECT_THAT(
      Message(LoadOptions({Write(std::string(kEndpoints) + "key: own.key\n"), {}}).status()),
      HasSubstr("key: given without allowed_keys"));
}

TEST(ControllerSettingsTest, SecretHasNoPlaceInAFile) {
  const std::string secret = control::NewKeyPair().secret_key.SecretText();
  const Status in_file =
      LoadOptions({Write(std::string(kEndpoints) + "allowed_keys: a\nkey: " + secret + "\n"), {}})
          .status();
  EXPECT_THAT(Message(in_file),
              AllOf(HasSubstr("write it to a file of its own"), Not(HasSubstr(secret))));
}

TEST(ControllerSettingsTest, AnAddressForOthersIsNoWildcard) {
  for (const char* const wildcard : {"'*'", "0.0.0.0", "'::'", "'[::]'"}) {
    const std::string line = std::string("advertise_address: ") + wildcard;
    EXPECT_THAT(Message(LoadOptions({Write(kEndpoints + line), {}}).status()),
                HasSubstr("leads nobody here"));
  }
  EXPECT_TRUE(LoadOptions({Write(std::string(kEndpoints) + "advertise_address: head"), {}}).ok());
}

TEST(ControllerSettingsTest, SecretIsRefusedAndNotRepeatedWhereverItIs) {
  const std::string secret = control::NewKeyPair().secret_key.SecretText();
  const auto refused = [&](const std::string& lines) {
    const std::string path = Write(std::string(kEndpoints) + lines);
    const std::string message = Message(LoadOptions({path, {}}).status());
    EXPECT_THAT(message,
                AllOf(HasSubstr(":4: "), HasSubstr("secret key"), Not(HasSubstr(secret.substr(4)))))
        << lines;
    return message;
  };
  for (const char* const key : {"allowed_keys", "cluster", "advertise_address", "log_level",
                                "metrics_endpoint", "session_lease", "workers"}) {
    EXPECT_THAT(refused(std::string(key) + ": " + secret),
                HasSubstr(std::string(key) + ": a secret key"));
    refused(std::string(key) + ": [a, x" + secret + "]");
  }
  EXPECT_THAT(refused("keye: " + secret), HasSubstr("did you mean \"key\"?"));
  refused("key: ./" + secret);
  EXPECT_THAT(Message(LoadOptions({Write(secret + ": 1"), {}}).status()),
              AllOf(HasSubstr(":1: lsk_...: unknown key"), Not(HasSubstr(secret.substr(4)))));
  EXPECT_THAT(Message(LoadOptions({Write("key: [" + secret + "]"), {}}).status()),
              AllOf(HasSubstr(":1: key: [lsk_...] is a list"), Not(HasSubstr(secret.substr(4)))));
  EXPECT_THAT(Message(LoadOptions({"", {secret + "=1", "allowed_keys=" + secret}}).status()),
              AllOf(HasSubstr("--set allowed_keys"), Not(HasSubstr(secret.substr(4)))));
}

TEST(ControllerSettingsTest, SettingThatIsGoneSaysWhatTookItsPlace) {
  EXPECT_THAT(
      Message(LoadOptions({Write(std::string(kEndpoints) + "plaintext: network\n"), {}}).status()),
      HasSubstr("plaintext: is no setting any more"));
}

TEST(ControllerSettingsTest, TimeoutsThatContradictEachOtherAreReportedWhereTheyAreGiven) {
  const auto problem_of = [&](const std::string& text, std::vector<std::string> assignments) {
    return std::string(
        Message(LoadOptions({Write(kEndpoints + text), std::move(assignments)}).status()));
  };
  const std::string path = Write("");
  EXPECT_EQ(problem_of("heartbeat_interval: 2s\n", {}),
            path +
                ":4: heartbeat_interval: \"2s\" would lose workers between two heartbeats; "
                "allowed: at most 900ms, which is half of worker_timeout (1800ms, the default)");
  EXPECT_EQ(problem_of("worker_timeout: 600ms\n", {}),
            path +
                ":4: worker_timeout: \"600ms\" would lose workers between two heartbeats; "
                "allowed: at least 1s, which is two of heartbeat_interval (500ms, the default)");
  EXPECT_EQ(problem_of("worker_timeout: 10s\nheartbeat_interval: 2s\n", {"worker_timeout=3s"}),
            "--set worker_timeout=3s: worker_timeout: \"3s\" would lose workers between two "
            "heartbeats; allowed: at least 4s, which is two of heartbeat_interval (2s, at " +
                path + ":5)");
  EXPECT_EQ(problem_of("worker_timeout: 4s\nheartbeat_interval: 2s\n", {}), "");
}

TEST(ControllerSettingsTest, WrittenOptionsReadBack) {
  ControllerOptions controller;
  controller.client_endpoint = "ipc:///tmp/a dir/client";
  controller.worker_endpoint = "tcp://127.0.0.1:*";
  controller.liveness_endpoint = "inproc://l";
  controller.collective_timeout = 1234ms;
  controller.max_batch_bytes = (size_t{1} << 20) + 1;
  const auto controller_back = LoadOptions({Write(ToYaml(controller)), {}});
  ASSERT_TRUE(controller_back.ok()) << controller_back.status();
  EXPECT_EQ(ToYaml(*controller_back), ToYaml(controller));
  EXPECT_EQ(controller_back->client_endpoint, controller.client_endpoint);
  EXPECT_EQ(controller_back->collective_timeout, controller.collective_timeout);
  EXPECT_EQ(controller_back->max_batch_bytes, controller.max_batch_bytes);
}

TEST(ControllerSettingsTest, DefaultsAreWithinWhatIsAllowed) {
  ControllerOptions options;
  for (const config::Setting& setting : ControllerSettings(options)) {
    if (setting.required || setting.refused || setting.fallback == "\"\"") continue;
    config::Problems problems;
    config::Apply(
        config::ParseYaml(setting.key + ": " + setting.fallback, "default", "/", problems),
        {setting}, "default", problems);
    EXPECT_TRUE(problems.empty()) << setting.key << ": " << problems.ToStatus();
  }
}

}  // namespace
}  // namespace lockstep::controller
