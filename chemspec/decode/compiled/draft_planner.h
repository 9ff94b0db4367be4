// Plans how many drafted nodes to add to the next forward pass, for every drafter.
//
// Without a look-ahead this is the wall-time model of Leviathan et al. (2023) with a measured cost curve t: a forward pass of n + b
// nodes takes t(n + b) and yields 1 + sum of p_i tokens, where p_i is the probability that drafted node i is accepted. Nodes are
// added in order of p_i, up to the number that maximises tokens per second (`ThroughputStop`).
//
// A beam advances only when all its hypotheses are scored. So its look-ahead is planned by levels: the nodes of one more token of all
// hypotheses. A complete level saves the average time of a token so far; a node of an incomplete level is likely to be requested
// later and then saves the cost of one node. The sum of both minus the added cost is maximised (`LookAheadPlan`).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tree.h"

// A `draft_planner.DraftPlanner`. Arrays belong to the caller.
struct DraftPlannerArgs {
  int32_t points, classes;  // of the cost curve; of the drafter's probabilities
  int32_t has_probabilities;
  double call_seconds;
  const double *nodes, *seconds, *accept_rates;  // cost curve; prior of each class
};

namespace {

constexpr int MAX_NODES = 64;                // maximum number of nodes that drafts without a look-ahead add after one prefix
constexpr double SHARE_DECAY = 0.95;         // factor of REQUESTED_SHARE per further level
constexpr double START_SHARE = 0.4;          // value of a token in a beam's first pass, as a share of that pass; no level can be complete there
constexpr double MIN_LOOK_AHEAD_GAIN = 0.03; // minimum gain of a look-ahead in tokens, because cost curves are inexact
constexpr int PATIENCE = 2;                  // consecutive levels without gain after which a look-ahead ends
constexpr double MIN_LEVEL_PROBABILITY = 0.01;
constexpr double PRIOR_PASSES = 10.0;        // weight of the prior for a token's cost
constexpr double EMA_DECAY = 0.98;           // weight of the past in exponential moving averages, per forward pass
constexpr double MAX_LOSS = 2.0;             // loss, in undrafted passes, at which drafting pauses
constexpr int LONGEST_PAUSE = 32;            // forward passes

// Running alpha by class: accepted / verified draft tokens, with a prior of `weight` pseudo-observations.
struct AcceptanceRecord {
  std::vector<double> hits, tries;

  AcceptanceRecord(const std::vector<double>& rates, double weight) : tries(rates.size(), weight) {
    for (const double rate : rates) hits.push_back(rate * weight);
  }
  double class_rate(int kind) const { return hits[kind] / tries[kind]; }
  void add_outcome(int kind, bool hit) { hits[kind] += hit, tries[kind] += 1; }
};

class DraftPlanner {
 public:
  explicit DraftPlanner(const DraftPlannerArgs& args)
      : acceptance_by_probability({args.accept_rates, args.accept_rates + args.classes}, 100.0),
        acceptance_by_position({PRIOR_BY_POSITION}, 10.0),
        level_completion({LEVEL_PRIOR}, 30.0),
        nodes_(args.nodes, args.nodes + args.points),
        seconds_(args.seconds, args.seconds + args.points),
        call_seconds_(args.call_seconds),
        has_probabilities_(args.has_probabilities != 0) {}

  bool begin_pass(int requested, int queries, int waiting, int hypotheses) {
    requested_ = requested, queries_ = queries, waiting_ = waiting;
    observed_paths_.clear();
    if (tokens_ == 0) {
      tokens_ = PRIOR_PASSES * queries;
      seconds_spent_ = PRIOR_PASSES * PRIOR_SHARE * seconds_of_pass(hypotheses);
    }
    token_seconds = seconds_spent_ / tokens_;
    if (pause_left_) {
      pause_left_--;
      return false;
    }
    accept_rates_.resize(acceptance_by_probability.hits.size());
    for (size_t kind = 0; kind < accept_rates_.size(); kind++) accept_rates_[kind] = acceptance_by_probability.class_rate(int(kind));
    std::vector<double>& sums = sums_[requested];
    for (int n = int(sums.size()); n <= MAX_NODES + PROBE_SIZES[std::size(PROBE_SIZES) - 1]; n++) sums.push_back(seconds_of_pass(requested + requested * n));
    pass_seconds = sums.data();
    drafts_may_pay = may_pay_off(sums);
    return true;
  }

