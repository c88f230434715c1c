// Which files become modules, and what becomes of those that are built again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "runtime/module/module.h"
#include "runtime/module/module_files.h"
#include "tests/unit/runtime/module/test_modules.h"

namespace lockstep::module {
namespace {

namespace fs = std::filesystem;

class LoadModuleTest : public testing::Test {
 protected:
  LoadModuleTest() { fs::create_directories(scratch_); }
  ~LoadModuleTest() override { fs::remove_all(scratch_); }

  const std::string directory_ = ModuleDirectory();
  const fs::path scratch_ = fs::path(std::getenv("TEST_TMPDIR")) / "modules";
};

TEST_F(LoadModuleTest, AbsoluteAndRelativePathsLoadTheSameLibrary) {
  const auto relative = LoadModule("test_module.so", {scratch_, directory_});
  const auto absolute = LoadModule(directory_ + "/test_module.so", {directory_});
  ASSERT_TRUE(relative.ok()) << relative.status();
  ASSERT_TRUE(absolute.ok()) << absolute.status();
  EXPECT_EQ((*relative)->Describe(), (*absolute)->Describe());
  EXPECT_EQ((*relative)->kind(), registers::Object::Kind::kModule);
}

TEST_F(LoadModuleTest, NothingLoadsWithoutAllowedDirectories) {
  EXPECT_EQ(LoadModule(directory_ + "/test_module.so", {}).status().code(),
            StatusCode::kPermissionDenied);
}

TEST_F(LoadModuleTest, OutsideTheDirectoriesIsDenied) {
  const Status status = LoadModule(directory_ + "/test_module.so", {scratch_}).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(Message(status).find(scratch_.string()), std::string::npos) << status;
}

TEST_F(LoadModuleTest, OnlyAllowedDigestsLoadWhereThereAreAny) {
  // "abc" (FIPS 180-4's own example) and a file of many chunks.
  std::ofstream(scratch_ / "abc") << "abc";
  EXPECT_EQ(*Sha256OfFile(scratch_ / "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  std::ofstream(scratch_ / "million") << std::string(1'000'000, 'a');
  EXPECT_EQ(*Sha256OfFile(scratch_ / "million"),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(Sha256OfFile(scratch_ / "none").status().code(), StatusCode::kNotFound);

  const std::string digest = *Sha256OfFile(directory_ + "/test_module.so");
  EXPECT_TRUE(LoadModule("test_module.so", {directory_}, {digest}).ok());
  const Status other = LoadModule("test_module.so", {directory_}, {std::string(64, '0')}).status();
  EXPECT_EQ(other.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(Message(other).find(digest), std::string::npos) << other;
}

TEST_F(LoadModuleTest, NoWayLeadsOutOfTheDirectories) {
  fs::create_symlink(directory_ + "/test_module.so", scratch_ / "link.so");
  EXPECT_EQ(LoadModule("link.so", {scratch_}).status().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(LoadModule("link.so", {scratch_, directory_}).ok());
  const std::string up = fs::relative(directory_, scratch_) / "test_module.so";
  EXPECT_EQ(LoadModule(up, {scratch_}).status().code(), StatusCode::kPermissionDenied);
  // A directory whose name merely begins like an allowed one is another directory.
  fs::create_directories(scratch_ / "allowed");
  fs::create_directories(scratch_ / "allowed-not");
  fs::copy_file(directory_ + "/test_module.so", scratch_ / "allowed-not" / "m.so");
  EXPECT_EQ(LoadModule(scratch_ / "allowed-not" / "m.so", {scratch_ / "allowed"}).status().code(),
            StatusCode::kPermissionDenied);
}

TEST_F(LoadModuleTest, NothingIsToldOfWhatIsOutside) {
  const Status there = LoadModule("/etc/passwd", {scratch_}).status();
  const Status not_there = LoadModule("/etc/no_such_file", {scratch_}).status();
  EXPECT_EQ(there.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(not_there.code(), StatusCode::kPermissionDenied);
}

TEST_F(LoadModuleTest, WhatEverybodyMayChangeIsNotLoaded) {
  const fs::path file = scratch_ / "m.so";
  fs::copy_file(directory_ + "/test_module.so", file);
  fs::permissions(file, fs::perms(0666));
  EXPECT_EQ(LoadModule("m.so", {scratch_}).status().code(), StatusCode::kPermissionDenied);
  fs::permissions(file, fs::perms(0644));
  fs::permissions(scratch_, fs::perms(0777));
  EXPECT_EQ(LoadModule("m.so", {scratch_}).status().code(), StatusCode::kPermissionDenied);
  fs::permissions(scratch_, fs::perms(0777) | fs::perms::sticky_bit);
  EXPECT_EQ(LoadModule("m.so", {scratch_}).status().code(), StatusCode::kPermissionDenied)
      << "as in /tmp";
  fs::permissions(scratch_, fs::perms(0755));
  EXPECT_TRUE(LoadModule("m.so", {scratch_}).ok());
}

TEST_F(LoadModuleTest, EveryDirectoryUpToTheAllowedOneCounts) {
  fs::create_directories(scratch_ / "a" / "b");
  fs::copy_file(directory_ + "/test_module.so", scratch_ / "a" / "b" / "m.so");
  EXPECT_TRUE(LoadModule("a/b/m.so", {scratch_}).ok());
  fs::permissions(scratch_ / "a", fs::perms(0757));
  const Status status = LoadModule("a/b/m.so", {scratch_}).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(Message(status).find("`chmod go-w " + fs::canonical(scratch_ / "a").string() + "`"),
            std::string::npos)
      << status;
  EXPECT_TRUE(LoadModule("m.so", {scratch_ / "a" / "b"}).ok()) << "above it is the operator's";
}

TEST_F(LoadModuleTest, MissingFilesAndDirectoriesAreNotFound) {
  for (const std::string& path :
       {std::string("no_such.so"), std::string(), std::string("."), directory_ + "/no_such.so"}) {
    const Status status = LoadModule(path, {scratch_, directory_}).status();
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << path << ": " << status;
  }
}

TEST_F(LoadModuleTest, WhatCannotBeLinkedSaysWhy) {
  const Status undefined = LoadModule("broken_module.so", {directory_}).status();
  EXPECT_EQ(undefined.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(undefined).find("lockstep_test_symbol_that_nobody_defines"), std::string::npos)
      << undefined;
  std::ofstream(scratch_ / "text.so") << "not a library";
  const Status text = LoadModule("text.so", {scratch_}).status();
  EXPECT_EQ(text.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(text).find("text.so"), std::string::npos) << text;
}

// A module that is built again while the process runs.
class RebuiltModuleTest : public LoadModuleTest {
 protected:
  // As `mv` and `install` do: another file has the name.
  void Replace(const std::string& version, const std::string& more = "") {
    fs::copy_file(directory_ + "/" + version, scratch_ / "new.so");
    fs::permissions(scratch_ / "new.so", fs::perms(0755));
    std::ofstream(scratch_ / "new.so", std::ios::app) << more;
    fs::rename(scratch_ / "new.so", file_);
  }
  StatusOr<int64_t> Call(const std::shared_ptr<Module>& module, const std::string& name) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto function, module->GetFunction(name));
    const std::unique_ptr<tensor::Processor> host = tensor::NewHostProcessor(**NewArena());
    CallContext context;
    context.host = host.get();
    registers::Value result;
    LOCKSTEP_RETURN_IF_ERROR(function->Call(context, {}, &result));
    return *result.As<int64_t>();
  }
  StatusOr<std::shared_ptr<Module>> Load() { return LoadModule(file_, {scratch_}); }

  // The process never forgets a path that it has loaded.
  const fs::path file_ =
      scratch_ /
      (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".so");
};

TEST_F(RebuiltModuleTest, ReplacedFileIsLoadedBesideTheOldOne) {
  Replace("version_1.so");
  const auto first = Load();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*Call(*first, "version"), 1);
  EXPECT_EQ(*Call(*first, "count_calls"), 1);
  Replace("version_2.so");
  const auto second = Load();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*Call(*second, "version"), 2);
  EXPECT_EQ(*Call(*second, "count_calls"), 1) << "its own variables";
  EXPECT_EQ(*Call(*first, "version"), 1) << "for those who have it";
  EXPECT_EQ(*Call(*first, "count_calls"), 2);
  EXPECT_EQ(*Call(*Load(), "count_calls"), 2) << "the same file again";
  Replace("version_1.so");
  EXPECT_EQ(*Call(*Load(), "version"), 1);
  EXPECT_EQ((*second)->Describe(), (*first)->Describe());
}

TEST_F(RebuiltModuleTest, FileThatWasWrittenToIsRefused) {
  Replace("version_1.so");
  ASSERT_TRUE(Load().ok());
  fs::permissions(file_, fs::perms(0744));
  EXPECT_TRUE(Load().ok()) << "nothing was written";
  std::ofstream(file_, std::ios::app) << "more";
  const Status status = Load().status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(status).find(fs::canonical(file_).string() + " was written to"),
            std::string::npos)
      << status;
  EXPECT_NE(Message(status).find("lockstep down"), std::string::npos) << status;
  Replace("version_2.so");
  EXPECT_EQ(*Call(*Load(), "version"), 2);
}

// Its bytes are those of a version that is loaded, too, but the file's own pages have changed under
// the one that was loaded from it.
TEST_F(RebuiltModuleTest, OlderVersionThatIsWrittenOverALoadedFileIsRefused) {
  // In a process that ends at once: nothing may use the pages that change.
  EXPECT_EXIT(
      {
        Replace("version_1.so");
        const bool first = Load().ok();
        Replace("version_2.so");
        const bool both = Load().ok() && first;
        fs::copy_file(directory_ + "/version_1.so", file_, fs::copy_options::overwrite_existing);
        const Status status = Load().status();
        std::fprintf(stderr, "%s\n", Message(status).c_str());
        _exit(both && status.code() == StatusCode::kFailedPrecondition ? 0 : 1);
      },
      testing::ExitedWithCode(0), "was written to");
}

TEST_F(RebuiltModuleTest, WhatIsRegisteredForTheProcessHasOneVersion) {
  Replace("version_1.so");
  setenv("LOCKSTEP_TEST_REGISTERS", "lockstep_test.version", 1);
  ASSERT_TRUE(Load().ok());
  Replace("version_2.so");
  const Status status = Load().status();
  unsetenv("LOCKSTEP_TEST_REGISTERS");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(status).find("function \"lockstep_test.version\""), std::string::npos)
      << status;
}

TEST_F(RebuiltModuleTest, VersionsThatWouldShareVariablesAreRefused) {
  Replace("version_shared.so");
  ASSERT_TRUE(Load().ok());
  Replace("version_shared.so");
  EXPECT_TRUE(Load().ok()) << "it is the same, under another number";
  fs::last_write_time(file_, fs::file_time_type::clock::now());
  EXPECT_TRUE(Load().ok()) << "only touched";
  Replace("version_shared.so", "other");
  const Status status = Load().status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(status).find("variable lockstep_test_shared"), std::string::npos) << status;
  Replace("version_1.so");
  EXPECT_TRUE(Load().ok()) << "it has no such variable";
}

}  // namespace
}  // namespace lockstep::module
