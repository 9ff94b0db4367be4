// Greedy decoding and beam search on numbered nodes, as in `decode/beam.py`, with the same order of additions and comparisons.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "node_tree.h"

constexpr double INF = std::numeric_limits<double>::infinity();

struct Scores {
  const int32_t* ids;
  const double* log_probs;
  int count;
  double margin() const { return count > 1 ? log_probs[0] - log_probs[1] : INF; }
};

struct Hyp {
  int node;
  double total;
};

struct Beam {
  std::vector<Hyp> live, finished;
  double gap = INF, floor = -INF;  // `beam.park`
  std::vector<double> parked;      // the `width` highest totals of parked hypotheses
  int repetitions = 0;             // so many times the search has begun again

  // Total of the last of `width` finished hypotheses, or none.
  double last_total(int width) const { return int(finished.size()) == width ? finished.back().total : -INF; }
  bool is_proven(int width) const { return parked.empty() || last_total(width) > parked[0]; }

  // `beam.next_floor`.
  double next_floor(int width, int repetitions) const {
    if (repetitions > REPETITIONS) return -INF;
    const auto certain = std::count_if(finished.begin(), finished.end(), [&](const Hyp& hyp) { return hyp.total > parked[0]; });
    const double needed = parked[std::min(width - int(certain), int(parked.size())) - 1];
    return std::max(last_total(width), needed - FLOOR_GAP * repetitions);
  }
};

struct BeamConfig {
  int32_t width;  // 0: greedy
  int32_t max_len;
  double length_penalty;
  double park_gap;  // from which on hypotheses are parked
  int32_t has_next_search;  // whether another search may follow, for which every node stays in the cache

  double ranking_score(double total, int length) const { return length_penalty != 0 ? total / std::pow(double(length), length_penalty) : total; }
  double best_attainable_score(double total) const { return ranking_score(total, max_len); }
};

struct Extension {
  double cost;  // minus the total log-prob
  int parent, token;  // which live hypothesis, which of its next tokens
  bool operator>(const Extension& other) const {
    if (cost != other.cost) return cost > other.cost;
    return parent != other.parent ? parent > other.parent : token > other.token;
  }
};

class BeamSearch {
 public:
  BeamSearch(NodeTree& tree, const BeamConfig& config) : tree_(tree), config_(config) {}

  void begin(Beam& beam) const {
    beam = {};
    beam.gap = config_.park_gap;
    beam.live.push_back({0, 0.0});
  }

  // Whether a search has ended; one whose list parked hypotheses might change begins again.
  bool has_ended(Beam& beam) const {
    if (!is_over(beam)) return false;
    if (beam.is_proven(config_.width)) return true;
    Beam next;
    next.repetitions = beam.repetitions + 1;
    next.floor = beam.next_floor(config_.width, next.repetitions);
    next.live.push_back({0, 0.0});
    beam = std::move(next);
    return is_over(beam);
  }

  // `beam.advance_beam`. `scored`: all scores are the model's, so that nodes store their log-probs; false in a look-ahead.
  void advance_beam(Beam& beam, const std::vector<Scores>& scores, bool scored) {
    rank_extensions(beam.live, scores, 2 * config_.width);
    next_.clear();
    const size_t width = size_t(config_.width), before = beam.finished.size();
    for (size_t rank = 0; rank < candidates_.size(); rank++) {
      const Extension& candidate = candidates_[rank];
      const Scores& found = scores[candidate.parent];
      const int32_t token = found.ids[candidate.token];
      const bool ended = token == EOS;
      if (ended && rank >= width) continue;
      if (!ended && next_.size() == width) continue;
      const int node = tree_.child(beam.live[candidate.parent].node, token);
      if (scored) tree_[node].log_prob = found.log_probs[candidate.token];
      (ended ? beam.finished : next_).push_back({node, -candidate.cost});
    }
    if (beam.finished.size() > before) {
      std::stable_sort(beam.finished.begin(), beam.finished.end(), [&](const Hyp& one, const Hyp& other) {
        const double a = ranking_score(one), b = ranking_score(other);
        return a != b ? a > b : tree_.precedes(one.node, other.node);
      });
      if (beam.finished.size() > width) beam.finished.resize(width);
    }
    if (beam.finished.size() == width) {
      const double threshold = ranking_score(beam.finished.back());
      const auto cannot_win = [&](const Hyp& hyp) { return !(config_.best_attainable_score(hyp.total) >= threshold); };
      next_.erase(std::remove_if(next_.begin(), next_.end(), cannot_win), next_.end());
    }
    std::swap(beam.live, next_);
    if (beam.gap < INF || beam.floor > -INF) park(beam);
  }

