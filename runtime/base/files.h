// Errors of system calls on files, and whether other users could change what a path leads to.
//
// A directory or file is trusted if it belongs to root or to this process's user and no other user
// may write to it. A user's private group (of the same name, without other members: umask 002 comes
// with such) counts as the user. In a user namespace that root is not in, root's files belong to
// the "overflow" user, as those of all strangers do (user_namespaces(7)); that one counts as root
// there.
//
// Threads: any. Errors: kPermissionDenied, with the command that mends it, if a path is not
// trusted; those of FileError() if it cannot be looked at.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace lockstep {

// "WHAT PATH: the text of ERROR". `error`: an errno. kNotFound; kPermissionDenied; kAlreadyExists;
// kResourceExhausted: no descriptor is left; kUnavailable for all others.
Status FileError(const std::string& what, const std::string& path, int error);

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
Status CheckDirectoriesTo(const std::string& path, std::optional<uid_t> also = std::nullopt);

}  // namespace lockstep
