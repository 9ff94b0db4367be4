// One query of the compiled loop: `decode/query_state.py` on numbered nodes.
#pragma once

#include "drafters.h"
#include "records.h"
#include "search.h"

namespace {

class QueryState {
 public:
  QueryState(Drafter& drafter, DraftPlanner* planner, const LoopOptions& options, const BeamConfig& config, std::vector<int32_t> text, int number)
      : query_drafter(drafter, tree, drafts, std::move(text)), drafter_(drafter), planner_(planner), options_(options), config_(config), search_(tree, config_), number_(number) {
    start_search();
  }

  // `QueryState.start_next_search`.
  void start_next_search(const BeamConfig& config) {
    config_ = config;
    recorded_ = 0;
    for (const int node : slots_) tree[node].reused = true;
    if (options_.record) unrecorded_ = slots_;
    level_classes_.clear();
    start_search();
  }

  // Propose ---------------------------------------------------------------------------------------

  // Lists the nodes to compute in this pass: requested and drafted ones.
  void draft(bool drafting, int pass, void* loop) {
    pass_ = pass, loop_ = loop;
    added_.clear(), level_classes_.clear(), observed_levels.clear();
    calls = 0;
    for (const int node : missing) tree[node].missing_pass = pass;
    leading_before_ = leading_node();
    has_branches_ = drafting && !config_.width;
    if (has_branches_) planner_ ? add_planned_drafts() : add_drafts();
    else if (drafting) planner_ ? add_planned_look_ahead() : add_look_ahead(nullptr);
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
    pass.emitted = resume_decoder();
    const double margin = std::exchange(margin_, INF);
    record_accepted_spans(pass);
    if (options_.record) record_nodes(pass);
    if (tree[leading_before_].drafts_pass == pass_) pass.drafts = tree[leading_before_].drafts, pass.drafts_count = tree[leading_before_].drafts_count;
    record.passes.push_back(pass);
    record.margins.push_back(margin);
  }

  // Reports complete levels and the acceptance of drafts after the best hypothesis to the planner.
  void observe() {
    for (const auto& [kind, complete] : observed_levels) planner_->level_completion.add_outcome(kind, complete);
    const int text = leading_node(), depth = tree[leading_before_].depth;
    if (tree[leading_before_].drafts_pass != pass_ || tree[text].depth < depth || tree.ancestor(text, depth) != leading_before_) return;
    tree.path(text, path_);
    const int emitted = tree[text].depth - depth;
    for (int which = tree[leading_before_].drafts; which < tree[leading_before_].drafts + tree[leading_before_].drafts_count; which++) {
      const Draft& draft = drafts.drafts[which];
      const int seen = std::min(draft.length, emitted), matched = count_matched(which, depth + 1, seen);
      if (seen) planner_->observe_draft(&drafts.tokens[draft.start], probabilities(which), matched == seen ? seen : draft.length, which - tree[leading_before_].drafts, matched);
    }
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
  int calls = 0;  // of the drafter, in this pass
  std::vector<std::pair<int, bool>> observed_levels;  // class of each level, and whether it was complete

  int waiting() const { return int(requested_.size()); }
  int hypotheses() const { return std::max(1, config_.width); }
  bool has_next_search() const { return config_.has_next_search; }

 private:
  void start_search() {
    done = false;
    results.clear();
    written = standard = 0;
    beam_ = {};
    beam_.live.push_back({0, 0.0});
    next_request();
    resume_decoder();
  }

  // Next request of the decoder, or its output sequences.
  void next_request() {
    const bool greedy = !config_.width;
    const Hyp* first = beam_.live.empty() ? nullptr : &beam_.live.front();
    if (!first || tree[first->node].depth >= config_.max_len || (greedy && tree[first->node].token == EOS)) {
      done = true;
      results = beam_.finished;
      results.insert(results.end(), beam_.live.begin(), beam_.live.end());
      if (!greedy && int(results.size()) > config_.width) results.resize(config_.width);
      return;
    }
    requested_.clear();
    missing.clear();
    bool new_here = false;
    for (const Hyp& hyp : beam_.live) {
      requested_.push_back(hyp.node);
      if (tree[hyp.node].scores < 0) missing.push_back(hyp.node);
      new_here = new_here || !tree[hyp.node].requested;
      tree[hyp.node].requested = true;
    }
    standard += new_here;
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
      steps++;
      if (config_.width) {
        search_.advance_beam(beam_, sent_scores_, true);
      } else {
        const int node = tree.child(beam_.live[0].node, sent_scores_[0].ids[0]);
        tree[node].log_prob = sent_scores_[0].log_probs[0];
        beam_.live[0].node = node;
      }
      next_request();
      if (!done) record_level();
    }
    written += steps;
    return steps;
  }

