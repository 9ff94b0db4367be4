// `decode/planner.py` in C++, with the same order of operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tree.h"

extern "C" {

// What a `planner.Planner` begins with. Arrays belong to the caller.
struct PlannerArgs {
  int32_t points;  // of the cost curve
  int32_t chances, places, levels;  // classes of the records
  int32_t foresees;
  double call_seconds;
  const double *nodes, *seconds;  // of the cost curve
  const double *chance_hits, *chance_tries, *place_hits, *place_tries, *level_hits, *level_tries;
};
}

namespace {

struct AcceptanceRecord {
  std::vector<double> hits, tries;

  AcceptanceRecord(const double* some_hits, const double* some_tries, int classes)
      : hits(some_hits, some_hits + classes), tries(some_tries, some_tries + classes) {}
  double chance(int kind) const { return hits[kind] / tries[kind]; }
  void add(int kind, bool hit) { hits[kind] += hit, tries[kind] += 1; }
};

class Planner {
 public:
  explicit Planner(const PlannerArgs& args)
      : by_chance(args.chance_hits, args.chance_tries, args.chances),
        by_place(args.place_hits, args.place_tries, args.places),
        by_level(args.level_hits, args.level_tries, args.levels),
        nodes_(args.nodes, args.nodes + args.points),
        seconds_(args.seconds, args.seconds + args.points),
        call_seconds_(args.call_seconds),
        foresees_(args.foresees != 0) {}

  bool begin_pass(int asked, int queries, int waiting, int width) {
    asked_ = asked, queries_ = queries, waiting_ = waiting;
    judged_.clear();
    if (tokens_ == 0) {
      tokens_ = PRIOR_PASSES * queries;
      seconds_spent_ = PRIOR_PASSES * PRIOR_SHARE * seconds(width);
    }
    token_seconds = seconds_spent_ / tokens_;
    if (paused_) {
      paused_--;
      return false;
    }
    accept_rates_.resize(by_chance.hits.size());
    for (size_t kind = 0; kind < accept_rates_.size(); kind++) accept_rates_[kind] = by_chance.chance(int(kind));
    std::vector<double>& sums = sums_[asked];
    for (int n = int(sums.size()); n <= NODES + AHEAD[std::size(AHEAD) - 1]; n++) sums.push_back(seconds(asked + asked * n));
    pass_seconds = sums.data();
    drafts_may_pay = may_pay(sums);
    return true;
  }

  double seconds(int nodes) const { return cost(nodes) + PASS_SECONDS + NODE_SECONDS * nodes; }

  double extra_seconds(int nodes) const { return (seconds(asked_ + queries_ * nodes) - seconds(asked_)) / queries_; }

  double call_seconds() const { return call_seconds_; }

  double start_seconds() const { return START_SHARE * seconds(asked_) / queries_; }

  bool look_ahead_pays(int guesses) const {
    const double rate = foresees_ ? 1.0 : by_place.chance(0);
    double power = 1.0;
    for (int guess = 0; guess < guesses; guess++) power *= rate;
    const double chance = by_level.chance(chance_class(power)), extra = extra_seconds(guesses);
    const double gain = token_seconds * chance + extra * STILL_RIGHT * (1.0 - chance);
    const double margin = foresees_ ? (MIN_GAIN - 1.0) * token_seconds : 0.0;
    return gain > extra + margin + DRAFT_SECONDS + guesses * call_seconds_;
  }

  Limits tree_limits(Limits limits) const {
    double least = std::numeric_limits<double>::infinity();
    for (int at = 0, from = 0; at < int(std::size(AHEAD)); from = AHEAD[at++])
      least = std::min(least, (pass_seconds[AHEAD[at]] - pass_seconds[from]) / (AHEAD[at] - from));
    limits.max_nodes = NODES, limits.min_chance = std::max(double(MIN_CHANCE), least / pass_seconds[0]);
    limits.accept_rates = accept_rates_.data(), limits.pass_seconds = pass_seconds;
    return limits;
  }

  Limits guess_limits(Limits limits) const {
    limits.max_nodes = 1, limits.accept_rates = accept_rates_.data();
    return limits;
  }

  // `chances`: of the draft's tokens, or null.
  double chance(const double* chances, int rank, int index) const {
    if (chances) return by_chance.chance(chance_class(chances[index]));
    return by_place.chance(index == 0 ? std::min(rank, 3) : 4);
  }

  void observe(const int32_t* tokens, const double* chances, int seen, int rank, int accepted) {
    for (int index = 0; index < std::min(accepted + 1, seen); index++) {
      if (!judged_.emplace(tokens, tokens + index + 1).second) continue;
      by_place.add(index == 0 ? std::min(rank, 3) : 4, index < accepted);
      if (chances) by_chance.add(chance_class(chances[index]), index < accepted);
    }
  }

