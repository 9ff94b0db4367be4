// One query of the compiled loop: `decode/query_state.py` on numbered nodes.
#pragma once

#include "drafters.h"
#include "records.h"
#include "search.h"

namespace {

class QueryState {
 public:
  QueryState(Drafter& drafter, DraftPlanner* planner, const LoopOptions& options, const BeamConfig& config, const std::vector<int32_t>& text, int number)
      : query_drafter(drafter, tree, drafts, text), drafter_(drafter), planner_(planner), options_(options), config_(config), search_(tree, config_), number_(number) {
    start_search();
  }

  // `QueryState.start_next_search`.
  void start_next_search(const BeamConfig& config) {
    config_ = config;
    for (const int node : slots_) tree[node].reused = true;
    start_search();
  }

  // Propose ---------------------------------------------------------------------------------------

  // Lists the nodes to compute in this pass: requested and drafted ones.
  void draft(bool drafting, int pass, void* loop) {
    pass_ = pass, loop_ = loop;
    added_.clear();
    calls = needed = 0;
    for (const int node : missing) tree[node].missing_pass = pass;
    leading_before_ = leading_node();
    if (drafting && !config_.width) planner_ ? add_planned_drafts() : add_drafts();
    else if (drafting) planner_ ? add_planned_look_ahead() : add_look_ahead();
    computed.clear();
    for (const int node : missing) allocate_slot(node);
    for (const int node : added_) allocate_slot(node);
  }

  // Scores -----------------------------------------------------------------------------------------

  // Stores the scores of the computed nodes and advances the decoder while all requested scores are known.
  template <class Value>
  void store_scores(const int32_t* ids, const Value* log_probs, int count, int queries) {
    count_ = count;
    for (const int node : computed) {
      if (!std::isfinite(double(log_probs[0]))) {  // the best token's
        bad_scores = true;
        return;
      }
      for (int which = 0; which < count; which++)
        if (ids[which] < 0 || ids[which] >= options_.vocab_size) {
          bad_ids = true;
          return;
        }
      tree[node].scores = int(ids_.size() / std::max(1, count));
      ids_.insert(ids_.end(), ids, ids + count);
      log_probs_.insert(log_probs_.end(), log_probs, log_probs + count);
      ids += count, log_probs += count;
    }
    PassRecord pass{};
    pass.requested = int(missing.size()), pass.computed = int(computed.size()), pass.width = queries;
    missing.clear();
    if (options_.record) requested_before_ = requested_;
    advanced = 0;
    pass.emitted = resume_decoder();
    const double margin = std::exchange(margin_, INF);
    pass.before = tree[leading_before_].depth, pass.leading = leading_node(), pass.written = written;
    if (options_.record) record_nodes(pass);
    if (tree[leading_before_].drafts_pass == pass_) pass.drafts = tree[leading_before_].drafts, pass.drafts_count = tree[leading_before_].drafts_count;
    record.passes.push_back(pass);
    record.margins.push_back(margin);
  }

  // Reports to the planner which drafted tokens were accepted: children of requested nodes, up to the depth that the search has reached.
  void observe() {
    const int reached = done ? options_.max_len : tree[requested_[0]].depth;
    size_t left = 0;
    for (const int node : expected_) {
      if (tree[node].depth > reached) expected_[left++] = node;
      else if (tree[tree[node].parent].requested) planner_->acceptance.add_outcome(tree[node].kind, tree[node].requested);
    }
    expected_.resize(left);
  }

  // Cache ------------------------------------------------------------------------------------------