  // Records for the planner whether a level of the look-ahead that is requested now was complete.
  void record_level() {
    const auto level = std::find_if(level_classes_.begin(), level_classes_.end(), [&](const auto& one) { return one.first == tree[requested_[0]].depth; });
    if (level == level_classes_.end()) return;
    const bool complete = std::all_of(requested_.begin(), requested_.end(), [&](int node) { return tree[node].scores >= 0 || tree[node].added_pass == pass_; });
    observed_levels.emplace_back(level->second, complete);
    if (!complete) level_classes_.clear();
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
    if (!planner_->drafts_may_pay) return;
    if (drafter_.args.kind == MIXED) {
      query_drafter.limits = planner_->tree_limits(drafter_.limits());
      return add_drafts();
    }
    for (const int start : missing) {
      const auto [first, count] = propose(start);
      const int room = options_.max_len - (tree[start].depth + 1);
      candidates_.clear();
      for (int which = first; which < first + count; which++) {
        int node = start;
        double probability = 1.0;
        for (int at = 0; at < std::min(drafts.drafts[which].length, room); at++) {
          node = tree.child(node, drafts.token(which, at));
          probability *= planner_->token_probability(probabilities(which), which - first, at);
          if (tree[node].probability_pass == pass_) {
            probability = tree[node].probability;
          } else {
            tree[node].probability = probability, tree[node].probability_pass = pass_;
            if (tree[node].token != EOS && tree[node].scores < 0) candidates_.push_back(node);
          }
          set_draft_origin(node, which, at);
          if (tree[node].token == EOS) break;
        }
      }
      std::stable_sort(candidates_.begin(), candidates_.end(), [&](int one, int other) { return tree[one].probability > tree[other].probability; });
      ThroughputStop stop(planner_->pass_seconds);
      const int most = std::min({MAX_NODES, options_.budget - int(added_.size()), int(candidates_.size())});
      for (int at = 0; at < most && stop.should_continue(at, tree[candidates_[at]].probability); at++) {}
      for (int at = 0; at < stop.best; at++) add(candidates_[at]);
    }
  }

  void add_planned_look_ahead() {
    const int depth = tree[requested_[0]].depth;
    if (!planner_->look_ahead_pays(int(missing.size()))) return;
    if (drafter_.args.kind == MIXED) query_drafter.limits = planner_->guess_limits(drafter_.limits());
    LookAheadPlan plan(*planner_, depth, options_.budget, config_.width > 1 && depth == 0, level_classes_);
    add_look_ahead(&plan);
    added_.resize(plan.best);
  }

  // `beam.look_ahead`, for `DraftTree.add_look_ahead`.
  void add_look_ahead(LookAheadPlan* plan) {
    ahead_ = beam_;
    while (!ahead_.live.empty() && tree[ahead_.live[0].node].depth < config_.max_len) {
      sent_scores_.clear(), guesses_.clear();
      guesses_.reserve(ahead_.live.size());
      bool any = false;
      for (const Hyp& hyp : ahead_.live) {
        if (tree[hyp.node].scores >= 0) {
          sent_scores_.push_back(scores(hyp.node));
        } else {
          if (tree[hyp.node].missing_pass != pass_ && tree[hyp.node].added_pass != pass_) {
            if (plan ? !plan->add_node(tree[hyp.node].depth) : int(added_.size()) >= options_.budget) return;
            add(hyp.node);
          }
          static const double cost = -(GUESS_COST);
          guesses_.push_back(guess(hyp.node, plan));
          sent_scores_.push_back({&guesses_.back(), &cost, guesses_.back() >= 0});
        }
        any = any || sent_scores_.back().count;
      }
      if (!any) break;
      search_.advance_beam(ahead_, sent_scores_, false);
    }
    if (plan) plan->close_last_level();
  }

  int32_t guess(int node, LookAheadPlan* plan) {
    int which = tree[node].draft_pass == pass_ ? tree[node].draft : -1, at = tree[node].position + 1;
    if (which < 0 || at >= drafts.drafts[which].length) {
      const auto [first, count] = propose(node);
      if (!count) {
        if (plan) plan->add_guess(0.0);
        return -1;
      }
      which = first, at = 0;
    }
    if (plan) plan->add_guess(planner_->token_probability(probabilities(which), 0, at));
    const int32_t token = drafts.token(which, at);
    set_draft_origin(tree.child(node, token), which, at);
    return token;
  }

  void add(int node) {
    tree[node].added_pass = pass_;
    added_.push_back(node);
  }

  // Credits a node to the first draft that contains it, until `record_accepted_spans` corrects it.
  void set_draft_origin(int node, int which, int at) {
    if (tree[node].draft_pass == pass_) return;
    tree[node].draft = which, tree[node].position = at, tree[node].draft_pass = pass_;
  }