  double seconds_of_pass(int nodes) const { return cost(nodes) + PASS_SECONDS + NODE_SECONDS * nodes; }

  double extra_seconds(int nodes) const { return (seconds_of_pass(requested_ + queries_ * nodes) - seconds_of_pass(requested_)) / queries_; }

  double call_seconds() const { return call_seconds_; }

  double first_token_value() const { return START_SHARE * seconds_of_pass(requested_) / queries_; }

  bool look_ahead_pays(int guesses) const {
    const double rate = has_probabilities_ ? 1.0 : acceptance_by_position.class_rate(0);
    double power = 1.0;
    for (int guess = 0; guess < guesses; guess++) power *= rate;
    const double probability = level_completion.class_rate(probability_class(power)), extra = extra_seconds(guesses);
    const double gain = token_seconds * probability + extra * REQUESTED_SHARE * (1.0 - probability);
    const double margin = has_probabilities_ ? (MIN_GAIN - 1.0) * token_seconds : 0.0;
    return gain > extra + margin + DRAFT_SECONDS + guesses * call_seconds_;
  }

  TreeLimits tree_limits(TreeLimits limits) const {
    double least = std::numeric_limits<double>::infinity();
    for (int at = 0, from = 0; at < int(std::size(PROBE_SIZES)); from = PROBE_SIZES[at++])
      least = std::min(least, (pass_seconds[PROBE_SIZES[at]] - pass_seconds[from]) / (PROBE_SIZES[at] - from));
    limits.max_nodes = MAX_NODES, limits.min_probability = std::max(double(MIN_PROBABILITY), least / pass_seconds[0]);
    limits.accept_rates = accept_rates_.data(), limits.pass_seconds = pass_seconds;
    return limits;
  }

  TreeLimits guess_limits(TreeLimits limits) const {
    limits.max_nodes = 1, limits.accept_rates = accept_rates_.data();
    return limits;
  }

  // `probabilities`: of the draft's tokens, or null.
  double token_probability(const double* probabilities, int rank, int index) const {
    if (probabilities) return acceptance_by_probability.class_rate(probability_class(probabilities[index]));
    return acceptance_by_position.class_rate(index == 0 ? std::min(rank, 3) : 4);
  }

  void observe_draft(const int32_t* tokens, const double* probabilities, int seen, int rank, int accepted) {
    for (int index = 0; index < std::min(accepted + 1, seen); index++) {
      if (!observed_paths_.emplace(tokens, tokens + index + 1).second) continue;
      acceptance_by_position.add_outcome(index == 0 ? std::min(rank, 3) : 4, index < accepted);
      if (probabilities) acceptance_by_probability.add_outcome(probability_class(probabilities[index]), index < accepted);
    }
  }

  void record_pass(int computed, int tokens, int calls) {
    const double spent = seconds_of_pass(computed) + (calls ? DRAFT_SECONDS + calls * call_seconds_ : 0.0);
    seconds_spent_ = EMA_DECAY * seconds_spent_ + spent;
    tokens_ = EMA_DECAY * tokens_ + tokens;
    const double standard = seconds_of_pass(waiting_);
    net_savings_ = EMA_DECAY * net_savings_ + tokens * standard / queries_ - spent;
    if (net_savings_ < -MAX_LOSS * standard) {
      net_savings_ = 0, pause_left_ = pause_length_;
      pause_length_ = std::min(2 * pause_length_, LONGEST_PAUSE);
    } else if (net_savings_ > MAX_LOSS * standard) {
      pause_length_ = 1;
    }
  }