  // `Session.compact`: the old slots of the nodes to keep into `kept_slots`; false if the cache stays as it is.
  bool compact() {
    const double limit = options_.factor * kept_ + options_.fixed, size = double(slots_.size());
    if (size <= limit || size <= limit + double(options_.per_root) * double(requested_.size())) return false;
    const int32_t ancestor = tree.new_stamp(), descendant = tree.new_stamp();
    for (int node : requested_) {
      tree[node].stamp = descendant;
      for (node = tree[node].parent; node >= 0 && tree[node].stamp != ancestor; node = tree[node].parent) tree[node].stamp = ancestor;
    }
    kept_slots.clear();
    std::vector<int> left;
    for (int slot = 0; slot < int(slots_.size()); slot++) {
      Node& node = tree[slots_[slot]];
      if (node.parent >= 0 && tree[node.parent].stamp == descendant) node.stamp = descendant;
      if (node.stamp == descendant || node.stamp == ancestor) kept_slots.push_back(slot), left.push_back(slots_[slot]);
    }
    kept_ = int(left.size());
    if (left.size() == slots_.size()) return false;
    for (const int node : slots_) tree[node].slot = -1;
    for (int slot = 0; slot < int(left.size()); slot++) tree[left[slot]].slot = slot;
    slots_ = std::move(left);
    return true;
  }

  NodeTree tree;
  DraftList drafts;
  QueryDrafter query_drafter;
  Record record;
  std::vector<Hyp> results;
  bool done = false;
  int written = 0, standard = 0;  // `protocol.FinishedSearch`
  std::vector<int> missing, computed;  // of this pass
  std::vector<int32_t> kept_slots;
  bool failed = false;  // the drafter's callback failed
  bool bad_scores = false, bad_ids = false;
  int calls = 0;  // of the drafter, in this pass; a tree counts as its nodes
  int needed = 0;  // nodes requested for the first time after this pass
  int advanced = 0;  // requests with such nodes that have been answered since the last pass

  int waiting() const { return int(requested_.size()); }
  int hypotheses() const { return std::max(1, config_.width); }
  bool may_restart() const { return config_.has_next_search || config_.park_gap < INF; }  // any node may be requested again

 private:
  void start_search() {
    done = false;
    results.clear();
    written = standard = deepest_ = 0;
    search_.begin(beam_);
    next_request();
    resume_decoder();
  }

  // Next request of the decoder, or its output sequences.
  void next_request() {
    if (search_.has_ended(beam_)) {
      done = true;
      results = beam_.finished;
      results.insert(results.end(), beam_.live.begin(), beam_.live.end());
      if (config_.width && int(results.size()) > config_.width) results.resize(config_.width);
      return;
    }
    requested_.clear();
    missing.clear();
    new_here_ = false;
    for (const Hyp& hyp : beam_.live) {
      requested_.push_back(hyp.node);
      if (tree[hyp.node].scores < 0) missing.push_back(hyp.node);
      new_here_ = new_here_ || !tree[hyp.node].requested;
      needed += !tree[hyp.node].requested;
      tree[hyp.node].requested = true;
    }
    standard += new_here_ && tree[requested_[0]].depth >= deepest_;
  }

  int leading_node() const { return done && !results.empty() ? results[0].node : requested_.empty() ? 0 : requested_[0]; }

  Scores scores(int node) const {
    const size_t at = size_t(tree[node].scores) * count_;
    return {ids_.data() + at, log_probs_.data() + at, count_};
  }

  // Assigns a slot to a node, after its ancestors.
  void allocate_slot(int node) {
    const size_t from = chain_.size();
    for (; node >= 0 && tree[node].slot < 0; node = tree[node].parent) chain_.push_back(node);
    for (; chain_.size() > from; chain_.pop_back()) {
      tree[chain_.back()].slot = int(slots_.size());
      slots_.push_back(chain_.back());
      computed.push_back(chain_.back());
    }
  }

  int resume_decoder() {
    int steps = 0;
    while (!done && missing.empty()) {
      sent_scores_.clear();
      for (const int node : requested_) {
        sent_scores_.push_back(scores(node));
        const double gap = sent_scores_.back().margin();
        if (gap < margin_) margin_ = gap;
      }
      const int depth = tree[requested_[0]].depth;
      if (depth >= deepest_) steps++, deepest_ = depth + 1;
      advanced += new_here_;
      if (config_.width) {
        search_.advance_beam(beam_, sent_scores_, true);
      } else {
        const int node = tree.child(beam_.live[0].node, sent_scores_[0].ids[0]);
        tree[node].log_prob = sent_scores_[0].log_probs[0];
        beam_.live[0].node = node;
      }
      next_request();
    }
    written += steps;
    return steps;
  }

  // Draft tree -------------------------------------------------------------------------------------

