// The drafters `copy` and `mixed` on numbered nodes, with the same order of operations as in Python; other drafters are Python
// callbacks.
#pragma once

#include "node_tree.h"
#include "draft_planner.h"

enum DrafterKind { NONE, COPYING, MIXED, OTHER };

struct Draft {  // a `types.Draft`; its lists lie in `DraftList`
  int32_t name, start, length;
  int32_t spanned, from, to;  // `span`, if there is one
  int32_t match;
  int32_t places, places_count, chances, chances_count;
};

// Callback for the drafts after a prefix, which it passes to `chemspec_loop_add_draft`; returns 0 after an exception.
typedef int (*ProposeCallback)(void* loop, int query, const int32_t* prefix, int written, int room);

struct DrafterArgs {
  int32_t kind;
  int32_t name, copy_name;  // of the drafts
  int32_t length, count, nodes;  // of `Copy` and `Mixed`
  int32_t dot, prompt_length, labels;
  const int32_t* rings;  // as `TokenClasses.rings`
  MergingArgs merging;
  const EditNgramTable* table;  // of `mixed`, or null
  ProposeCallback propose;
};

namespace {

// The drafts of one query.
struct DraftList {
  std::vector<Draft> drafts;
  std::vector<int32_t> tokens, places;
  std::vector<double> chances;

  Draft& add(int32_t name, const int32_t* given, int count) {
    drafts.push_back({name, int32_t(tokens.size()), count, 0, 0, 0, 0, int32_t(places.size()), 0, int32_t(chances.size()), 0});
    tokens.insert(tokens.end(), given, given + count);
    return drafts.back();
  }
  int32_t token(int draft, int at) const { return tokens[drafts[draft].start + at]; }
};

// What all queries share.
struct Drafter {
  DrafterArgs args;
  std::vector<int32_t> rings;
  Merging merging;

  explicit Drafter(const DrafterArgs& given) : args(given), rings(given.rings, given.rings + given.labels), merging(given.merging) {}
  TreeLimits limits() const { return {MIN_PROBABILITY, nullptr, nullptr, 0, args.nodes, args.length, args.count}; }
};

// The drafter of one query.
class QueryDrafter {
 public:
  QueryDrafter(Drafter& shared, NodeTree& tree, DraftList& list, const std::vector<int32_t>& text)
      : limits(shared.limits()), args_(shared.args), tree_(tree), list_(list), tracker_(text, shared.rings, shared.merging, args_.dot, args_.prompt_length) {}

  // Appends the drafts after a node to the list, best first; returns the first and their number.
  std::pair<int, int> propose(int node, int room) {
    const int first = int(list_.drafts.size());
    if (args_.kind == COPYING) add_copy_drafts(node, std::min(args_.length, room));
    else if (args_.kind == MIXED) add_tree_drafts(node, room);
    return {first, int(list_.drafts.size()) - first};
  }

  TreeLimits limits;  // of the trees of `Mixed`
  int proposed = 0;  // nodes of trees so far

 private:
  // `Copy.propose`.
  void add_copy_drafts(int node, int length) {
    const CopyState& state = state_of(node);
    auto ranked = tracker_.rank_positions(state, node == 0, size_t(args_.count));
    if (ranked.size() > size_t(args_.count)) ranked.resize(args_.count);
    for (const auto& [position, match] : ranked) {
      const std::vector<int32_t> tokens = tracker_.copied_tokens(state, position, length);
      if (tokens.empty()) continue;
      positions_.clear();
      for (int at = 0, next = position; at < int(tokens.size()); next += tracker_.symbol_count(tokens[at++])) positions_.push_back(next);
      Draft& draft = list_.add(args_.copy_name, tokens.data(), int(tokens.size()));
      set_positions(draft);
      draft.match = match;
    }
  }

  // `copy.copied_draft`: the positions in the query, as one span if they are one.
  void set_positions(Draft& draft) {
    const int first = positions_[0], count = int(positions_.size());
    bool whole = first >= 0;
    for (int at = 0; at < count; at++) whole = whole && positions_[at] == first + at;
    if (whole) {
      draft.spanned = 1, draft.from = first, draft.to = std::min(first + count, tracker_.query_length());
    } else {
      draft.places_count = count;
      list_.places.insert(list_.places.end(), positions_.begin(), positions_.end());
    }
  }

  const CopyState& state_of(int node) {
    uncached_.clear();
    if (states_.empty()) states_.push_back(tracker_.start()), tree_[0].copy_state = 0;
    for (; tree_[node].copy_state < 0; node = tree_[node].parent) uncached_.push_back(node);
    int state = tree_[node].copy_state;
    for (; !uncached_.empty(); uncached_.pop_back()) {
      Node& child = tree_[uncached_.back()];
      states_.push_back(tracker_.advance(states_[state], child.token));
      state = child.copy_state = int(states_.size()) - 1;
    }
    return states_[state];
  }

  // `Mixed.propose`.
  void add_tree_drafts(int node, int room) {
    TreeLimits within = limits;
    within.max_length = std::min(within.max_length, room);
    const CopyState& first = state_of(node);
    tree_.text(node, written_);
    build_tree(*args_.table, tracker_, first, within, written_.data(), int(written_.size()), nodes_);
    proposed += int(nodes_.size());
    inner_.assign(nodes_.size(), false);
    for (const TreeNode& each : nodes_)
      if (each.parent >= 0) inner_[each.parent] = true;
    leaves_.clear();
    for (int leaf = 0; leaf < int(nodes_.size()); leaf++) {
      if (inner_[leaf]) continue;
      find_path(leaf);
      double expected_tokens = 0;
      for (const int at : path_) expected_tokens += nodes_[at].path_probability;
      leaves_.push_back({expected_tokens, leaf});
    }
    std::stable_sort(leaves_.begin(), leaves_.end(), [](const auto& one, const auto& other) { return one.first > other.first; });
    for (const auto& leaf : leaves_) {
      find_path(leaf.second);
      add_path();
    }
  }
  void find_path(int leaf) {
    path_.clear();
    for (int at = leaf; at >= 0; at = nodes_[at].parent) path_.push_back(at);
    std::reverse(path_.begin(), path_.end());
  }
  void add_path() {
    drafted_.clear(), positions_.clear();
    for (const int at : path_) drafted_.push_back(nodes_[at].token), positions_.push_back(nodes_[at].position);
    Draft& draft = list_.add(args_.name, drafted_.data(), int(drafted_.size()));
    set_positions(draft);
    draft.chances_count = int(drafted_.size());
    for (const int at : path_) list_.chances.push_back(nodes_[at].step_probability);
  }

  const DrafterArgs& args_;
  NodeTree& tree_;
  DraftList& list_;
  const CopyTracker tracker_;
  std::vector<CopyState> states_;
  // Kept for their memory.
  std::vector<int32_t> written_, drafted_, positions_;
  std::vector<TreeNode> nodes_;
  std::vector<int> uncached_, path_;
  std::vector<char> inner_;
  std::vector<std::pair<double, int>> leaves_;
};

}  // namespace
