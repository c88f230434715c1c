// Keys in files.
//
// A key file holds one secret key, and lines that begin with #. It must be readable by its owner
// alone: by this process's user, or by root and then perhaps by a group that this process is in (as
// orchestrators hand out secrets). A file of public keys holds one on each line. What is read must
// lie where only root and this process's user can put another file in its place
// (runtime/base/files.h).
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/keys/key.h"

namespace lockstep::control {

// kNotFound; kPermissionDenied: others may read it, with the command that mends it, or we may not;
// kInvalidArgument: there is no key in it.
StatusOr<KeyPair> ReadKeyFile(const std::string& path);

// Makes the file, with mode 0600, and all of it or nothing. `name`: for people. kAlreadyExists if
// there is one: no key is overwritten.
Status WriteKeyFile(const std::string& path, const KeyPair& pair, const std::string& name);
// The same, but it takes the place of one that is there and keeps its owner, who has the new secret
// then: this process's user, or root; for root any user, in directories that only that user and
// root may write to. kPermissionDenied: it is another's, or others could put a file there;
// kInvalidArgument: it is no file.
Status ReplaceKeyFile(const std::string& path, const KeyPair& pair, const std::string& name);

// The public keys of a file, at least one; or the one that is given as text instead of a path.
StatusOr<std::vector<PublicKey>> ReadPublicKeys(const std::string& path_or_key);

// The whole of a small file that decides who may come in: one that others could write to, or put
// another in the place of, is refused. kNotFound, kPermissionDenied, kInvalidArgument;
// kResourceExhausted if no descriptor is left.
StatusOr<std::string> ReadTrustedFile(const std::string& path);

// What is found in place of a written file after the machine has crashed. To wait for the disk, for
// the first, takes a millisecond or two; the second is for what describes processes of the machine.
enum class AfterCrash { kOldOrNew, kAnything };

// Writes `text` to a file beside `path` with `mode`, and renames it into place. A file that is
// there keeps its owner and group; a symbolic link stays one.
Status WriteFileWhole(const std::string& path, const std::string& text, unsigned mode,
                      AfterCrash after_crash = AfterCrash::kOldOrNew);

// Where the file really is: `path` without symbolic links, if it is there.
std::string RealPath(const std::string& path);

}  // namespace lockstep::control