  void add_drafts() {
    for (const int start : missing) {
      const auto [first, count] = propose(start);
      const int room = options_.max_len - (tree[start].depth + 1);
      for (int which = first; which < first + count; which++) {
        int node = start;
        for (int at = 0; at < std::min(drafts.drafts[which].length, room); at++) {
          const int32_t token = drafts.token(which, at);
          node = tree.child(node, token);
          set_draft_origin(node, which, at);
          if (token == EOS) break;
          if (tree[node].scores < 0 && tree[node].added_pass != pass_) {
            if (int(added_.size()) >= options_.budget) return;
            add(node);
          }
        }
      }
    }
  }

  void add_planned_drafts() {
    if (drafter_.args.kind == MIXED) query_drafter.limits = planner_->tree_limits(drafter_.limits());
    candidates_.clear();
    for (const int start : missing) {
      const auto [first, count] = propose(start);
      const int room = options_.max_len - (tree[start].depth + 1);
      for (int which = first; which < first + count; which++) {
        int node = start;
        double probability = 1.0;
        for (int at = 0; at < std::min(drafts.drafts[which].length, room); at++) {
          node = tree.child(node, drafts.token(which, at));
          const int kind = DraftPlanner::token_class(probabilities(which), which - first, at);
          probability *= planner_->acceptance.rates[kind];
          if (tree[node].probability_pass == pass_) {
            probability = tree[node].probability;
          } else {
            tree[node].probability = probability, tree[node].probability_pass = pass_;
            if (tree[node].token != EOS && tree[node].scores < 0) expect(node, kind), candidates_.push_back(node);
          }
          set_draft_origin(node, which, at);
          if (tree[node].token == EOS) break;
        }
      }
    }
    std::stable_sort(candidates_.begin(), candidates_.end(), [&](int one, int other) { return tree[one].probability > tree[other].probability; });
    add_candidates();
  }

  // Adds as many of the candidates as pay off: the first ones.
  void add_candidates() {
    NodeChoice choice(*planner_->cost, planner_->value);
    for (const int node : candidates_)
      if (!choice.add(tree[node].probability)) break;
    for (int at = 0; at < choice.best; at++) add(candidates_[at]);
  }

  // A beam advances by whole levels, so the nodes of its look-ahead stay in the order in which it would request them.
  void add_planned_look_ahead() {
    if (drafter_.args.kind == MIXED) query_drafter.limits = planner_->guess_limits(drafter_.limits());
    candidates_.clear();
    for (const int node : requested_) tree[node].probability = 1.0, tree[node].probability_pass = pass_;
    add_look_ahead();
    add_candidates();
  }

  // `beam.look_ahead`, for `DraftTree.add_look_ahead`.
  void add_look_ahead() {
    ahead_ = beam_;
    while (!ahead_.live.empty() && tree[ahead_.live[0].node].depth < config_.max_len) {
      sent_scores_.clear(), guesses_.clear();
      guesses_.reserve(ahead_.live.size());
      bool any = false;
      for (const Hyp& hyp : ahead_.live) {
        const bool likely = !planner_ || requested_probability(hyp.node) >= planner_->min_probability;
        if (!likely) {
          sent_scores_.push_back({nullptr, nullptr, 0});
        } else if (tree[hyp.node].scores >= 0) {
          sent_scores_.push_back(scores(hyp.node));
        } else {
          std::vector<int>& nodes = planner_ ? candidates_ : added_;
          if (tree[hyp.node].missing_pass != pass_ && tree[hyp.node].added_pass != pass_) {
            if (int(nodes.size()) >= options_.budget) return;
            tree[hyp.node].added_pass = pass_;
            nodes.push_back(hyp.node);
          }
          static const double cost = -(GUESS_COST);
          guesses_.push_back(guess(hyp.node));
          sent_scores_.push_back({&guesses_.back(), &cost, guesses_.back() >= 0});
        }
        any = any || sent_scores_.back().count;
      }
      if (!any) break;
      search_.advance_beam(ahead_, sent_scores_, false);
    }
  }

