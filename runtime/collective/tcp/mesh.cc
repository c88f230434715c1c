#include "runtime/collective/tcp/mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <optional>
#include <utility>

#include "runtime/base/random.h"
#include "runtime/collective/message/connecting.h"
#include "runtime/collective/tcp/introduction.h"
#include "runtime/collective/tcp/sealing/key_agreement.h"

namespace lockstep::collective::tcp {
namespace {

using std::chrono::milliseconds;

// All have told where they listen, so they are there.
constexpr milliseconds kLongestConnect{5000};
// How soon a wait notices that it was cancelled.
constexpr milliseconds kLook{5};
constexpr int kSecretBytes = 16;
// Who have said nothing yet, beyond the ranks that are expected.
constexpr size_t kMostStrangers = 64;

// What a connection begins with.
struct Hello {
  char magic[8] = {'l', 'o', 'c', 'k', 's', 't', 'e', 'p'};
  uint64_t rank = 0;  // of the team
  // What the one that listens has told all ranks, or (encrypted) ConnectionKeys::hello.
  char secret[2 * kSecretBytes] = {};
};
static_assert(sizeof Hello::secret == Introduction::kSecretBytes);
static_assert(sizeof Hello::secret == sizeof ConnectionKeys::hello);

// In a time that does not tell how much of it was right.
bool IsSame(const char* a, const char* b, size_t size) {
  unsigned char difference = 0;
  for (size_t i = 0; i < size; ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

// What this rank tells all others, but for where it listens.
Introduction Introduce(const Protection& protection, const std::optional<KeyAgreement>& agreement) {
  Introduction own;
  own.secret = RandomHex(kSecretBytes);
  if (agreement.has_value()) own.public_key = agreement->public_key();
  own.plaintext = protection.plaintext;
  return own;
}

// The words for all others; or why this rank cannot listen.
StatusOr<std::vector<std::string>> WordsOf(const Network& network, const StatusOr<Socket>& listener,
                                           Introduction own) {
  const auto cannot = [&](const Status& why) {
    return Unavailable("cannot listen at \"", network.address,
                       "\" for the other ranks: ", Message(why));
  };
  if (!listener.ok()) return cannot(listener.status());
  const StatusOr<Place> place = listener->place();
  if (!place.ok()) return cannot(place.status());
  own.place = *place;
  return std::vector<std::string>{own.ToText()};
}

class Mesh {
 public:
  Mesh(const message::Team& team, Socket listener)
      : team_(team),
        listener_(std::move(listener)),
        told_(team.members.size()),
        secrets_(team.members.size()),
        ciphers_(team.members.size()),
        sockets_(team.members.size()),
        dials_(team.members.size()) {}

  // Takes in what all have told, by rank, and makes what their connections need.
  Status Prepare(const std::vector<std::string>& words,
                 const std::optional<KeyAgreement>& agreement);
  // Begins to connect with those before this rank.
  Status Dial();
  // Waits until all are connected.
  Status Complete(const std::atomic<bool>* cancelled, Deadline deadline);

  std::vector<Connection> TakeConnections();

 private:
  struct Dialed {
    Socket socket;  // open while it is being connected
    Hello hello;
  };
  // A connection that has come, and has not said all of who it is.
  struct Caller {
    Socket socket;
    Hello hello;
    size_t heard_bytes = 0;
  };

  Rank MemberAt(size_t r) const { return team_.members[r]; }
  Status Encrypt(size_t r, const KeyAgreement& agreement);
  std::optional<size_t> FirstMissing() const;
  Status FinishDials();
  Status Answer();
  // False if this is nobody whom this rank waits for, and is to be closed.
  bool Hear(Caller& caller);

  const message::Team& team_;
  const Socket listener_;
  // By rank:
  std::vector<Introduction> told_;
  std::vector<std::string> secrets_;  // what the connection with it begins with
  std::vector<Ciphers> ciphers_;      // null: it is not encrypted
  std::vector<Socket> sockets_;       // open once it is connected
  std::vector<Dialed> dials_;
  std::list<Caller> callers_;
};

Status Mesh::Prepare(const std::vector<std::string>& words,
                     const std::optional<KeyAgreement>& agreement) {
  for (size_t r = 0; r < told_.size(); ++r) {
    auto told = Introduction::Parse(words[r]);
    if (!told.ok()) return Unavailable("rank ", MemberAt(r), " ", Message(told.status()));
    told_[r] = *std::move(told);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckProtection(told_, team_.members));
  const auto own = static_cast<size_t>(team_.rank);
  for (size_t r = 0; r < told_.size(); ++r) {
    secrets_[r] = told_[std::min(r, own)].secret;
    if (r != own && MustEncrypt(told_[r], told_[own])) {
      LOCKSTEP_RETURN_IF_ERROR(Encrypt(r, *agreement));
    }
  }
  return OkStatus();
}

Status Mesh::Encrypt(size_t r, const KeyAgreement& agreement) {
  const auto own = static_cast<size_t>(team_.rank);
  const size_t called = std::min(r, own);
  const size_t calling = std::max(r, own);
  const auto keys = agreement.Agree({.team = team_.key,
                                     .called_rank = called,
                                     .calling_rank = calling,
                                     .called_secret = told_[called].secret,
                                     .calling_secret = told_[calling].secret,
                                     .is_caller = own == calling},
                                    told_[r].public_key);
  if (!keys.ok()) return Unavailable("rank ", MemberAt(r), " ", Message(keys.status()));
  secrets_[r].assign(keys->hello.data(), keys->hello.size());
  LOCKSTEP_ASSIGN_OR_RETURN(ciphers_[r].seal, Cipher::Create(Cipher::Use::kSeal, keys->send));
  LOCKSTEP_ASSIGN_OR_RETURN(ciphers_[r].open, Cipher::Create(Cipher::Use::kOpen, keys->receive));
  return OkStatus();
}

Status Mesh::Dial() {
  for (size_t r = 0; r < static_cast<size_t>(team_.rank); ++r) {
    auto socket = Socket::Connect(told_[r].place);
    if (!socket.ok()) {
      return Unavailable("rank ", MemberAt(r), " cannot be reached: ", Message(socket.status()));
    }
    Dialed& dialed = dials_[r];
    dialed.socket = *std::move(socket);
    dialed.hello.rank = static_cast<uint64_t>(team_.rank);
    std::memcpy(dialed.hello.secret, secrets_[r].data(), sizeof dialed.hello.secret);
  }
  return OkStatus();
}

std::optional<size_t> Mesh::FirstMissing() const {
  for (size_t r = 0; r < sockets_.size(); ++r) {
    if (r != static_cast<size_t>(team_.rank) && !sockets_[r].is_open()) return r;
  }
  return std::nullopt;
}

Status Mesh::Complete(const std::atomic<bool>* cancelled, Deadline deadline) {
  while (const std::optional<size_t> missing = FirstMissing()) {
    if (cancelled != nullptr && *cancelled) return Aborted("connecting was cancelled");
    if (deadline.Expired()) {
      return Unavailable("rank ", MemberAt(*missing), " cannot be reached: it does not answer");
    }
    std::vector<pollfd> awaited = {{listener_.fd(), POLLIN, 0}};
    for (const Dialed& dialed : dials_) {
      if (dialed.socket.is_open()) awaited.push_back({dialed.socket.fd(), POLLOUT, 0});
    }
    for (const Caller& caller : callers_) awaited.push_back({caller.socket.fd(), POLLIN, 0});
    const Deadline look = deadline.Earlier(Deadline::After(kLook));
    (void)poll(awaited.data(), awaited.size(), look.RemainingMillis());
    LOCKSTEP_RETURN_IF_ERROR(FinishDials());
    LOCKSTEP_RETURN_IF_ERROR(Answer());
  }
  return OkStatus();
}

Status Mesh::FinishDials() {
  for (size_t r = 0; r < dials_.size(); ++r) {
    Dialed& dialed = dials_[r];
    if (!dialed.socket.is_open()) continue;
    pollfd state = {dialed.socket.fd(), POLLOUT, 0};
    if (poll(&state, 1, 0) != 1) continue;
    int error = dialed.socket.ConnectError();
    // A connection that is new has room for it.
    const bool is_told = error == 0 && send(dialed.socket.fd(), &dialed.hello, sizeof(Hello),
                                            MSG_NOSIGNAL) == sizeof(Hello);
    if (error == 0 && !is_told) error = errno;
    if (!is_told) {
      return Unavailable("rank ", MemberAt(r), " cannot be reached: ", std::strerror(error));
    }
    sockets_[r] = std::move(dialed.socket);
  }
  return OkStatus();
}

Status Mesh::Answer() {
  while (true) {
    Socket accepted = listener_.Accept();
    if (!accepted.is_open()) {
      if (errno != EMFILE && errno != ENFILE) break;
      return Unavailable("no other rank can be let in: ", std::strerror(errno));
    }
    callers_.push_back({std::move(accepted), {}, 0});
    if (callers_.size() <= sockets_.size() + kMostStrangers) continue;
    // Ranks say at once who they are: who has been silent for longest is none, or has just said it.
    (void)Hear(callers_.front());
    callers_.pop_front();
  }
  callers_.remove_if([&](Caller& caller) { return !Hear(caller); });
  return OkStatus();
}

bool Mesh::Hear(Caller& caller) {
  auto* const into = reinterpret_cast<char*>(&caller.hello);
  const ssize_t got = recv(caller.socket.fd(), into + caller.heard_bytes,
                           sizeof(Hello) - caller.heard_bytes, MSG_DONTWAIT);
  if (got < 0 && IsTemporary(errno)) return true;
  if (got <= 0) return false;
  caller.heard_bytes += static_cast<size_t>(got);
  if (caller.heard_bytes < sizeof(Hello)) return true;
  const Hello right;
  const uint64_t rank = caller.hello.rank;
  const bool is_ours = IsSame(caller.hello.magic, right.magic, sizeof right.magic) &&
                       rank > static_cast<uint64_t>(team_.rank) && rank < sockets_.size() &&
                       IsSame(caller.hello.secret, secrets_[rank].data(), sizeof right.secret) &&
                       !sockets_[rank].is_open();
  if (is_ours) sockets_[rank] = std::move(caller.socket);
  return false;
}

std::vector<Connection> Mesh::TakeConnections() {
  std::vector<Connection> connections;
  for (size_t r = 0; r < sockets_.size(); ++r) {
    if (ciphers_[r].seal == nullptr) {
      connections.emplace_back(std::move(sockets_[r]));
    } else {
      connections.emplace_back(std::move(sockets_[r]), std::move(ciphers_[r]));
    }
  }
  return connections;
}

}  // namespace

StatusOr<std::vector<Connection>> ConnectMesh(const Network& network, const message::Team& team,
                                              const std::atomic<bool>* cancelled,
                                              Deadline deadline) {
  // New keys for every attempt: what was sent under them is never sent under them again.
  std::optional<KeyAgreement> agreement;
  if (network.protection.can_encrypt) agreement.emplace();
  StatusOr<Socket> listener = Socket::Listen(network.address);
  const StatusOr<std::vector<std::string>> mine =
      WordsOf(network, listener, Introduce(network.protection, agreement));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<std::string> words,
      message::ExchangePlaces(*network.rendezvous, team, mine, cancelled, deadline));
  Mesh mesh(team, *std::move(listener));
  LOCKSTEP_RETURN_IF_ERROR(mesh.Prepare(words, agreement));
  // No more than half of the time that is left: then the others can still be told how it went.
  const Deadline half = Deadline::After(deadline.Remaining() / 2);
  LOCKSTEP_RETURN_IF_ERROR(mesh.Dial());
  LOCKSTEP_RETURN_IF_ERROR(
      mesh.Complete(cancelled, half.Earlier(Deadline::After(kLongestConnect))));
  return mesh.TakeConnections();
}

}  // namespace lockstep::collective::tcp
