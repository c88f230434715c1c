// What a controller takes: from clients, and from workers on their command socket.
#include "runtime/base/version.h"
#include "runtime/control/batch.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value_codec.h"
#include "schemas/control.capnp.h"
#include "schemas/session.capnp.h"
#include "tests/fuzz/seeds.h"

namespace lockstep::fuzz {
namespace {

using Client = wire::ClientMessage::Builder;
using Worker = wire::WorkerMessage::Builder;

// The session that is open already.
constexpr uint32_t kSession = 1;
constexpr char kToken[] = "TOKEN--0TOKEN--1TOKEN--2TOKEN--3";
constexpr uint64_t kTimeoutMillis = 1000;

template <typename Fill>
std::string AddClient(SeedFolder& folder, const std::string& name, Fill fill,
                      const control::Frame& body = {}) {
  const std::string record = Say<wire::ClientMessage>(0, fill, body);
  folder.Add("client_messages", name, record);
  return record;
}

void AddClientMessages(SeedFolder& folder) {
  const control::Frame sync =
      control::OneCommand([](wire::Command::Builder command) { command.setSync(); });
  const auto batch = [](uint64_t first, uint64_t request) {
    return [=](Client message) {
      auto batch = message.initBatch();
      batch.setSession(kSession);
      batch.setFirstCommand(first);
      batch.setCommandCount(1);
      batch.setRequest(request);
      batch.setTimeoutMillis(kTimeoutMillis);
    };
  };
  std::string all = AddClient(folder, "batch", batch(1, 1), sync);
  all += Say<wire::ClientMessage>(0, batch(2, 2), sync);
  folder.Add("client_messages", "two_batches", all);
  AddClient(folder, "batch_after_a_gap", batch(7, 3), sync);
  const auto reset = [](Client message) {
    auto reset = message.initResetSession();
    reset.setSession(kSession);
    reset.setGeneration(1);
    reset.setRequest(4);
    reset.setNextCommand(9);
    reset.setTimeoutMillis(kTimeoutMillis);
  };
  all += AddClient(folder, "reset", reset);
  all += AddClient(folder, "name", [](Client message) {
    auto name = message.initNameRegister();
    name.setSession(kSession);
    name.setRequest(5);
    name.setTimeoutMillis(kTimeoutMillis);
    name.initName().setName("weights");
    name.getName().setRegister(1);
  });
  all += AddClient(folder, "keep_alive", [](Client message) {
    auto keep_alive = message.initKeepAlive();
    keep_alive.setSession(kSession);
    keep_alive.setSent(3);
    keep_alive.setTellAgain(true);
  });
  all += AddClient(folder, "output_taken", [](Client message) {
    auto taken = message.initOutputTaken();
    taken.setSession(kSession);
    taken.setPosition(300);
  });
  all += AddClient(folder, "await", [](Client message) {
    auto await = message.initAwaitWorkers();
    await.setSession(kSession);
    await.setRequest(6);
    await.setTimeoutMillis(kTimeoutMillis);
  });
  all += AddClient(folder, "status", [](Client message) { message.setStatus(7); });
  all += AddClient(folder, "explain", [](Client message) { message.setExplain(8); });
  all += AddClient(folder, "trace_start", [](Client message) { message.initTrace().setStart(8); });
  all += AddClient(folder, "trace_clock", [](Client message) { message.initTrace().setClock(8); });
  all += AddClient(folder, "trace_fetch",
                   [](Client message) { message.initTrace().initFetch().setRank(1); });
  all += AddClient(folder, "list_registers", [](Client message) {
    auto list = message.initListRegisters();
    list.setRequest(9);
    list.setMost(100);
  });
  const auto detach = [](Client message) { message.initDetachSession().setSession(kSession); };
  const auto attach = [](Client message) {
    auto attach = message.initAttachSession();
    attach.setMinVersion(kOldestProtocolVersion);
    attach.setMaxVersion(kProtocolVersion);
    attach.setSession(kSession);
    attach.setToken(kToken);
    attach.setName("another");
  };
  const auto resume = [](Client message) {
    auto resume = message.initResumeSession();
    resume.setMinVersion(kOldestProtocolVersion);
    resume.setMaxVersion(kProtocolVersion);
    resume.setSession(kSession);
    resume.setToken(kToken);
    resume.setNextCommand(5);
    resume.setClientNumber(2);
  };
  folder.Add("client_messages", "detach_attach",
             Say<wire::ClientMessage>(0, detach) + Say<wire::ClientMessage>(1, attach));
  all += AddClient(folder, "resume", resume);
  const auto open = [](Client message) {
    auto open = message.initOpenSession();
    open.setMinVersion(kOldestProtocolVersion);
    open.setMaxVersion(kProtocolVersion);
    open.setName("second");
    open.setNumGroups(2);
    open.setTimeoutMillis(kTimeoutMillis);
  };
  folder.Add("client_messages", "open", Say<wire::ClientMessage>(2, open));
  const auto close = [](Client message) {
    auto close = message.initCloseSession();
    close.setSession(kSession);
    close.setRequest(9);
    close.setTimeoutMillis(kTimeoutMillis);
  };
  all += AddClient(folder, "close", close);
  AddClient(folder, "shutdown", [](Client message) { message.setShutdown("the end"); });
  folder.Add("client_messages", "many", all);
  folder.Add("client_messages", "raw",
             RecordOf(0, {control::EncodeMessage<wire::ClientMessage>([](Client message) {
                        message.setStatus(1);
                      })},
                      /*raw=*/true));
  folder.Add("client_messages", "of_a_worker",
             RecordOf(0, {control::EncodeMessage<wire::WorkerMessage>([](Worker message) {
                        message.initHello();
                      })},
                      /*raw=*/true));
}

std::string Hello(uint8_t sender, bool with_inventory) {
  return Say<wire::WorkerMessage>(sender, [&](Worker message) {
    auto hello = message.initHello();
    hello.setMinVersion(kOldestProtocolVersion);
    hello.setMaxVersion(kProtocolVersion);
    hello.setBuild("0.1.0");
    hello.setRank(sender);
    hello.initHost().setName("host");
    hello.setPid(1);
    hello.setDevice("cpu:0");
    hello.setBulkEndpoint("inproc://bulk");
    if (!with_inventory) return;
    auto resume = hello.initResume();
    resume.setController(3);
    resume.setEpoch(4);
    resume.setWorldSize(2);
    resume.setWorkedEpoch(4);
    control::SessionRecord record;
    record.id = SessionId(6);
    record.token = "token";
    record.next_command = 10 + sender;
    record.names = {{"weights", {RegisterId{1, 1}, 1}}};
    control::WriteSessionRecord(resume.initSessions(1)[0], record);
  });
}

void AddWorkerMessages(SeedFolder& folder) {
  const std::string joined = Hello(0, false) + Hello(1, false);
  const auto add = [&](const std::string& name, const std::string& record) {
    folder.Add("worker_messages", name, joined + record);
    return record;
  };
  add("joined", "");
  folder.Add("worker_messages", "hello", Hello(0, false));
  folder.Add("worker_messages", "come_back", Hello(0, true) + Hello(1, true));
  folder.Add("worker_messages", "one_comes_back", Hello(0, true) + Hello(1, false));
  std::string all = add("ready", Say<wire::WorkerMessage>(0, [](Worker message) {
                          auto ready = message.initReady();
                          ready.setBackend("shm");
                          ready.setEpoch(Placeholder("EPOCH---"));
                          ready.setWhy("one node");
                        }));
  all += add("trouble", Say<wire::WorkerMessage>(1, [](Worker message) {
               auto trouble = message.initTrouble();
               trouble.setRank(1);
               trouble.setEpoch(Placeholder("EPOCH---"));
               trouble.setWhy("rank 0 does not answer");
             }));
  all += add("reply", Say<wire::WorkerMessage>(0, [](Worker message) {
               auto reply = message.initReply();
               reply.setSession(1);
               reply.setRequest(1);
             }));
  all += add("reply_of_an_end", Say<wire::WorkerMessage>(0, [](Worker message) {
               auto reply = message.initReply();
               reply.setSession(1);
               reply.setRequest(~uint64_t{0});
             }));
  all += add("failure", Say<wire::WorkerMessage>(1, [](Worker message) {
               auto failure = message.initFailure();
               control::RemoteError error = control::ErrorOf(Internal("it failed"));
               error.session = SessionId(1);
               error.command = 3;
               control::WriteError(failure.initError(), error);
             }));
  all += add("consumed", Say<wire::WorkerMessage>(1, [](Worker message) {
               auto consumed = message.initConsumed();
               consumed.setSession(1);
               consumed.setBytes(512);
             }));
  all += add("output", Say<wire::WorkerMessage>(
                           1,
                           [](Worker message) {
                             auto output = message.initOutput();
                             output.setSession(1);
                             output.setLines(3);
                           },
                           SomeOutputLines()));
  all += add("goodbye", Say<wire::WorkerMessage>(
                            1, [](Worker message) { message.setGoodbye("it was asked to"); }));
  add("replaced", all + Hello(1, false));
}

}  // namespace

void AddControllerSeeds(SeedFolder& folder) {
  AddClientMessages(folder);
  AddWorkerMessages(folder);
}

}  // namespace lockstep::fuzz