  // Probability that a node of the look-ahead will be requested.
  double requested_probability(int which) {
    Node& node = tree[which];
    if (node.probability_pass == pass_) return node.probability;
    const Node& parent = tree[node.parent];
    node.probability = parent.probability * (parent.scores >= 0 ? KNOWN_RATE : planner_->acceptance.rates[node.kind]), node.probability_pass = pass_;
    return node.probability;
  }

  int32_t guess(int node) {
    int which = tree[node].draft_pass == pass_ ? tree[node].draft : -1, at = tree[node].position + 1;
    if (which < 0 || at >= drafts.drafts[which].length) {
      const auto [first, count] = propose(node);
      if (!count) return -1;
      which = first, at = 0;
    }
    const int32_t token = drafts.token(which, at);
    const int child = tree.child(node, token);
    set_draft_origin(child, which, at);
    if (planner_ && token != EOS) expect(child, DraftPlanner::token_class(probabilities(which), 0, at));
    return token;
  }

  // Notes the class of a drafted node, to observe later whether it was requested.
  void expect(int node, int kind) {
    tree[node].kind = kind;
    if (!std::exchange(tree[node].expected, true) && !tree[node].requested) expected_.push_back(node);
  }

  void add(int node) {
    tree[node].added_pass = pass_;
    added_.push_back(node);
  }

  // Credits a node to the first draft that contains it (`origins.credit_longest` corrects it in records).
  void set_draft_origin(int node, int which, int at) {
    if (tree[node].draft_pass == pass_) return;
    tree[node].draft = which, tree[node].position = at, tree[node].draft_pass = pass_;
  }

  // The drafts after a node, proposed once per pass.
  std::pair<int, int> propose(int node) {
    if (tree[node].drafts_pass != pass_) {
      std::pair<int, int> found(0, 0);
      const int room = options_.max_len - (tree[node].depth + 1);
      const int before = query_drafter.proposed;
      if (room > 0) found = drafter_.args.kind == OTHER ? propose_in_python(node, room) : query_drafter.propose(node, room);
      calls += std::max(1, query_drafter.proposed - before);
      tree[node].drafts = found.first, tree[node].drafts_count = found.second, tree[node].drafts_pass = pass_;
    }
    return {tree[node].drafts, tree[node].drafts_count};
  }
  const double* probabilities(int which) const { return drafts.drafts[which].chances_count ? &drafts.chances[drafts.drafts[which].chances] : nullptr; }
  std::pair<int, int> propose_in_python(int node, int room) {
    const int first = int(drafts.drafts.size());
    if (failed) return {first, 0};
    tree.text(node, text_);
    if (!drafter_.args.propose(loop_, number_, text_.data(), int(text_.size()), room)) failed = true;
    return {first, int(drafts.drafts.size()) - first};
  }

  // Record -----------------------------------------------------------------------------------------

  // The nodes requested and those computed, from which `QueryState.record_nodes` of Python derives the tree.
  void record_nodes(PassRecord& pass) {
    pass.beam = int(requested_before_.size()), pass.nodes = int(computed.size());
    record.beam.insert(record.beam.end(), requested_before_.begin(), requested_before_.end());
    record.nodes.insert(record.nodes.end(), computed.begin(), computed.end());
  }

  Drafter& drafter_;
  DraftPlanner* planner_;  // or null
  const LoopOptions& options_;
  BeamConfig config_;
  BeamSearch search_;
  const int number_;
  Beam beam_, ahead_;
  std::vector<int> requested_, requested_before_, added_, chain_, candidates_;  // requested_before_: by the decoder, before it was sent the scores of this pass
  std::vector<int> expected_;  // drafted nodes whose outcome is not known yet
  std::vector<Scores> sent_scores_;  // of the requested prefixes
  std::vector<int32_t> guesses_, text_;
  std::vector<int> slots_;  // of each slot its node
  std::vector<int32_t> ids_;  // of every node's scores, `count_` each
  std::vector<double> log_probs_;
  bool new_here_ = false;  // whether the current request has a node that was never requested before
  int count_ = 0, kept_ = 0, pass_ = -1, leading_before_ = 0, deepest_ = 0;  // deepest_: depth that the search has reached
  double margin_ = INF;  // smallest since the last pass
  void* loop_ = nullptr;
};

}  // namespace