 private:
  // `beam.park`.
  void park(Beam& beam) {
    const size_t width = size_t(config_.width);
    double floor = beam.floor;
    if (beam.gap < INF) {
      double best = -INF;
      totals_ = beam.parked;
      for (const auto* hyps : {&beam.live, &beam.finished}) {
        if (!hyps->empty()) best = std::max(best, hyps->front().total);
        for (const Hyp& hyp : *hyps) totals_.push_back(hyp.total);
      }
      floor = std::max(floor, best - beam.gap);
      if (totals_.size() >= width) {
        std::nth_element(totals_.begin(), totals_.begin() + (width - 1), totals_.end(), std::greater<double>());
        floor = std::max(floor, totals_[width - 1] - RANK_GAP);
      }
    }
    const auto below = std::stable_partition(beam.live.begin(), beam.live.end(), [&](const Hyp& hyp) { return hyp.total >= floor; });
    if (below == beam.live.end()) return;
    for (auto hyp = below; hyp != beam.live.end(); hyp++) beam.parked.push_back(hyp->total);
    beam.live.erase(below, beam.live.end());
    std::sort(beam.parked.begin(), beam.parked.end(), std::greater<double>());
    if (beam.parked.size() > width) beam.parked.resize(width);
  }

  bool is_over(const Beam& beam) const {
    if (beam.live.empty()) return true;
    const Node& first = tree_[beam.live.front().node];
    return first.depth >= config_.max_len || (!config_.width && first.token == EOS);
  }

  double ranking_score(const Hyp& hyp) const { return config_.ranking_score(hyp.total, tree_[hyp.node].depth); }

  // `beam.rank_extensions`: the best extensions of all live hypotheses, into `candidates_`.
  void rank_extensions(const std::vector<Hyp>& live, const std::vector<Scores>& scores, size_t count) {
    const auto cost = [&](int parent, int token) { return -(live[parent].total + scores[parent].log_probs[token]); };
    heads_.clear();
    for (int parent = 0; parent < int(live.size()); parent++)
      if (scores[parent].count) heads_.push_back({cost(parent, 0), parent, 0});
    const auto later = std::greater<Extension>();
    std::make_heap(heads_.begin(), heads_.end(), later);
    candidates_.clear();
    double threshold = INF;
    bool ties = false;
    while (!heads_.empty() && heads_.front().cost <= threshold) {
      const Extension best = heads_.front();
      if (best.cost == INF) break;
      ties = ties || (!candidates_.empty() && candidates_.back().cost == best.cost);
      candidates_.push_back(best);
      if (candidates_.size() == count) threshold = best.cost;
      std::pop_heap(heads_.begin(), heads_.end(), later);
      if (best.token + 1 < scores[best.parent].count) {
        heads_.back() = {cost(best.parent, best.token + 1), best.parent, best.token + 1};
        std::push_heap(heads_.begin(), heads_.end(), later);
      } else {
        heads_.pop_back();
      }
    }
    if (ties)
      std::stable_sort(candidates_.begin(), candidates_.end(), [&](const Extension& one, const Extension& other) {
        if (one.cost != other.cost) return one.cost < other.cost;
        if (one.parent != other.parent) return tree_.precedes(live[one.parent].node, live[other.parent].node);
        return scores[one.parent].ids[one.token] < scores[other.parent].ids[other.token];
      });
    if (candidates_.size() > count) candidates_.resize(count);
  }

  NodeTree& tree_;
  const BeamConfig& config_;
  std::vector<Extension> heads_, candidates_;  // kept for their memory
  std::vector<Hyp> next_;
  std::vector<double> totals_;
};
