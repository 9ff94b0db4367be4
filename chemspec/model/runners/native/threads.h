// Thread pool of a forward pass.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include <sched.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The calling thread computes a pass; idle workers take parts of its larger steps.
// The pass waits for a worker only while that computes a part: a core that is busy with other programs costs speed but does not
// stall the pass. Workers spin for a while before they sleep.
class ThreadPool {
 public:
  explicit ThreadPool(int size) : owner_(getpid()) {
    workers_.reserve(std::max(0, size - 1));
    try {
      for (int member = 1; member < size; member++) workers_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {  // the system allows no more threads
    }
  }
  // Must not be destroyed in a forked child, see `forked`.
  ~ThreadPool() {
    stop_ = true;
    {
      std::lock_guard<std::mutex> lock(sleeping_);
    }
    woken_.notify_all();
    for (auto& worker : workers_) worker.join();
  }
  // Whether this is a forked child, which has no workers; destroying their condition variable would block forever.
  bool forked() const { return getpid() != owner_; }
  // Lock held during a pass, since sessions of one model share the pool.
  std::unique_lock<std::mutex> lead() {
    std::unique_lock<std::mutex> lock(busy_);
    alone_ = workers_.empty() || forked();
    if (!alone_ && sleepers_.load() > 0) {
      std::lock_guard<std::mutex> asleep(sleeping_);
      calls_++;
      woken_.notify_all();
    }
    return lock;
  }
  // Runs work(part) once for every part below count, by any thread; returns when all are done.
  template <class Work>
  void parallel_for(uint32_t count, const Work& work) {
    if (alone_ || count < 2) {
      for (uint32_t part = 0; part < count; part++) work(part);
      return;
    }
    const uint32_t step = ++step_;
    Job& job = jobs_[step % JOBS];
    job.count.store(count, std::memory_order_relaxed);
    job.context.store(&work, std::memory_order_relaxed);
    job.call.store([](const void* context, uint32_t part) { (*static_cast<const Work*>(context))(part); }, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    state_.store(uint64_t(step) << 32, std::memory_order_release);
    take(step);
    for (int spins = 0; done_.load(std::memory_order_acquire) != count; spins++) {
      if (spins < 1000) relax();
      else sched_yield();  // the thread with the last part has been preempted
    }
    if (failed_.exchange(false)) throw std::bad_alloc();
  }

 private:
  static constexpr int JOBS = 4;
  struct Job {
    std::atomic<uint32_t> count{0};
    std::atomic<const void*> context{nullptr};
    std::atomic<void (*)(const void*, uint32_t)> call{nullptr};
  };
  // Takes parts of a step until none is left. The step's number and the next part are updated atomically, so a part is never
  // taken from a finished step, and a step does not finish before its parts.
  void take(uint32_t step) {
    uint64_t state = state_.load(std::memory_order_acquire);
    while (uint32_t(state >> 32) == step) {
      Job& job = jobs_[step % JOBS];
      const uint32_t part = uint32_t(state);
      const auto call = job.call.load(std::memory_order_relaxed);
      const void* context = job.context.load(std::memory_order_relaxed);
      if (part >= job.count.load(std::memory_order_relaxed)) return;
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) {
        try {
          call(context, part);
        } catch (...) {  // out of memory: rethrown when all parts are done, since other threads may still be running
          failed_ = true;
        }
        done_.fetch_add(1, std::memory_order_acq_rel);
        state = state_.load(std::memory_order_acquire);
      }
    }
  }
  void serve() {
    uint32_t seen = 0;
    while (!stop_) {
      int spins = 0;
      while (uint32_t(state_.load(std::memory_order_acquire) >> 32) == seen && spins++ < 8000) relax();
      const uint32_t step = uint32_t(state_.load(std::memory_order_acquire) >> 32);
      if (step == seen) {
        std::unique_lock<std::mutex> lock(sleeping_);
        const uint64_t calls = calls_;
        sleepers_.fetch_add(1);
        woken_.wait(lock, [&] { return calls_ != calls || stop_; });
        sleepers_.fetch_sub(1);
      } else {
        take(step);
        seen = step;
      }
    }
  }

  const pid_t owner_;
  bool alone_ = true;
  uint32_t step_ = 0;
  uint64_t calls_ = 0;
  std::vector<std::thread> workers_;
  std::mutex busy_, sleeping_;
  std::condition_variable woken_;
  Job jobs_[JOBS];
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false}, failed_{false};
};

}  // namespace
