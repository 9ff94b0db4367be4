// Plans which drafted nodes to add to the next forward pass, for every drafter and every search; `draft_planner.py` says how, with the
// same names.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tree.h"

// A `draft_planner.DraftPlanner`. Arrays belong to the caller.
struct DraftPlannerArgs {
  int32_t points, classes, measured;  // of the cost curve; of acceptance rates; whether times of passes correct the curve
  double call_seconds;      // of one proposed node
  const double *nodes, *seconds, *priors;  // cost curve; prior acceptance rates
};

// A `draft_history.DraftHistory`, which this run continues.
struct DraftHistory {
  double net_gain, pause, pause_left, value_share, idle_runs;
  double *hits, *tries;  // accepted and verified draft tokens of each class
  double* factors;       // of the times of passes of each size, and of planning
};

namespace {

// `draft_planner.AcceptanceRecord`.
class AcceptanceRecord {
 public:
  std::vector<double> priors, hits, tries, rates;

  AcceptanceRecord(const DraftPlannerArgs& args, const DraftHistory& past)
      : priors(args.priors, args.priors + args.classes), hits(past.hits, past.hits + args.classes), tries(past.tries, past.tries + args.classes), rates(priors) {}

  void add_outcome(int kind, bool hit) { hits[kind] += hit, tries[kind] += 1; }

  void update_rates() {
    double found = POOLED_WEIGHT, expected = POOLED_WEIGHT;
    for (size_t kind = 0; kind < priors.size(); kind++) found += hits[kind], expected += tries[kind] * priors[kind];
    for (size_t kind = 0; kind < priors.size(); kind++) {
      const double prior = std::min(priors[kind] * found / expected, std::max(priors[kind], double(MAX_RATE)));
      rates[kind] = (hits[kind] + CLASS_WEIGHT * prior) / (tries[kind] + CLASS_WEIGHT);
    }
  }
};

// `draft_planner.PassCosts`.
class PassCosts {
 public:
  std::vector<double> factors;

  PassCosts(const DraftPlannerArgs& args, const DraftHistory& past)
      : factors(past.factors, past.factors + args.points + 1), nodes_(args.nodes, args.nodes + args.points), seconds_(args.seconds, args.seconds + args.points), measured_(args.measured) {
    correct();
  }

  double operator()(double count) const {
    const int upper = upper_size(count);
    const double x0 = nodes_[upper - 1], x1 = nodes_[upper], y0 = corrected_[upper - 1], y1 = corrected_[upper];
    return std::max(y0 + (y1 - y0) * (count - x0) / (x1 - x0), 1e-9) + PASS_SECONDS + NODE_SECONDS * count;
  }

  double planning(int proposed, double call_seconds) const { return factors.back() * (PLANNING_SECONDS + proposed * call_seconds); }

  bool add_times(int count, double seconds, double planning, double expected_planning) {
    if (!measured_) return false;
    const double step = learned(seconds, (*this)(count));
    const int upper = upper_size(count);
    const double share = std::min(std::max((count - nodes_[upper - 1]) / (nodes_[upper] - nodes_[upper - 1]), 0.0), 1.0);
    factors[upper - 1] *= std::exp(step * (1.0 - share));
    factors[upper] *= std::exp(step * share);
    if (expected_planning > 0.0) factors.back() *= std::exp(learned(planning, expected_planning));
    if (++passes_ % LEARNING_PASSES) return false;
    correct();
    return true;
  }

 private:
  int upper_size(double count) const {
    const int found = int(std::lower_bound(nodes_.begin(), nodes_.end(), count) - nodes_.begin());
    return std::min(std::max(found, 1), int(nodes_.size()) - 1);
  }

  static double learned(double seconds, double expected) {
    return std::min(std::max(LEARNING_RATE * std::log(std::max(seconds, 1e-9) / expected), -double(MAX_LEARNED)), double(MAX_LEARNED));
  }

  void correct() {
    corrected_.clear();
    for (size_t at = 0; at < seconds_.size(); at++) corrected_.push_back(std::max(factors[at] * seconds_[at], at ? corrected_.back() : 0.0));
  }

  std::vector<double> nodes_, seconds_, corrected_;
  const bool measured_;
  int passes_ = 0;
};

class DraftPlanner {
 public:
  DraftPlanner(const DraftPlannerArgs& args, const DraftHistory& past, int budget)
      : acceptance(args, past), seconds_of_pass(args, past), call_seconds_(args.call_seconds), budget_(budget), net_gain_(past.net_gain),
        pause_(past.pause), pause_left_(past.pause_left), value_share_(past.value_share) {}