  void end_pass(int computed, int tokens, int calls) {
    const double spent = seconds(computed) + (calls ? DRAFT_SECONDS + calls * call_seconds_ : 0.0);
    seconds_spent_ = MEMORY * seconds_spent_ + spent;
    tokens_ = MEMORY * tokens_ + tokens;
    const double standard = seconds(waiting_);
    balance_ = MEMORY * balance_ + tokens * standard / queries_ - spent;
    if (balance_ < -LOSS * standard) {
      balance_ = 0, paused_ = pause_;
      pause_ = std::min(2 * pause_, LONGEST_PAUSE);
    } else if (balance_ > LOSS * standard) {
      pause_ = 1;
    }
  }

  AcceptanceRecord by_chance, by_place, by_level;
  double token_seconds = 0;
  const double* pass_seconds = nullptr;
  bool drafts_may_pay = false;

 private:
  bool may_pay(const std::vector<double>& sums) const {
    if (foresees_) {
      for (const int nodes : {CERTAIN})
        if ((1 + nodes) * sums[0] > MIN_GAIN * sums[nodes]) return true;
      return false;
    }
    double tokens = 1.0, chance = by_place.chance(0);
    for (int nodes = 1; nodes <= EXPECTED; nodes++) {
      tokens += chance;
      if (tokens * sums[0] > sums[nodes] + asked_ * call_seconds_) return true;
      chance *= by_place.chance(4);
    }
    return false;
  }

  double cost(double count) const {
    const int found = int(std::lower_bound(nodes_.begin(), nodes_.end(), count) - nodes_.begin());
    const int upper = std::min(std::max(found, 1), int(nodes_.size()) - 1);
    const double x0 = nodes_[upper - 1], x1 = nodes_[upper], y0 = seconds_[upper - 1], y1 = seconds_[upper];
    return std::max(y0 + (y1 - y0) * (count - x0) / (x1 - x0), 1e-9);
  }

  std::vector<double> nodes_, seconds_;
  const double call_seconds_;
  const bool foresees_;
  int asked_ = 1, queries_ = 1, waiting_ = 1;
  double seconds_spent_ = 0, tokens_ = 0, balance_ = 0;
  int pause_ = 1, paused_ = 0;
  std::vector<double> accept_rates_;
  std::unordered_map<int, std::vector<double>> sums_;
  std::set<std::vector<int32_t>> judged_;
};

class LookAheadPlan {
 public:
  LookAheadPlan(const Planner& planner, int depth, int budget, bool starts, std::vector<std::pair<int, int>>& kinds)
      : planner_(planner), kinds_(kinds), depth_(depth), start_(depth), budget_(budget), worth_(starts ? planner.start_seconds() : planner.token_seconds), best_value_(MIN_WORTH * worth_) {}

  int best = 0;

  void guess(double chance) { product_ *= chance; }

  bool add(int depth) {
    if (depth > depth_ && !open(depth)) return false;
    if (nodes_ == budget_) return false;
    nodes_++, in_level_++;
    useful_ += right_ * (1.0 - chance_);
    weigh(value_, right_ * chance_ * in_level_, planner_.extra_seconds(nodes_));
    return true;
  }

  void end() {
    if (depth_ != start_) close();
  }

 private:
  bool open(int depth) {
    end();
    if (fruitless_ == PATIENCE) return false;
    const int kind = chance_class(product_);
    kinds_.emplace_back(depth, kind);
    chance_ = reached_ * planner_.by_level.chance(kind);
    const double asking = in_level_ * planner_.call_seconds();
    product_ = 1.0, in_level_ = 0, gained_ = false;
    steps_ = depth - depth_, depth_ = depth;
    return chance_ >= MIN_LEVEL_CHANCE && chance_ * worth_ > asking;
  }

  void close() {
    value_ += worth_ * chance_ * steps_;
    weigh(value_, 0.0, planner_.extra_seconds(nodes_));
    reached_ = chance_;
    right_ *= DEEPER;
    fruitless_ = gained_ ? 0 : fruitless_ + 1;
  }

  void weigh(double value, double useful, double extra) {
    value = value + extra / nodes_ * (useful_ + useful) - extra;
    if (value > best_value_) best = nodes_, best_value_ = value, gained_ = true;
  }

  const Planner& planner_;
  std::vector<std::pair<int, int>>& kinds_;
  int depth_, start_, budget_;
  double product_ = 1.0, chance_ = 1.0, reached_ = 1.0;
  int nodes_ = 0, in_level_ = 0, steps_ = 0;
  const double worth_;  // of a token
  double best_value_, value_ = 0, useful_ = 0, right_ = STILL_RIGHT;
  int fruitless_ = 0;
  bool gained_ = false;
};

}  // namespace
