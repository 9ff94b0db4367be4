// The drafters `copy` and `mixed` on numbered nodes, with the same order of operations as in Python; other drafters are Python
// callbacks.
#pragma once

#include <cstdlib>
#include <memory>

#include "node_tree.h"
#include "draft_planner.h"

enum DrafterKind { NONE, COPYING, MIXED, OTHER };

extern "C" {

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
  const EditNgramTable* table;  // of `mixed`, or null
  ProposeCallback propose;
};
}

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
  // `Draft.query_position`: the position in the query from which a token was copied, or -1.
  int32_t source(int which, int at) const {
    const Draft& draft = drafts[which];
    if (draft.places_count) return at < draft.places_count ? std::max(places[draft.places + at], -1) : -1;
    return draft.spanned ? draft.from + at : -1;
  }
};

// What all queries share.
struct Drafter {
  DrafterArgs args;
  std::vector<int32_t> rings;

  explicit Drafter(const DrafterArgs& given) : args(given), rings(given.rings, given.rings + given.labels) {}
  TreeLimits limits() const { return {MIN_PROBABILITY, nullptr, nullptr, args.nodes, args.length, args.count}; }
  bool is_ring(int32_t token) const { return std::find(rings.begin(), rings.end(), token) != rings.end(); }
};

// The drafter of one query.
class QueryDrafter {
 public:
  QueryDrafter(Drafter& shared, NodeTree& tree, DraftList& list, std::vector<int32_t> text)
      : limits(shared.limits()), shared_(shared), args_(shared.args), tree_(tree), list_(list), text_(std::move(text)), length_(int(text_.size()) - 1) {
    smiles_start_ = std::min(args_.prompt_length, length_);
    std::vector<std::pair<int, int>> molecules;  // minus the length and the start of each
    for (int position = smiles_start_, from = smiles_start_; position <= length_; position++)
      if (position == length_ || text_[position] == args_.dot) molecules.emplace_back(from - position, from), from = position + 1;
    std::sort(molecules.begin(), molecules.end());
    for (const auto& molecule : molecules) molecule_starts_.push_back(molecule.second);
    tree_[0].pointer = smiles_start_;
    if (args_.table && args_.kind == MIXED) {
      query_ = {text_.data(), shared.rings.data(), int32_t(text_.size()), args_.labels, molecule_starts_[0], smiles_start_};
      tracker_ = std::make_unique<CopyTracker>(query_);
    }
  }

  // Appends the drafts after a node to the list, best first; returns the first and their number.
  std::pair<int, int> propose(int node, int room) {
    int first = int(list_.drafts.size());
    switch (args_.kind) {
      case COPYING:
        rank_positions(node, size_t(args_.count));
        for (const CopyPosition& best : ranked_) add_copy_draft(best, std::min(args_.length, room));
        break;
      case MIXED: add_tree_drafts(node, room, limits); break;
      default: break;
    }
    return {first, int(list_.drafts.size()) - first};
  }

  TreeLimits limits;  // of the trees of `Mixed`

 private:
  // Copy ------------------------------------------------------------------------------------------

  struct CopyPosition {
    int position, match;
  };

  // `Copy.rank_positions`, of which the first `count` are wanted, into `ranked_`.
  void rank_positions(int node, size_t count) {
    ranked_.clear();
    tree_.text(node, written_);
    const int written = int(written_.size());
    if (written == 1) {
      for (const int position : molecule_starts_) ranked_.push_back({position, 0});
    } else {
      const int32_t last = written_.back();
      const bool ring = shared_.is_ring(last);
      for (int end = 1; end <= length_; end++)
        if (text_[end - 1] == last || (ring && shared_.is_ring(text_[end - 1])))
          if (const int match = match_length(end)) ranked_.push_back({end, match});
      const int aligned = pointer(node);
      std::sort(ranked_.begin(), ranked_.end(), [&](const CopyPosition& one, const CopyPosition& other) {
        if (one.match != other.match) return one.match > other.match;
        const int here = std::abs(one.position - aligned), there = std::abs(other.position - aligned);
        return here != there ? here < there : one.position < other.position;
      });
      if (ranked_.empty()) ranked_.push_back({aligned, 0});
    }
    if (ranked_.size() > count) ranked_.resize(count);
  }

  int match_length(int end) {
    const int most = std::min({MAX_MATCH, end, int(written_.size()) - 1});
    renamed_.clear();
    int length = 0;
    for (; length < most; length++) {
      const int32_t theirs = text_[end - 1 - length], ours = written_[written_.size() - 1 - length];
      if (shared_.is_ring(theirs) && shared_.is_ring(ours)) {
        bool fits = true, known = false;
        for (const auto& [their, our] : renamed_) {
          fits = fits && (their == theirs) == (our == ours);
          known = known || their == theirs;
        }
        if (!fits) break;
        if (!known) renamed_.emplace_back(theirs, ours);
      } else if (theirs != ours) {
        break;
      }
    }
    return length;
  }