  // Returns whether to draft in the next pass.
  bool begin_pass(int requested, int queries, int hypotheses) {
    queries_ = queries, requested_ = requested;
    const double standard = seconds_of_pass(hypotheses) / hypotheses;
    if (needed_ == 0) needed_ = PRIOR_NODES * hypotheses, spent_ = needed_ * value_share_ * standard;
    value = spent_ / needed_, value_share_ = value / standard;
    drafts_ = pause_left_ <= 0 && idle_left_ <= 0;
    if (!drafts_) {
      pause_left_ -= pause_left_ > 0, idle_left_--;
      return false;
    }
    acceptance.update_rates();
    cost = &added_cost(requested);
    min_probability = MIN_WORTH * cost->cheapest_node() / value;
    return true;
  }

  TreeLimits tree_limits(TreeLimits limits) const {
    limits.max_nodes = budget_, limits.min_probability = std::max(double(MIN_PROBABILITY), min_probability);
    limits.accept_rates = acceptance.rates.data(), limits.cost = cost, limits.value = value;
    return limits;
  }

  TreeLimits guess_limits(TreeLimits limits) const {
    limits.max_nodes = 1, limits.accept_rates = acceptance.rates.data();
    return limits;
  }

  // `draft_planner.token_class`. `probabilities`: of the draft's tokens, or null.
  static int token_class(const double* probabilities, int rank, int index) {
    if (probabilities) return probability_class(probabilities[index]);
    return POSITION_CLASS + (index == 0 ? std::min(rank, 3) : 4);
  }

  void record_pass(int computed, int needed, int proposed, int tokens, int waiting, double seconds, double planning_seconds) {
    const double planning = drafts_ ? seconds_of_pass.planning(proposed, call_seconds_) : 0.0;
    if (seconds_of_pass.add_times(computed, seconds, planning_seconds, planning)) costs_.clear(), cost = nullptr;
    const double spent = seconds_of_pass(computed) + planning;
    spent_ = EMA_DECAY * spent_ + spent;
    needed_ = EMA_DECAY * needed_ + needed;
    if (!drafts_) return;
    idle_ = computed > requested_ ? 0 : idle_ + 1, idle_left_ = idle_ >= MAX_IDLE ? idle_ : 0;
    has_added_ = has_added_ || computed > requested_;
    const double records = computed > requested_ ? RECORD_SECONDS * queries_ : 0;
    net_gain_ = EMA_DECAY * net_gain_ + double(tokens) / queries_ - (spent + records) / seconds_of_pass(waiting);
    if (net_gain_ < -MAX_LOSS) {
      net_gain_ = 0, pause_left_ = pause_;
      pause_ = std::min(PAUSE_GROWTH * pause_, double(MAX_PAUSE));
    } else if (net_gain_ > MAX_LOSS) {
      pause_ = FIRST_PAUSE;
    }
  }

  // Copies what this run and those before it have learned.
  void write_history(DraftHistory& history) {
    history.idle_runs = has_added_ ? 0.0 : 1.0, has_added_ = false;
    history.net_gain = net_gain_, history.pause = pause_, history.pause_left = pause_left_, history.value_share = value_share_;
    std::copy(acceptance.hits.begin(), acceptance.hits.end(), history.hits);
    std::copy(acceptance.tries.begin(), acceptance.tries.end(), history.tries);
    std::copy(seconds_of_pass.factors.begin(), seconds_of_pass.factors.end(), history.factors);
  }

  AcceptanceRecord acceptance;
  PassCosts seconds_of_pass;
  double value = 0;            // of a requested node, in seconds
  double min_probability = 0;  // of a node that may pay off
  const AddedCost* cost = nullptr;

 private:
  const AddedCost& added_cost(int requested) {
    const std::pair<int, int> key(requested, queries_);
    const auto known = costs_.find(key);
    if (known != costs_.end()) return known->second;
    const double plain = seconds_of_pass(requested);
    std::vector<double> seconds;
    for (int added = 0; added <= budget_; added++) seconds.push_back((seconds_of_pass(requested + queries_ * added) - plain) / queries_);
    return costs_.emplace(key, AddedCost(std::move(seconds), NEGLIGIBLE * plain / queries_)).first->second;
  }

  const double call_seconds_;
  const int budget_;
  int queries_ = 1, requested_ = 0;
  int idle_ = 0, idle_left_ = 0;  // planned passes in a row without drafts; passes not planned therefore
  bool drafts_ = false, has_added_ = false;  // the latter since the history was written
  double net_gain_, pause_, pause_left_, value_share_, spent_ = 0, needed_ = 0;
  std::map<std::pair<int, int>, AddedCost> costs_;  // by requested nodes and queries
};

}  // namespace