  // The drafts after a node, proposed once per pass.
  std::pair<int, int> propose(int node) {
    if (tree[node].drafts_pass != pass_) {
      std::pair<int, int> found(0, 0);
      calls++;
      const int room = options_.max_len - (tree[node].depth + 1);
      if (room > 0) found = drafter_.args.kind == OTHER ? propose_in_python(node, room) : query_drafter.propose(node, room);
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

  // `QueryState.accepted_spans`.
  void record_accepted_spans(PassRecord& pass) {
    tree.path(leading_node(), path_);
    const int first = tree[leading_before_].depth + 1, spans = int(record.spans.size()), end = std::min(first - 1 + pass.emitted, int(path_.size()));
    for (int depth = first, credited = first; depth < end; depth++) {
      if (tree[path_[depth]].draft < 0 || tree[path_[depth]].reused) continue;
      if (has_branches_ && depth >= credited) credited = credit_longest(depth, end);
      const Node& node = tree[path_[depth]];
      const int32_t copied = drafts.source(node.draft, node.position), name = drafts.drafts[node.draft].name;
      const Span span = {depth - 1, 1, name, copied >= 0, std::max(copied, 0), std::max(copied, 0) + 1};
      Span* last = int(record.spans.size()) > spans ? &record.spans.back() : nullptr;
      const bool joins = last && last->start + last->length == span.start && last->name == name && last->spanned == span.spanned &&
                         (!span.spanned || last->to == span.from);
      if (joins) last->length++, last->to = span.to;
      else record.spans.push_back(span);
      pass.accepted++;
    }
    pass.spans = int(record.spans.size()) - spans;
  }

  // How many of the first `most` tokens of a draft are those of `path_` from a depth on.
  int count_matched(int which, int depth, int most) const {
    int matched = 0;
    while (matched < most && tree[path_[depth + matched]].token == drafts.token(which, matched)) matched++;
    return matched;
  }

  // Credits the accepted tokens from `depth` on to the draft with the longest accepted run, of equal ones the first; returns where
  // that ends.
  int credit_longest(int depth, int end) {
    const int start = depth - tree[path_[depth]].position, anchor = path_[start - 1];
    if (tree[anchor].drafts_pass != pass_) return depth + 1;  // drafted in an earlier pass
    int longest = tree[path_[depth]].draft, run = 0;
    for (int which = tree[anchor].drafts; which < tree[anchor].drafts + tree[anchor].drafts_count; which++) {
      const int matched = count_matched(which, start, std::min(drafts.drafts[which].length, end - start));
      if (matched > run) longest = which, run = matched;
    }
    for (int at = depth; at < start + run; at++) tree[path_[at]].draft = longest, tree[path_[at]].position = at - start;
    return start + run;
  }

  // `QueryState.record_nodes`.
  void record_nodes(PassRecord& pass) {
    unrecorded_.insert(unrecorded_.end(), computed.begin(), computed.end());
    for (const int at : unrecorded_) {
      Node& node = tree[at];
      record.parents.push_back(node.parent < 0 ? -1 : tree[node.parent].number);
      record.tokens.push_back(node.token);
      const int32_t copied = node.draft < 0 || node.reused ? -1 : drafts.source(node.draft, node.position);
      record.sources.push_back(node.missing_pass == pass_ ? REQUESTED : copied < 0 ? DRAFTED : copied);
      node.number = recorded_++;
    }
    pass.grown = int(unrecorded_.size()), pass.beam = int(requested_before_.size());
    unrecorded_.clear();
    for (const int node : requested_before_) record.beam.push_back(tree[node].number);
  }

  Drafter& drafter_;
  DraftPlanner* planner_;  // or null
  const LoopOptions& options_;
  BeamConfig config_;
  BeamSearch search_;
  const int number_;
  Beam beam_, ahead_;
  std::vector<int> requested_, requested_before_, added_, chain_, path_, candidates_;  // requested_before_: by the decoder, before it was sent the scores of this pass
  std::vector<std::pair<int, int>> level_classes_;  // of the levels of the look-ahead, by depth
  std::vector<Scores> sent_scores_;  // of the requested prefixes
  std::vector<int32_t> guesses_, text_;
  std::vector<int> slots_;  // of each slot its node
  std::vector<int> unrecorded_;  // nodes that the next record lists before the computed ones
  std::vector<int32_t> ids_;  // of every node's scores, `count_` each
  std::vector<double> log_probs_;
  int count_ = 0, kept_ = 0, pass_ = -1, leading_before_ = 0, recorded_ = 0;
  double margin_ = INF;  // smallest since the last pass
  bool has_branches_ = false;  // the drafts of this pass were added in full, as alternatives
  void* loop_ = nullptr;
};

}  // namespace
