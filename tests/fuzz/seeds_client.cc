// What a client takes: from its controller, and from worker-0 on the bulk socket; and .npy files.
#include "runtime/base/version.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/control/worker_report_codec.h"
#include "schemas/bulk.capnp.h"
#include "schemas/session.capnp.h"
#include "tests/fuzz/seeds.h"

namespace lockstep::fuzz {
namespace {

using ControllerMessageBuilder = wire::ControllerMessage::Builder;

std::string Opened() {
  return Say<wire::ControllerMessage>(0, [](ControllerMessageBuilder message) {
    auto opened = message.initSessionOpened();
    opened.setSession(1);
    opened.setToken("token");
    opened.setVersion(kProtocolVersion);
    opened.initWorkers(2)[1].setBulkEndpoint("inproc://bulk");
    opened.setController(7);
    opened.setLeaseMillis(10'000);
    opened.setFlowWindowBytes(1 << 20);
    opened.setMaxBatchBytes(1 << 20);
    control::SessionRecord record;
    record.name = "client";
    control::WriteSessionRecord(opened.initRecord(), record);
    opened.initReplaced(1)[0].setRank(1);
  });
}

}  // namespace

void AddClientSeeds(SeedFolder& folder) {
  std::string all = Opened();
  folder.Add("controller_messages", "opened", all);
  const auto add = [&](const std::string& name, auto fill, const control::Frame& body = {}) {
    const std::string record = Say<wire::ControllerMessage>(0, fill, body);
    folder.Add("controller_messages", name, Opened() + record);
    all += record;
  };
  add("answer", [](ControllerMessageBuilder message) { message.initAnswer().setRequest(1); });
  add("failed", [](ControllerMessageBuilder message) {
    auto failed = message.initSessionFailed();
    control::WriteError(failed.initError(), control::ErrorOf(Internal("it failed")));
  });
  add("credit",
      [](ControllerMessageBuilder message) { message.initCredit().setConsumedBytes(512); });
  add("keep_alive", [](ControllerMessageBuilder message) {
    auto keep_alive = message.initKeepAlive();
    keep_alive.setSent(9);
    keep_alive.setMissing(true);
  });
  add(
      "output",
      [](ControllerMessageBuilder message) {
        auto output = message.initOutput();
        output.setSession(1);
        output.setRank(1);
        output.setPosition(300);
        output.setDropped(2);
      },
      SomeOutputLines());
  add("replaced", [](ControllerMessageBuilder message) {
    auto news = message.initWorkersReplaced();
    news.initWorkers(2);
    news.initReplaced(1)[0].setFromCommand(4);
  });
  const auto refused = [](ControllerMessageBuilder message) {
    auto refused = message.initRefused();
    control::WriteError(refused.initError(), control::ErrorOf(NotFound("no such session")));
    refused.setController(8);
  };
  add("refused", refused);
  add("opened_again",
      [](ControllerMessageBuilder message) { message.initSessionOpened().setController(8); });
  add("shutdown", [](ControllerMessageBuilder message) { message.setShutdown("the end"); });
  folder.Add("controller_messages", "many", all);
  folder.Add("controller_messages", "refused_at_once", Say<wire::ControllerMessage>(0, refused));
  folder.Add("controller_messages", "finding_status_of_another_rank",
             Say<wire::ControllerMessage>(0, [](ControllerMessageBuilder message) {
               auto workers = message.initClusterStatus().initWorkers(1);
               workers[0].getPeer().setRank(1000);
               workers[0].setState(wire::WorkerStatus::State::LOST);
             }));
  folder.Add("controller_messages", "finding_name_that_is_no_utf8",
             Say<wire::ControllerMessage>(0, [](ControllerMessageBuilder message) {
               message.initClusterStatus().initSessions(1)[0].setName("\xff\xfe");
             }));
  std::string keep_alives = Opened();
  for (uint64_t sent = 2; sent < 400; ++sent) {
    keep_alives += Say<wire::ControllerMessage>(
        0, [&](ControllerMessageBuilder message) { message.initKeepAlive().setSent(2 * sent); });
  }
  folder.Add("controller_messages", "finding_keep_alives_answered_inside_each_other", keep_alives);
  folder.Add("controller_messages", "register_listing",
             Say<wire::ControllerMessage>(0, [](ControllerMessageBuilder message) {
               auto ranks = message.initRegisterListing().initRanks(2);
               auto session = ranks[0].initHeld().initSessions(1)[0];
               session.setSession(1);
               session.setRegisters(2);
               auto held = session.initListed(1)[0];
               held.setRegister(uint64_t{1} << 32 | 7);
               held.setName("weights");
               held.setType("tensor");
               held.setDtype("float32");
               held.initShape(2).set(0, 3);
               held.setLayout(1);
               auto layout = session.initLayouts(1)[0];
               layout.setDtype("float32");
               layout.initShape(1).set(0, 9);
               layout.initAxes(1)[0].setName("x");
               layout.initRanks(1).set(0, 1);
               layout.initPlacements(1).set(0, "shard(0)");
               ranks[1].setRank(1);
               ranks[1].initHeld().setBusy(true);
             }));
  folder.Add("controller_messages", "status",
             Say<wire::ControllerMessage>(0, [](ControllerMessageBuilder message) {
               auto status = message.initClusterStatus();
               status.setCluster("demo");
               status.setUptimeMillis(90'000);
               auto workers = status.initWorkers(2);
               workers[0].setState(wire::WorkerStatus::State::READY);
               workers[0].setBackend("shm");
               WorkerActivity activity;
               activity.kind = WorkerActivity::Kind::kCollective;
               activity.what = "allreduce";
               activity.last_rank = 1;
               control::WriteActivity(activity, workers[0].initActivity());
               workers[1].getPeer().setRank(1);
               workers[1].setState(wire::WorkerStatus::State::LOST);
               workers[1].setReason("its process 7 was killed");
               auto report = workers[1].initReport();
               control::WriteActivity(activity, report.initActivity());
               report.initStack(1).set(0, "main");
               auto session = status.initSessions(1)[0];
               session.setName("client");
               session.setSentBytes(3);
             }));
}

void AddBulkSeeds(SeedFolder& folder) {
  const control::Frame bytes = control::Frame::Copy("0123456789abcdef", 16);
  const auto request = [](auto fill, const control::Frame& body = {}) {
    return Say<wire::BulkRequest>(
        0,
        [&](wire::BulkRequest::Builder request) {
          request.setTicket(Placeholder("TICKET--"));
          request.setOffset(8);
          fill(request);
        },
        body);
  };
  const std::string write =
      request([](auto request) { request.setWrite(Placeholder("CHECKSUM")); }, bytes);
  const std::string read = request([](auto request) { request.setRead(16); });
  folder.Add("bulk_requests", "write", write);
  folder.Add("bulk_requests", "read", read);
  folder.Add("bulk_requests", "write_read", write + read);
  folder.Add("bulk_requests", "write_with_another_checksum",
             request([](auto request) { request.setWrite(1); }, bytes));
  folder.Add("bulk_requests", "unknown_ticket",
             Say<wire::BulkRequest>(0, [](auto request) { request.setTicket(1); }));

  // As in the harness.
  constexpr uint64_t kTicket = 3;
  const auto reply = [](const control::Frame& body, bool damaged) {
    return Say<wire::BulkReply>(
        0,
        [&](wire::BulkReply::Builder reply) {
          reply.setTicket(kTicket);
          reply.setChecksum(damaged ? 1 : Placeholder("CHECKSUM"));
        },
        body);
  };
  const std::string kilobyte(1000, 'x');
  const control::Frame chunk = control::Frame::Copy(kilobyte.data(), kilobyte.size());
  folder.Add("bulk_replies", "read", "\2" + reply(chunk, false));
  folder.Add("bulk_replies", "read_damaged", "\2" + reply(chunk, true) + reply(chunk, false));
  folder.Add("bulk_replies", "of_a_controller",
             "\3" + RecordOf(0, {control::EncodeMessage<wire::ControllerMessage>([](auto message) {
                               message.initClusterStatus();
                             })},
                             /*raw=*/true));
  folder.Add("bulk_replies", "written", "\3" + reply({}, false));
  folder.Add("bulk_replies", "error", "\3" + Say<wire::BulkReply>(0, [](auto reply) {
                                        reply.setTicket(kTicket);
                                        control::WriteError(reply.initError(),
                                                            control::ErrorOf(DataLoss("damaged")));
                                      }));
}

void AddNpySeeds(SeedFolder& folder) {
  const auto add = [&](const std::string& name, char version, const std::string& dictionary,
                       const std::string& data) {
    std::string file = std::string("\x93NUMPY") + version + '\0';
    file += static_cast<char>(dictionary.size());
    file += std::string(version == 1 ? 1 : 3, '\0');
    folder.Add("npy", name, file + dictionary + data);
  };
  add("float32", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n",
      std::string(8, '\1'));
  add("scalar", 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n",
      std::string(8, '\1'));
  add("version_2", 2, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }\n", "\1\1\1");
  add("fortran", 1, "{'descr': '<f8', 'fortran_order': True, 'shape': (1,), }\n",
      std::string(8, '\1'));
  add("empty", 1, "{'descr': '<u2', 'fortran_order': False, 'shape': (0, 5), }\n", "");
  add("cut_off", 1, "{'descr': '<f2', 'fortran_order': False, 'shape': (4,), }\n", "ab");
}

}  // namespace lockstep::fuzz