  // `align_pointer`, remembered at the nodes.
  int pointer(int node) {
    uncached_.clear();
    for (; tree_[node].pointer < 0; node = tree_[node].parent) uncached_.push_back(node);
    int pointer = tree_[node].pointer;
    for (; !uncached_.empty(); uncached_.pop_back()) {
      pointer = advance_pointer(text_.data(), length_, tree_[uncached_.back()].token, pointer);
      tree_[uncached_.back()].pointer = pointer;
    }
    return pointer;
  }

  // A draft of `Copy.propose`; `written_` is the prefix.
  void add_copy_draft(const CopyPosition& best, int length) {
    const int from = best.position, count = std::min(length, length_ + 1 - from);
    if (count <= 0) return;
    drafted_.assign(text_.begin() + from, text_.begin() + from + count);
    if (!shared_.rings.empty()) relabel_rings(from);
    Draft& draft = list_.add(args_.copy_name, drafted_.data(), count);
    draft.spanned = 1, draft.from = from, draft.to = std::min(from + count, length_), draft.match = best.match;
  }

  // `TokenClasses.relabel_rings` of `drafted_`, which is the query's text from a position on.
  void relabel_rings(int from) {
    theirs_.clear(), taken_.clear(), renamed_.clear();
    for (int at = 0; at < from; at++)
      if (shared_.is_ring(text_[at])) toggle_ring(theirs_, text_[at]);
    for (const int32_t token : written_)
      if (shared_.is_ring(token)) toggle_ring(taken_, token);
    for (size_t back = 1; back <= std::min(theirs_.size(), taken_.size()); back++)
      renamed_.emplace_back(theirs_[theirs_.size() - back], taken_[taken_.size() - back]);
    for (int32_t& token : drafted_) {
      if (!shared_.is_ring(token)) continue;
      const auto found = std::find_if(renamed_.begin(), renamed_.end(), [&](const auto& pair) { return pair.first == token; });
      if (found != renamed_.end()) {
        token = found->second;
        renamed_.erase(found);
        taken_.erase(std::find(taken_.begin(), taken_.end(), token));
      } else {
        const int32_t theirs = token;
        for (const int32_t free : shared_.rings)
          if (std::find(taken_.begin(), taken_.end(), free) == taken_.end()) {
            token = free;
            break;
          }
        renamed_.emplace_back(theirs, token);
        taken_.push_back(token);
      }
    }
  }

  // Mixed -----------------------------------------------------------------------------------------

  const CopyState& state_of(int node) {
    uncached_.clear();
    if (states_.empty()) states_.push_back(tracker_->start()), state_at_.push_back(0);
    const auto known = [&](int which) { return which < int(state_at_.size()) ? state_at_[which] : -1; };
    for (; known(node) < 0; node = tree_[node].parent) uncached_.push_back(node);
    int state = state_at_[node];
    for (; !uncached_.empty(); uncached_.pop_back()) {
      const int child = uncached_.back();
      if (child >= int(state_at_.size())) state_at_.resize(child + 1, -1);
      states_.push_back(tracker_->advance(states_[state], tree_[child].token));
      state = state_at_[child] = int(states_.size()) - 1;
    }
    return states_[state];
  }

  // `Mixed.drafts_within`.
  void add_tree_drafts(int node, int room, TreeLimits limits) {
    limits.max_length = std::min(limits.max_length, room);
    const CopyState& first = state_of(node);
    tree_.text(node, written_);
    build_tree(*args_.table, *tracker_, first, limits, written_.data(), int(written_.size()), nodes_);
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
    const int first = nodes_[path_[0]].position, count = int(path_.size());
    bool whole = first >= 0;
    drafted_.clear();
    for (int at = 0; at < count; at++) {
      drafted_.push_back(nodes_[path_[at]].token);
      whole = whole && nodes_[path_[at]].position == first + at;
    }
    Draft& draft = list_.add(args_.name, drafted_.data(), count);
    if (whole) {
      draft.spanned = 1, draft.from = first, draft.to = std::min(first + count, length_);
    } else {
      draft.places_count = count;
      for (const int at : path_) list_.places.push_back(nodes_[at].position);
    }
    draft.chances_count = count;
    for (const int at : path_) list_.chances.push_back(nodes_[at].step_probability);
  }

  Drafter& shared_;
  const DrafterArgs& args_;
  NodeTree& tree_;
  DraftList& list_;
  const std::vector<int32_t> text_;  // the source and eos
  const int length_;  // without eos
  int smiles_start_;
  std::vector<int> molecule_starts_;  // of the molecules, the longest first
  ::EncodedQuery query_{};
  std::unique_ptr<CopyTracker> tracker_;
  std::vector<CopyState> states_;
  std::vector<int> state_at_;  // of a node its state, or -1
  // Kept for their memory.
  std::vector<CopyPosition> ranked_;
  std::vector<int32_t> written_, drafted_, theirs_, taken_;
  std::vector<TreeNode> nodes_;
  std::vector<std::pair<int32_t, int32_t>> renamed_;
  std::vector<int> uncached_, path_;
  std::vector<char> inner_;
  std::vector<std::pair<double, int>> leaves_;
};

}  // namespace
