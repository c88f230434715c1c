// Whether others than root and this process's user could change what a path leads to.
//
// A directory or file is trusted if it belongs to one of the two and nobody else may write to it. A
// user's private group (of his name, with nobody else in it: umask 002 comes with such) is himself.
// In a user namespace that root is not in, his files belong to the "overflow" user, as those of all
// strangers do (user_namespaces(7)); that one counts as root there.
//
// Threads: any. Errors: kPermissionDenied, with the command that mends it, if it is not trusted;
// those of FileError() if it cannot be looked at.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace lockstep {

// True for root and this process's user.
bool IsTrustedOwner(uid_t user);

// Of the file or directory itself, symbolic links followed, and nothing above it.
Status CheckTrusted(const std::string& path);
// The same of a file that was looked at. Not even a private group may write to it.
Status CheckTrustedFile(const std::string& path, const struct stat& file);

// Of every directory that `path` leads through, those of symbolic links and those that links lead
// to. A directory that all may write to is alright where only a file's owner may replace it (it is
// sticky, as /tmp), and what follows in it is root's or our own. `path` itself need not exist.
// `also`: a user whose directories are trusted, too.
Status CheckWayTo(const std::string& path, std::optional<uid_t> also = std::nullopt);

}  // namespace lockstep
