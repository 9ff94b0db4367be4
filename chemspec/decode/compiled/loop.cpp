// The loop, compiled: `decode/python_loop.py` with greedy decoding or beam search, on numbered nodes.
//
// It implements `python_loop.py`, `query_state.py` and `draft_tree.py`; `decoding.py` explains why drafts do not change the output.
// It computes the same nodes in the same passes, bit-identical (with a planner for the same costs). A forward pass is
// `chemspec_loop_draft`, which lists the nodes to compute, the model's computation, and `chemspec_loop_take`, which stores the scores;
// or `chemspec_loop_run`, which runs all three several times in a row with a CPU kernel. The constants in capitals come from `build.py`.
//
// Names here and in Python: `go_on` is `continue_with`, `follow` is `add_look_ahead`, `extend` is `add_drafts`, `grow` is
// `record_nodes`, `take` is what `PythonLoop` does with the scores of a pass.

#include <atomic>
#include <chrono>
#include <functional>
#include <system_error>
#include <thread>

#include "drafters.h"
#include "search.h"

extern "C" {

struct Span {  // a `types.AcceptedSpan`
  int32_t start, length, name, spanned, from, to;
};

struct PassRecord {  // record of one forward pass for one query; lists are in `Record`
  int32_t asked, computed, emitted, accepted, width, spans, drafts, drafts_count, beam, grown;
};
}

namespace {

struct Record {
  std::vector<PassRecord> passes;
  std::vector<double> margins;
  std::vector<Span> spans;
  std::vector<int32_t> beam, parents, tokens, sources;  // of the nodes, if they are recorded
};

struct Settings {
  int max_len, budget;
  int64_t vocab_size;
  bool record;
};

class QueryState {
 public:
  QueryState(Drafter& drafter, Planner* planner, const Settings& settings, const BeamConfig& rules, std::vector<int32_t> text, int number)
      : proposer(drafter, tree, list, std::move(text)), drafter_(drafter), planner_(planner), settings_(settings), rules_(rules), search_(tree, rules_), number_(number) {
    start();
  }

  // `QueryState.continue_with`.
  void go_on(const BeamConfig& rules) {
    rules_ = rules;
    numbers_ = 0;
    for (const int node : slots_) tree[node].reused = true;
    if (settings_.record) relisted_ = slots_;
    kinds_.clear();
    start();
  }

  // Propose ---------------------------------------------------------------------------------------

  // Lists the nodes to compute in this pass: requested and drafted ones.
  void draft(bool asks, int pass, void* loop) {
    pass_ = pass, loop_ = loop;
    added_.clear(), kinds_.clear(), judged.clear();
    calls = 0;
    for (const int node : missing) tree[node].missing_pass = pass;
    before_ = leading();
    branched_ = asks && !rules_.width;
    if (branched_) planner_ ? extend_as_planned() : extend();
    else if (asks) planner_ ? follow_as_planned() : follow(nullptr);
    computed.clear();
    for (const int node : missing) allocate_slot(node);
    for (const int node : added_) allocate_slot(node);
  }

  // Scores -----------------------------------------------------------------------------------------

  // Stores the scores of the computed nodes and advances the decoder while all requested scores are known.
  template <class Id, class Value>
  void take(const Id* ids, const Value* log_probs, int count, int width) {
    count_ = count;
    for (const int node : computed) {
      if (!std::isfinite(double(log_probs[0]))) {  // the best token's
        bad_scores = true;
        return;
      }
      tree[node].scores = int(ids_.size() / std::max(1, count));
      ids_.insert(ids_.end(), ids, ids + count);
      log_probs_.insert(log_probs_.end(), log_probs, log_probs + count);
      ids += count, log_probs += count;
    }
    PassRecord pass{};
    pass.asked = int(missing.size()), pass.computed = int(computed.size()), pass.width = width;
    missing.clear();
    if (settings_.record) waited_ = requested_;
    pass.emitted = resume();
    const double margin = std::exchange(margin_, INF);
    accept(pass);
    if (settings_.record) grow(pass);
    if (tree[before_].drafts_pass == pass_) pass.drafts = tree[before_].drafts, pass.drafts_count = tree[before_].drafts_count;
    record.passes.push_back(pass);
    record.margins.push_back(margin);
  }

