// Which files may be loaded as modules.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace lockstep::module {

// The file that `path` means, all symbolic links resolved. A relative path is looked for in each of
// `directories`, in order; what it leads to must lie in or below one of them.
//
// The file, and the directories from it up to that one, must belong to root or to this process's
// user, and no other user may write to them (runtime/base/files.h); a directory like /tmp is
// none for modules.
//
// Errors: kPermissionDenied   outside the directories (whether there is such a file or not), or
//                             there are none; others may change the file, or what leads to it
//         kNotFound           no such file
StatusOr<std::string> FindModule(const std::string& path,
                                 const std::vector<std::string>& directories);

// The SHA-256 of a file (FIPS 180-4), in lower-case hexadecimal.
StatusOr<std::string> Sha256OfFile(const std::string& file);

// OK if `file` has one of these digests, or none are given: then any will do. kPermissionDenied
// tells the digest that it has. A process that can write to the file between this and its use can
// change it all the same.
Status CheckDigest(const std::string& file, const std::vector<std::string>& sha256);

}  // namespace lockstep::module
