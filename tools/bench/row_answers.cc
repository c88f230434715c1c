// What a program pays that looks at a result after each step: a value, a small tensor, or nothing
// but that all is done; beside a SyncAll at the same place.
//
// Each is asked right after a call, because a copy of a tensor that no command was issued for since
// asks nobody. All take turns, one question at a time, so that the ratios are of one machine.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/shape.h"
#include "tools/bench/clusters.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 4;
constexpr int kUnderWay = 10;
constexpr int kRoundsBefore = 100;
// One round trip, as a sync is.
constexpr double kAnswerGoal = 1 / 1.2;
constexpr double kWriteGoal = 1 / 1.5;
constexpr char kCallAndSync[] = "a call and SyncAll";

// What is asked of a session again and again.
struct Question {
  Line* line = nullptr;  // null: the rival
  std::function<Status()> ask;
  std::vector<double> micros = {};
};

// The median times of `questions` in microseconds, which take turns for about `time`.
StatusOr<std::vector<double>> TimeInTurn(std::vector<Question>& questions,
                                         std::chrono::milliseconds time) {
  for (Question& question : questions) question.micros.clear();
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    for (Question& question : questions) {
      const auto start = Clock::now();
      LOCKSTEP_RETURN_IF_ERROR(question.ask());
      question.micros.push_back(
          std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  }
  std::vector<double> medians;
  for (Question& question : questions) medians.push_back(Median(question.micros));
  return medians;
}

Status SyncsUnderWay(Session& session) {
  std::vector<Future<void>> answers;
  for (int i = 0; i < kUnderWay; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(Future<void> answer, session.SyncAllAsync());
    answers.push_back(std::move(answer));
  }
  for (Future<void>& answer : answers) LOCKSTEP_RETURN_IF_ERROR(answer.Get());
  return OkStatus();
}

// One session of one kind of cluster.
class Asked {
 public:
  // `where`: how its cluster is told from others.
  static StatusOr<std::unique_ptr<Asked>> Prepare(Session session, const std::string& where,
                                                  Report& report) {
    auto asked = std::make_unique<Asked>(std::move(session));
    LOCKSTEP_RETURN_IF_ERROR(asked->AddQuestions(where, report));
    for (int i = 0; i < kRoundsBefore; ++i) {
      for (Question& question : asked->questions_) LOCKSTEP_RETURN_IF_ERROR(question.ask());
    }
    return asked;
  }
  explicit Asked(Session session) : session_(std::move(session)) {}

  Status Measure(std::chrono::milliseconds time) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> medians, TimeInTurn(questions_, time));
    for (size_t i = 1; i < questions_.size(); ++i) {
      Line& line = *questions_[i].line;
      line.ours.push_back(medians[i]);
      line.Rival(kCallAndSync).values.push_back(medians[0]);
    }
    return OkStatus();
  }
  Status Close() { return session_.Close(); }

 private:
  Status AddQuestions(const std::string& where, Report& report) {
    LOCKSTEP_ASSIGN_OR_RETURN(nop_, session_.GetFunction("lockstep.nop"));
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef identity, session_.GetFunction("lockstep.identity"));
    LOCKSTEP_ASSIGN_OR_RETURN(scalar_, session_.Call(identity, 1.5));
    LOCKSTEP_ASSIGN_OR_RETURN(tensor_, session_.Empty(Shape({1}), DType::kFloat32));
    questions_.push_back({.ask = [this] { return AfterCall([&] { return session_.SyncAll(); }); }});
    const auto add = [&](const char* what, Goal goal, std::function<Status()> ask) {
      Line& line = report.Add({.row = "answers",
                               .what = what + (", " + where),
                               .unit = "us",
                               .better = Better::kLess,
                               .goal = goal});
      questions_.push_back({.line = &line, .ask = std::move(ask)});
      return &line;
    };
    add("DebugGet of a scalar", Goal::RatioAtLeast(kAnswerGoal),
        [this] { return AfterCall([&] { return session_.DebugGet(scalar_, 0).status(); }); });
    add("CopyFromWorker0 of 4 B", Goal::RatioAtLeast(kAnswerGoal), [this] {
      return AfterCall([&] { return session_.CopyFromWorker0(ViewOf(&element_, 1), tensor_); });
    });
    add("CopyToWorker0 of 4 B", Goal::RatioAtLeast(kWriteGoal), [this] {
      return AfterCall(
          [&] { return session_.CopyToWorker0(tensor_, ViewOf(&std::as_const(element_), 1)); });
    });
    add("10 SyncAllAsync under way", Goal::None(), [this] {
      return AfterCall([&] { return SyncsUnderWay(session_); });
    })->note = "all 10 of them, which 10 SyncAll take 10 times the rival's time for";
    return OkStatus();
  }
  template <typename Ask>
  Status AfterCall(Ask ask) {
    LOCKSTEP_RETURN_IF_ERROR(session_.Call(nop_).status());
    return ask();
  }

  Session session_;
  DRef nop_;
  DRef scalar_;
  DRef tensor_;
  float element_ = 1;
  std::vector<Question> questions_;
};

}  // namespace

Status MeasureAnswers(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(kWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto services, ServiceCluster::Up(settings, kWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto tcp_cluster, StartLocalCluster(kWorkers, Way::kTcp));
  std::vector<std::unique_ptr<Asked>> sessions;
  const auto prepare = [&](StatusOr<Session> session, const char* where) -> Status {
    LOCKSTEP_RETURN_IF_ERROR(session.status());
    LOCKSTEP_ASSIGN_OR_RETURN(auto asked, Asked::Prepare(*std::move(session), where, report));
    sessions.push_back(std::move(asked));
    return OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(prepare(cluster->Connect(), "4 worker processes"));
  LOCKSTEP_RETURN_IF_ERROR(prepare(services->Connect(), "`lockstep up`"));
  SessionOptions as_of_another_host;
  as_of_another_host.map_memory = false;
  LOCKSTEP_RETURN_IF_ERROR(
      prepare(tcp_cluster->Connect(as_of_another_host), "TCP, no shared memory"));

  const std::chrono::milliseconds time(settings.quick ? 400 : 1200);
  for (int round = 0; round < settings.rounds; ++round) {
    for (const auto& session : sessions) {
      LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
      LOCKSTEP_RETURN_IF_ERROR(session->Measure(time));
    }
  }
  for (const auto& session : sessions) LOCKSTEP_RETURN_IF_ERROR(session->Close());
  LOCKSTEP_RETURN_IF_ERROR(tcp_cluster->Stop());
  LOCKSTEP_RETURN_IF_ERROR(services->Down());
  return cluster->Stop();
}

}  // namespace lockstep::bench
