// Wakes whoever waits for a message of Gloo, again and again, to look around.
//
// Gloo's waits do not end when the connection is lost in the middle of the message (only what is
// queued behind is told), and one that times out closes every connection of its context. So nobody
// waits with a time-out here: he is woken now and then, and looks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace lockstep::collective::gloo {

// Threads: safe. The callbacks come on a thread of its own, which lives as long as this.
class Nudger {
 public:
  using Callback = std::function<void()>;
  using Handle = std::list<Callback>::iterator;

  Nudger();
  ~Nudger();

  // Calls `callback` every 20 ms, until Remove() has returned.
  Handle Add(Callback callback);
  void Remove(Handle handle);

  // While one lives, the callbacks come every millisecond.
  class Haste {
   public:
    explicit Haste(Nudger& nudger) : nudger_(nudger) { nudger_.Hurry(1); }
    ~Haste() { nudger_.Hurry(-1); }
    Haste(const Haste&) = delete;
    Haste& operator=(const Haste&) = delete;

   private:
    Nudger& nudger_;
  };

 private:
  void Hurry(int more);
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Callback> callbacks_;
  int hasty_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::collective::gloo