  // Reports complete levels and the acceptance of drafts after the best hypothesis to the planner (`python_loop._matched_drafts`).
  void observe() {
    for (const auto& [kind, complete] : judged) planner_->by_level.add(kind, complete);
    const int text = leading(), depth = tree[before_].depth;
    if (tree[before_].drafts_pass != pass_ || tree[text].depth < depth || tree.ancestor(text, depth) != before_) return;
    tree.path(text, path_);
    const int emitted = tree[text].depth - depth;
    for (int which = tree[before_].drafts; which < tree[before_].drafts + tree[before_].drafts_count; which++) {
      const Draft& draft = list.drafts[which];
      const int seen = std::min(draft.length, emitted);
      int matched = 0;
      while (matched < seen && tree[path_[depth + 1 + matched]].token == list.token(which, matched)) matched++;
      if (seen) planner_->observe(&list.tokens[draft.start], chances(which), matched == seen ? seen : draft.length, which - tree[before_].drafts, matched);
    }
  }

  // Cache ------------------------------------------------------------------------------------------

  // `Session.compact`: the old slots of the nodes to keep into `kept_slots`; false if the cache stays as it is.
  bool compact(double factor, int fixed, int per_root) {
    const double limit = factor * kept_ + fixed;
    if (double(slots_.size()) <= limit || double(slots_.size()) <= limit + double(per_root) * double(requested_.size())) return false;
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
  DraftList list;
  QueryDrafter proposer;
  Record record;
  std::vector<Hyp> results;
  bool done = false;
  int written = 0, standard = 0;  // `protocol.FinishedSearch`
  std::vector<int> missing, computed;  // of this pass
  std::vector<int32_t> kept_slots;
  int32_t bad_token = 0, bad_draft = -1;  // a draft with a token id outside the vocabulary
  bool failed = false;  // the drafter's callback failed
  bool bad_scores = false;
  int calls = 0;  // of the drafter, in this pass
  std::vector<std::pair<int, bool>> judged;  // levels: the class of each, and whether it was complete

  int waiting() const { return int(requested_.size()); }
  int width() const { return std::max(1, rules_.width); }
  bool may_go_on() const { return rules_.may_go_on; }

 private:
  void start() {
    done = false;
    results.clear();
    written = standard = 0;
    beam_ = {};
    beam_.live.push_back({0, 0.0});
    request();
    resume();
  }

  // Next request of the decoder, or its output sequences.
  void request() {
    const bool greedy = !rules_.width;
    const Hyp* first = beam_.live.empty() ? nullptr : &beam_.live.front();
    if (!first || tree[first->node].depth >= rules_.max_len || (greedy && tree[first->node].token == EOS)) {
      done = true;
      results = beam_.finished;
      results.insert(results.end(), beam_.live.begin(), beam_.live.end());
      if (!greedy && int(results.size()) > rules_.width) results.resize(rules_.width);
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

  int leading() const { return done && !results.empty() ? results[0].node : requested_.empty() ? 0 : requested_[0]; }

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

  int resume() {
    int steps = 0;
    while (!done && missing.empty()) {
      given_.clear();
      for (const int node : requested_) {
        given_.push_back(scores(node));
        const double gap = given_.back().margin();
        if (gap < margin_) margin_ = gap;
      }
      steps++;
      if (rules_.width) {
        search_.advance(beam_, given_, true);
      } else {
        const int node = tree.child(beam_.live[0].node, given_[0].ids[0]);
        tree[node].log_prob = given_[0].log_probs[0];
        beam_.live[0].node = node;
      }
      request();
      if (!done) judge();
    }
    written += steps;
    return steps;
  }

  // `python_loop._level_observer`.
  void judge() {
    const auto level = std::find_if(kinds_.begin(), kinds_.end(), [&](const auto& one) { return one.first == tree[requested_[0]].depth; });
    if (level == kinds_.end()) return;
    const bool complete = std::all_of(requested_.begin(), requested_.end(), [&](int node) { return tree[node].scores >= 0 || tree[node].added_pass == pass_; });
    judged.emplace_back(level->second, complete);
    if (!complete) kinds_.clear();
  }

  // Draft tree -------------------------------------------------------------------------------------

  void extend() {
    for (const int asked : missing) {
      const auto [first, count] = propose(asked);
      const int room = settings_.max_len - (tree[asked].depth + 1);
      for (int which = first; which < first + count; which++) {
        int node = asked;
        for (int at = 0; at < std::min(list.drafts[which].length, room); at++) {
          const int32_t token = list.token(which, at);
          node = tree.child(node, token);
          set_draft_origin(node, which, at);
          if (token == EOS) break;
          if (tree[node].scores < 0 && tree[node].added_pass != pass_) {
            if (int(added_.size()) >= settings_.budget) return;
            add(node);
          }
        }
      }
    }
  }

  void extend_as_planned() {
    if (!planner_->drafts_may_pay) return;
    if (drafter_.spec.kind == MIXED) {
      proposer.limits = planner_->tree_limits(*drafter_.spec.limits);
      return extend();
    }
    for (const int asked : missing) {
      const auto [first, count] = propose(asked);
      const int room = settings_.max_len - (tree[asked].depth + 1);
      weighed_.clear();
      for (int which = first; which < first + count; which++) {
        int node = asked;
        double chance = 1.0;
        for (int at = 0; at < std::min(list.drafts[which].length, room); at++) {
          node = tree.child(node, list.token(which, at));
          chance *= planner_->chance(chances(which), which - first, at);
          if (tree[node].chance_pass == pass_) {
            chance = tree[node].chance;
          } else {
            tree[node].chance = chance, tree[node].chance_pass = pass_;
            if (tree[node].token != EOS && tree[node].scores < 0) weighed_.push_back(node);
          }
          set_draft_origin(node, which, at);
          if (tree[node].token == EOS) break;
        }
      }
      std::stable_sort(weighed_.begin(), weighed_.end(), [&](int one, int other) { return tree[one].chance > tree[other].chance; });
      ThroughputStop stop(planner_->pass_seconds);
      const int most = std::min({NODES, settings_.budget - int(added_.size()), int(weighed_.size())});
      for (int at = 0; at < most && stop.more(at, tree[weighed_[at]].chance); at++) {}
      for (int at = 0; at < stop.best; at++) add(weighed_[at]);
    }
  }

  void follow_as_planned() {
    const int depth = tree[requested_[0]].depth;
    if (!planner_->look_ahead_pays(int(missing.size()))) return;
    if (drafter_.spec.kind == MIXED) proposer.limits = planner_->guess_limits(*drafter_.spec.limits);
    LookAheadPlan plan(*planner_, depth, settings_.budget, rules_.width > 1 && depth == 0, kinds_);
    follow(&plan);
    added_.resize(plan.best);
  }

  // `beam.look_ahead`, for `DraftTree.add_look_ahead` and `add_planned_look_ahead`.
  void follow(LookAheadPlan* plan) {
    ahead_ = beam_;
    while (!ahead_.live.empty() && tree[ahead_.live[0].node].depth < rules_.max_len) {
      given_.clear(), guesses_.clear();
      guesses_.reserve(ahead_.live.size());
      bool any = false;
      for (const Hyp& hyp : ahead_.live) {
        if (tree[hyp.node].scores >= 0) {
          given_.push_back(scores(hyp.node));
        } else {
          if (tree[hyp.node].missing_pass != pass_ && tree[hyp.node].added_pass != pass_) {
            if (plan ? !plan->add(tree[hyp.node].depth) : int(added_.size()) >= settings_.budget) return;
            add(hyp.node);
          }
          static const double cost = -(GUESS_COST);
          guesses_.push_back(guess(hyp.node, plan));
          given_.push_back({&guesses_.back(), &cost, guesses_.back() >= 0});
        }
        any = any || given_.back().count;
      }
      if (!any) break;
      search_.advance(ahead_, given_, false);
    }
    if (plan) plan->end();
  }

  int32_t guess(int node, LookAheadPlan* plan) {
    int which = tree[node].draft_pass == pass_ ? tree[node].draft : -1, at = tree[node].position + 1;
    if (which < 0 || at >= list.drafts[which].length) {
      const auto [first, count] = propose(node);
      if (!count) {
        if (plan) plan->guess(0.0);
        return -1;
      }
      which = first, at = 0;
    }
    if (plan) plan->guess(planner_->chance(chances(which), 0, at));
    const int32_t token = list.token(which, at);
    set_draft_origin(tree.child(node, token), which, at);
    return token;
  }

  void add(int node) {
    tree[node].added_pass = pass_;
    added_.push_back(node);
  }

  // Credits a node to the first draft that contains it, until `accept` corrects it.
  void set_draft_origin(int node, int which, int at) {
    if (tree[node].draft_pass == pass_) return;
    tree[node].draft = which, tree[node].position = at, tree[node].draft_pass = pass_;
  }

  // The drafts after a node, proposed once per pass.
  std::pair<int, int> propose(int node) {
    if (tree[node].drafts_pass != pass_) {
      std::pair<int, int> found(0, 0);
      calls++;
      const int room = settings_.max_len - (tree[node].depth + 1);
      if (room > 0) found = drafter_.spec.kind == OTHER ? propose_back(node, room) : proposer.propose(node, room);
      for (int which = found.first; which < found.first + found.second; which++) check(which);
      tree[node].drafts = found.first, tree[node].drafts_count = found.second, tree[node].drafts_pass = pass_;
    }
    return {tree[node].drafts, tree[node].drafts_count};
  }
  const double* chances(int which) const { return list.drafts[which].chances_count ? &list.chances[list.drafts[which].chances] : nullptr; }
  std::pair<int, int> propose_back(int node, int room) {
    const int first = int(list.drafts.size());
    if (failed || bad_draft >= 0) return {first, 0};
    tree.text(node, text_);
    if (!drafter_.spec.propose(loop_, number_, text_.data(), int(text_.size()), room)) failed = true;
    return {first, int(list.drafts.size()) - first};
  }
  void check(int which) {
    for (int at = 0; at < list.drafts[which].length && bad_draft < 0; at++)
      if (list.token(which, at) < 0 || list.token(which, at) >= settings_.vocab_size) bad_token = list.token(which, at), bad_draft = which;
  }

  // Record -----------------------------------------------------------------------------------------

  // `QueryState.accepted_spans`.
  void accept(PassRecord& pass) {
    tree.path(leading(), path_);
    const int first = tree[before_].depth + 1, spans = int(record.spans.size()), end = std::min(first - 1 + pass.emitted, int(path_.size()));
    for (int depth = first, credited = first; depth < end; depth++) {
      if (tree[path_[depth]].draft < 0 || tree[path_[depth]].reused) continue;
      if (branched_ && depth >= credited) credited = credit_longest(depth, end);
      const Node& node = tree[path_[depth]];
      const int32_t copied = list.source(node.draft, node.position), name = list.drafts[node.draft].name;
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

  // Credits the accepted tokens from `depth` on to the draft with the longest accepted run, of equal ones the first; returns where
  // that ends.
  int credit_longest(int depth, int end) {
    const int start = depth - tree[path_[depth]].position, anchor = path_[start - 1];
    if (tree[anchor].drafts_pass != pass_) return depth + 1;  // drafted in an earlier pass
    int longest = tree[path_[depth]].draft, run = 0;
    for (int which = tree[anchor].drafts; which < tree[anchor].drafts + tree[anchor].drafts_count; which++) {
      const int most = std::min(list.drafts[which].length, end - start);
      int matched = 0;
      while (matched < most && tree[path_[start + matched]].token == list.token(which, matched)) matched++;
      if (matched > run) longest = which, run = matched;
    }
    for (int at = depth; at < start + run; at++) tree[path_[at]].draft = longest, tree[path_[at]].position = at - start;
    return start + run;
  }

  // `QueryState.record_nodes`.
  void grow(PassRecord& pass) {
    relisted_.insert(relisted_.end(), computed.begin(), computed.end());
    for (const int at : relisted_) {
      Node& node = tree[at];
      record.parents.push_back(node.parent < 0 ? -1 : tree[node.parent].number);
      record.tokens.push_back(node.token);
      const int32_t copied = node.draft < 0 || node.reused ? -1 : list.source(node.draft, node.position);
      record.sources.push_back(node.missing_pass == pass_ ? REQUESTED : copied < 0 ? DRAFTED : copied);
      node.number = numbers_++;
    }
    pass.grown = int(relisted_.size()), pass.beam = int(waited_.size());
    relisted_.clear();
    for (const int node : waited_) record.beam.push_back(tree[node].number);
  }

  Drafter& drafter_;
  Planner* planner_;  // or null
  const Settings& settings_;
  BeamConfig rules_;
  Search search_;
  const int number_;
  Beam beam_, ahead_;
  std::vector<int> requested_, waited_, added_, chain_, path_, weighed_;  // waited_: requested before the decoder went on
  std::vector<std::pair<int, int>> kinds_;  // of the levels of the look-ahead, by depth
  std::vector<Scores> given_;
  std::vector<int32_t> guesses_, text_;
  std::vector<int> slots_;  // of each slot its node
  std::vector<int> relisted_;  // nodes that the next record lists first
  std::vector<int32_t> ids_;  // of every node's scores, `count_` each
  std::vector<double> log_probs_;
  int count_ = 0, kept_ = 0, pass_ = -1, before_ = 0, numbers_ = 0;
  double margin_ = INF;  // smallest since the last pass
  bool branched_ = false;  // drafts of this pass were added side by side
  void* loop_ = nullptr;
};

}  // namespace

extern "C" {

struct LoopSpec {
  int32_t max_len, budget, record, threads;
  int32_t fixed, per_root;  // `session.CompactionThreshold`
  double factor;
  int64_t vocab_size;
};

// State of the next forward pass, read by Python.
struct PassState {
  int32_t active, asked, waiting;  // of the next pass: queries, nodes that must be computed, prefixes waited for
  int32_t rows;  // nodes of this pass
  const int32_t* columns;  // queries, tokens, depths and parents, `rows` each
  int32_t released, compacted;  // queries to do so with; first those, then these
  const int32_t* queries;
  int32_t bad_token, bad_name;
  int32_t passes;  // of `chemspec_loop_run`
  const double* times;  // of each, in seconds: of drafting, of the model, and from the call to its end
};

// A pass of a kernel that computes on this host: what `chemspec_run` of kernel.cpp takes and returns.
using KernelPass = int (*)(void* session, int rows, const int32_t* queries, const int32_t* tokens, const int32_t* depths, const int32_t* parents,
                           const int32_t* blocks, int count, int32_t* ids, float* log_probs, float* states);
}

namespace {

constexpr int WORTH_A_THREAD = 24;  // prefixes waited for, from which on a pass is shared between threads
enum Outcome { FINE = 1, NO_MEMORY = 0, BAD_DRAFT = -1, CALL_FAILED = -2, BAD_SCORES = -3 };

struct Loop {
  Settings settings;
  Drafter drafter;
  std::unique_ptr<Planner> planner;  // or null
  int threads, fixed, per_root, pass = 0;
  double factor;
  std::vector<std::unique_ptr<QueryState>> queries;  // null: forgotten
  size_t begun = 0;  // queries whose drafts before the first pass are known
  std::vector<int> active, starts;  // of the rows of each active query
  std::vector<int32_t> columns, orders, ids;
  std::vector<float> log_probs;
  std::vector<double> times;
  PassState state{};

  Loop(const LoopSpec& spec, const DrafterArgs& drafts, const PlannerArgs* plans)
      : settings{spec.max_len, spec.budget, spec.vocab_size, spec.record != 0},
        drafter(drafts),
        planner(plans && spec.budget ? std::make_unique<Planner>(*plans) : nullptr),
        threads(drafts.kind == OTHER ? 1 : spec.threads),
        fixed(spec.fixed),
        per_root(spec.per_root),
        factor(spec.factor) {}

  void join(int count, const int32_t* source, const int32_t* lengths, const BeamConfig* rules) {
    for (int which = 0; which < count; source += lengths[which++]) {
      std::vector<int32_t> text(source, source + lengths[which]);
      text.push_back(EOS);
      const int number = int(queries.size());
      queries.push_back(std::make_unique<QueryState>(drafter, planner.get(), settings, rules[which], std::move(text), number));
      active.push_back(number);
    }
  }

  // Starts the next search of a query.
  void go_on(int number, const BeamConfig& rules) {
    queries[number]->go_on(rules);
    if (!queries[number]->done) active.insert(std::lower_bound(active.begin(), active.end(), number), number);
  }

  void each(const std::function<void(int)>& work) {
    const int count = int(active.size()), helpers = std::min(threads, count) - 1;
    if (helpers < 1 || state.waiting < WORTH_A_THREAD) {
      for (int at = 0; at < count; at++) work(at);
      return;
    }
    std::atomic<int> next(0);
    std::atomic<bool> failed(false);
    const auto some = [&] {
      try {
        for (int at; (at = next++) < count;) work(at);
      } catch (...) {
        failed = true;
      }
    };
    std::vector<std::thread> running;
    running.reserve(helpers);
    try {
      for (int i = 0; i < helpers; i++) running.emplace_back(some);
    } catch (const std::system_error&) {  // no more threads available
    }
    some();
    for (std::thread& one : running) one.join();
    if (failed) throw std::bad_alloc();
  }

  Outcome draft() {
    bool asks = settings.budget > 0;
    if (planner) {
      int width = 0;
      for (const int number : active) width += queries[number]->width();
      asks = planner->begin_pass(state.asked, state.active, state.waiting, width);
    }
    pass++;
    each([&](int at) { queries[active[at]]->draft(asks, pass, this); });
    starts.assign(1, 0);
    for (const int number : active) {
      const QueryState& query = *queries[number];
      if (query.failed) return CALL_FAILED;
      if (query.bad_draft >= 0) {
        state.bad_token = query.bad_token, state.bad_name = query.list.drafts[query.bad_draft].name;
        return BAD_DRAFT;
      }
      starts.push_back(starts.back() + int(query.computed.size()));
    }
    const int rows = state.rows = starts.back();
    columns.resize(4 * size_t(rows));
    for (size_t at = 0; at < active.size(); at++) {
      const QueryState& query = *queries[active[at]];
      int32_t* column = columns.data() + starts[at];
      for (const int which : query.computed) {
        const Node& node = query.tree[which];
        column[0] = active[at], column[rows] = node.token, column[2 * rows] = node.depth;
        column[3 * rows] = node.parent < 0 ? -1 : query.tree[node.parent].slot;
        column++;
      }
    }
    state.columns = columns.data();
    return FINE;
  }

  template <class Id, class Value>
  Outcome take(const Id* ids, const Value* log_probs, int count) {
    const int width = int(active.size());
    each([&](int at) {
      const size_t from = size_t(starts[at]) * count;
      queries[active[at]]->take(ids + from, log_probs + from, count, width);
    });
    for (const int number : active)
      if (queries[number]->bad_scores) return BAD_SCORES;
    if (planner) {
      int tokens = 0, calls = 0;
      for (const int number : active) {
        QueryState& query = *queries[number];
        query.observe();
        tokens += query.record.passes.back().emitted, calls += query.calls;
      }
      planner->end_pass(state.rows, tokens, calls);
    }
    schedule_next_pass();
    return FINE;
  }

  // Runs passes in a row, until Python has to do something or the given number of seconds has passed.
  Outcome run(KernelPass kernel, void* session, int count, double seconds) {
    const auto began = std::chrono::steady_clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
    times.clear();
    double end = 0.0;
    do {
      const double start = end;
      Outcome done = draft();
      if (done != FINE) return done;
      const double drafted = elapsed();
      const int rows = state.rows;
      const int32_t* column = columns.data();
      ids.resize(size_t(rows) * count), log_probs.resize(size_t(rows) * count);
      if (!kernel(session, rows, column, column + rows, column + 2 * rows, column + 3 * rows, nullptr, count, ids.data(), log_probs.data(), nullptr))
        return NO_MEMORY;
      const double scored = elapsed();
      done = take(ids.data(), log_probs.data(), count);
      if (done != FINE) return done;
      end = elapsed();
      times.insert(times.end(), {drafted - start, scored - drafted, end});
    } while (!state.released && !state.compacted && end < seconds);
    state.passes = int(times.size() / 3), state.times = times.data();
    return FINE;
  }

  // Collects the nodes of the next pass and the cache entries to evict first.
  void schedule_next_pass() {
    orders.clear();
    std::vector<int> left;
    for (const int number : active) (queries[number]->done ? orders : left).push_back(number);
    state.released = int(orders.size()), state.compacted = 0;
    active = std::move(left);
    state.active = int(active.size()), state.asked = state.waiting = 0;
    for (const int number : active) {
      QueryState& query = *queries[number];
      state.asked += int(query.missing.size()), state.waiting += query.waiting();
      if (!query.may_go_on() && query.compact(factor, fixed, per_root)) orders.push_back(number), state.compacted++;
    }
    state.queries = orders.data();
  }
};

template <class Work>
int guarded(const Work& work) {
  try {
    return work();
  } catch (...) {
    return NO_MEMORY;
  }
}

}  // namespace

extern "C" {

// planner: null if drafts use the whole budget.
void* chemspec_loop(const LoopSpec* spec, const DrafterArgs* drafter, const PlannerArgs* planner) {
  Loop* loop = nullptr;
  return guarded([&] { loop = new Loop(*spec, *drafter, planner); return FINE; }) == FINE ? loop : nullptr;
}
void chemspec_loop_free(void* loop) { delete static_cast<Loop*>(loop); }
PassState* chemspec_loop_state(void* loop) { return &static_cast<Loop*>(loop)->state; }

// Adds queries, with the next numbers. tokens: those of all queries concatenated; lengths and rules: of each query.
int chemspec_loop_join(void* loop, int queries, const int32_t* tokens, const int32_t* lengths, const BeamConfig* rules) {
  return guarded([&] { static_cast<Loop*>(loop)->join(queries, tokens, lengths, rules); return FINE; });
}

// Starts the next search of a query; call `chemspec_loop_begin` afterwards.
int chemspec_loop_go_on(void* loop, int query, const BeamConfig* rules) {
  return guarded([&] { static_cast<Loop*>(loop)->go_on(query, *rules); return FINE; });
}

// Deletes the records of a finished query.
void chemspec_loop_forget(void* loop, int query) { static_cast<Loop*>(loop)->queries[query].reset(); }

// Adds a draft after the current prefix, or, before a query's first pass, one of its windows.
int chemspec_loop_add_draft(void* handle, int query, int32_t name, const int32_t* tokens, int length, int spanned, int from, int to, int match,
                            const int32_t* places, int places_count, const double* chances, int chances_count) {
  return guarded([&] {
    DraftList& list = static_cast<Loop*>(handle)->queries[query]->list;
    Draft& draft = list.add(name, tokens, length);
    draft.spanned = spanned, draft.from = from, draft.to = to, draft.match = match;
    draft.places_count = places_count, draft.chances_count = chances_count;
    list.places.insert(list.places.end(), places, places + places_count);
    list.chances.insert(list.chances.end(), chances, chances + chances_count);
    return FINE;
  });
}

// Ends the registration of new queries, whose drafts so far are their windows, and schedules the next pass.
int chemspec_loop_begin(void* handle) {
  return guarded([&] {
    Loop& loop = *static_cast<Loop*>(handle);
    for (; loop.begun < loop.queries.size(); loop.begun++) loop.queries[loop.begun]->proposer.keep_windows();
    loop.schedule_next_pass();
    return FINE;
  });
}

// Lists the nodes of the next pass in `PassState.columns`.
int chemspec_loop_draft(void* loop) {
  return guarded([&] { return static_cast<Loop*>(loop)->draft(); });
}

// Stores their scores: the `count` best next tokens of each, in 32 or 64 bits.
int chemspec_loop_take(void* handle, const void* ids, int wide_ids, const void* log_probs, int wide_log_probs, int count) {
  return guarded([&] {
    Loop& loop = *static_cast<Loop*>(handle);
    const auto *ids32 = static_cast<const int32_t*>(ids);
    const auto *ids64 = static_cast<const int64_t*>(ids);
    const auto *log32 = static_cast<const float*>(log_probs);
    const auto *log64 = static_cast<const double*>(log_probs);
    if (wide_ids && wide_log_probs) return loop.take(ids64, log64, count);
    if (wide_ids) return loop.take(ids64, log32, count);
    if (wide_log_probs) return loop.take(ids32, log64, count);
    return loop.take(ids32, log32, count);
  });
}

// Passes in a row; see `Loop::run`.
int chemspec_loop_run(void* loop, KernelPass kernel, void* session, int count, double seconds) {
  return guarded([&] { return static_cast<Loop*>(loop)->run(kernel, session, count, seconds); });
}

// The slots that a query keeps, if it was to be compacted.
const int32_t* chemspec_loop_kept(void* loop, int query, int* count) {
  const auto& kept = static_cast<Loop*>(loop)->queries[query]->kept_slots;
  *count = int(kept.size());
  return kept.data();
}

// Read a query's passes -----------------------------------------------------------------------------

struct RecordView {
  int32_t passes, spans, beam, grown, drafts, answers, done, written, standard;
  const PassRecord* pass;
  const double* margins;
  const Span* span;
  const int32_t *beams, *parents, *tokens, *sources;
  const Draft* draft;
  const int32_t *draft_tokens, *draft_places;
  const double* draft_chances;
};

void chemspec_loop_record(void* loop, int query, RecordView* view) {
  const QueryState& state = *static_cast<Loop*>(loop)->queries[query];
  const Record& record = state.record;
  *view = {int32_t(record.passes.size()), int32_t(record.spans.size()), int32_t(record.beam.size()), int32_t(record.parents.size()),
           int32_t(state.list.drafts.size()), int32_t(state.results.size()), state.done, state.written, state.standard,
           record.passes.data(), record.margins.data(), record.spans.data(), record.beam.data(), record.parents.data(), record.tokens.data(),
           record.sources.data(), state.list.drafts.data(), state.list.tokens.data(), state.list.places.data(), state.list.chances.data()};
}

// Writes the tokens and log-probs of an output sequence, unless these are null; returns its length.
int chemspec_loop_answer(void* loop, int query, int which, int32_t* tokens, double* log_probs) {
  const QueryState& state = *static_cast<Loop*>(loop)->queries[query];
  int node = state.results[which].node;
  const int length = state.tree[node].depth;
  for (int at = length - 1; at >= 0 && tokens; at--, node = state.tree[node].parent)
    tokens[at] = state.tree[node].token, log_probs[at] = state.tree[node].log_prob;
  return length;
}
}