  AcceptanceRecord acceptance_by_probability, acceptance_by_position, level_completion;
  double token_seconds = 0;
  const double* pass_seconds = nullptr;
  bool drafts_may_pay = false;

 private:
  bool may_pay_off(const std::vector<double>& sums) const {
    if (has_probabilities_) {
      for (const int nodes : {TESTED_SIZES})
        if ((1 + nodes) * sums[0] > MIN_GAIN * sums[nodes]) return true;
      return false;
    }
    double tokens = 1.0, probability = acceptance_by_position.class_rate(0);
    for (int nodes = 1; nodes <= EXPECTED_LENGTH; nodes++) {
      tokens += probability;
      if (tokens * sums[0] > sums[nodes] + requested_ * call_seconds_) return true;
      probability *= acceptance_by_position.class_rate(4);
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
  const bool has_probabilities_;
  int requested_ = 1, queries_ = 1, waiting_ = 1;
  double seconds_spent_ = 0, tokens_ = 0, net_savings_ = 0;
  int pause_length_ = 1, pause_left_ = 0;
  std::vector<double> accept_rates_;
  std::unordered_map<int, std::vector<double>> sums_;
  std::set<std::vector<int32_t>> observed_paths_;
};

class LookAheadPlan {
 public:
  LookAheadPlan(const DraftPlanner& planner, int depth, int budget, bool first_pass, std::vector<std::pair<int, int>>& level_classes)
      : planner_(planner), level_classes_(level_classes), depth_(depth), start_(depth), budget_(budget), token_value_(first_pass ? planner.first_token_value() : planner.token_seconds), best_gain_(MIN_LOOK_AHEAD_GAIN * token_value_) {}

  int best = 0;

  void add_guess(double probability) { joint_probability_ *= probability; }

  bool add_node(int depth) {
    if (depth > depth_ && !open_level(depth)) return false;
    if (nodes_ == budget_) return false;
    nodes_++, level_nodes_++;
    requested_later_ += requested_share_ * (1.0 - probability_);
    update_best(requested_share_ * probability_ * level_nodes_);
    return true;
  }

  void close_last_level() {
    if (depth_ != start_) close_level();
  }

 private:
  bool open_level(int depth) {
    close_last_level();
    if (levels_without_gain_ == PATIENCE) return false;
    const int kind = probability_class(joint_probability_);
    level_classes_.emplace_back(depth, kind);
    probability_ = previous_probability_ * planner_.level_completion.class_rate(kind);
    const double call_seconds = level_nodes_ * planner_.call_seconds();
    joint_probability_ = 1.0, level_nodes_ = 0, level_gained_ = false;
    steps_ = depth - depth_, depth_ = depth;
    return probability_ >= MIN_LEVEL_PROBABILITY && probability_ * token_value_ > call_seconds;
  }

  void close_level() {
    saved_seconds_ += token_value_ * probability_ * steps_;
    update_best(0.0);
    previous_probability_ = probability_;
    requested_share_ *= SHARE_DECAY;
    levels_without_gain_ = level_gained_ ? 0 : levels_without_gain_ + 1;
  }

  void update_best(double requested_later) {
    const double extra = planner_.extra_seconds(nodes_), gain = saved_seconds_ + extra / nodes_ * (requested_later_ + requested_later) - extra;
    if (gain > best_gain_) best = nodes_, best_gain_ = gain, level_gained_ = true;
  }

  const DraftPlanner& planner_;
  std::vector<std::pair<int, int>>& level_classes_;
  int depth_, start_, budget_;
  double joint_probability_ = 1.0, probability_ = 1.0, previous_probability_ = 1.0;
  int nodes_ = 0, level_nodes_ = 0, steps_ = 0;
  const double token_value_;  // in seconds
  double best_gain_, saved_seconds_ = 0, requested_later_ = 0, requested_share_ = REQUESTED_SHARE;
  int levels_without_gain_ = 0;
  bool level_gained_ = false;
};

}  // namespace
