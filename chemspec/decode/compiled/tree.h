// `CopyTracker` and the tree of `Mixed`: the same nodes, the same numbers to the last bit, in a fraction of the time.
//
// What it computes, and why, stands in `copy.py`, `mixed.py` and `edit_ngrams.py`, with the same names. The constants in capitals come
// from there too, see `build.py`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "merging.h"
#include "node_choice.h"

// Arrays belong to the caller and outlive the call.
struct EditNgramTable {
  const int32_t *children, *entries, *starts, *tokens;
  const uint16_t* thousandths;
};

struct TreeLimits {
  double min_probability;
  const double* accept_rates;  // of each class of probabilities, or null
  const AddedCost* cost;       // of nodes, or null
  double value;                // of a requested node, in seconds
  int32_t max_nodes, max_length, max_paths;
};

struct TreeNode {  // `mixed.TreeNode`
  int32_t parent, token, position;
  double step_probability, path_probability;
};

namespace {

struct CopyState {
  int position, match, pointer;
  std::vector<uint64_t> levels;  // `match` sets of positions in the query, as bits
  std::vector<int32_t> open_rings;
};

// `TokenClasses.toggle_ring`, of a ring label.
inline void toggle_ring(std::vector<int32_t>& open, int32_t label) {
  const auto at = std::find(open.begin(), open.end(), label);
  if (at == open.end()) open.push_back(label);
  else open.erase(at);
}

// One query, whose copy states are worked out along a prefix.
class CopyTracker {
 public:
  // text: in tokens, with eos; rings: as `TokenClasses.rings`.
  CopyTracker(const std::vector<int32_t>& text, const std::vector<int32_t>& rings, const Merging& merging, int32_t dot, int prompt_length)
      : merging_(merging), text_(symbols(text, merging)), rings_(rings), length_(int(text_.size()) - 1), words_(int(text_.size() + 63) / 64),
        pointer_(int(symbols({text.begin(), text.begin() + std::min(prompt_length, int(text.size()) - 1)}, merging).size())) {
    std::vector<std::pair<int, int>> molecules;  // minus the length and the start of each
    for (int position = pointer_, from = pointer_; position <= length_; position++)
      if (position == length_ || text_[position] == dot) molecules.emplace_back(from - position, from), from = position + 1;
    std::sort(molecules.begin(), molecules.end());
    for (const auto& molecule : molecules) starts_.emplace_back(molecule.second, 0);
    for (const int32_t token : text_) ring_.push_back(is_ring(token));
    for (int i = 0; i < length_; i++) {
      std::vector<uint64_t>& positions = after_[ring_[i] ? ANY_RING : text_[i]];
      positions.resize(words_);
      positions[(i + 1) / 64] |= uint64_t(1) << ((i + 1) % 64);
    }
  }
  CopyState start() const { return {starts_[0].first, 0, pointer_, {}, {}}; }

  CopyState advance(const CopyState& from, int32_t token) const {
    if (merging_.is_empty()) return advance_by_symbol(from, token);
    CopyState to = from;
    for (const int32_t symbol : symbols({token}, merging_)) to = advance_by_symbol(to, symbol);
    return to;
  }

  CopyState advance_by_symbol(const CopyState& from, int32_t token) const {
    CopyState to;
    const bool ring = is_ring(token);
    const int pointer = to.pointer = advance_pointer(token, from.pointer);
    to.match = 0;
    const auto found = after_.find(ring ? ANY_RING : token);
    if (found != after_.end()) {
      const std::vector<uint64_t>& level = found->second;
      const int most = std::min(from.match + 1, MAX_MATCH);
      to.levels.resize(size_t(most) * words_);
      std::copy(level.begin(), level.end(), to.levels.begin());
      for (to.match = 1; to.match < most; to.match++) {
        const uint64_t* shorter = &from.levels[size_t(to.match - 1) * words_];
        uint64_t *longer = &to.levels[size_t(to.match) * words_], carried = 0, all = 0;
        for (int w = 0; w < words_; w++) {
          longer[w] = ((shorter[w] << 1) | carried) & level[w];
          carried = shorter[w] >> 63;
          all |= longer[w];
        }
        if (!all) break;
      }
      to.levels.resize(size_t(to.match) * words_);
    }
    to.position = to.match ? nearest(&to.levels[size_t(to.match - 1) * words_], pointer) : pointer;
    to.open_rings = from.open_rings;
    if (ring) toggle_ring(to.open_rings, token);
    return to;
  }

  int32_t copied_token(const CopyState& state) const {
    if (!merging_.is_empty()) return cut(state, state.position)[0];
    return ring_[state.position] ? copied_symbols(state, state.position, 1)[0] : text_[state.position];
  }

  // `CopyTracker.copied_tokens`.
  std::vector<int32_t> copied_tokens(const CopyState& state, int position, int length) const {
    if (merging_.is_empty()) return copied_symbols(state, position, length);
    const std::vector<int32_t>& tokens = cut(state, position);
    return {tokens.begin(), tokens.begin() + std::min(length, int(tokens.size()))};
  }

  // The tokens of the text from a position on.
  const std::vector<int32_t>& cut(const CopyState& state, int position) const {
    std::vector<int32_t> key = state.open_rings;
    key.push_back(position);
    if (cuts_.size() >= ROOM) cuts_.clear();
    const auto [entry, is_new] = cuts_.try_emplace(std::move(key));
    if (is_new) entry->second = merging_.join(copied_symbols(state, position, length_ + 1));
    return entry->second;
  }

  // `CopyTracker._copied_symbols`, with `TokenClasses.relabel_rings`.
  std::vector<int32_t> copied_symbols(const CopyState& state, int position, int length) const {
    std::vector<int32_t> query_rings, taken = state.open_rings;
    for (int i = 0; i < position; i++)
      if (ring_[i]) toggle_ring(query_rings, text_[i]);
    std::vector<std::pair<int32_t, int32_t>> renamed;
    for (size_t back = 1; back <= std::min(query_rings.size(), taken.size()); back++)
      renamed.emplace_back(query_rings[query_rings.size() - back], taken[taken.size() - back]);
    std::vector<int32_t> tokens(text_.begin() + position, text_.begin() + std::min(position + length, length_ + 1));
    for (int32_t& token : tokens) {
      if (!is_ring(token)) continue;
      const auto found = std::find_if(renamed.begin(), renamed.end(), [&](const auto& pair) { return pair.first == token; });
      if (found != renamed.end()) {
        token = found->second;
        renamed.erase(found);
        taken.erase(std::find(taken.begin(), taken.end(), token));
      } else {
        const int32_t label = token;
        const auto free = std::find_if(rings_.begin(), rings_.end(), [&](int32_t ring) { return std::find(taken.begin(), taken.end(), ring) == taken.end(); });
        if (free != rings_.end()) token = *free;
        renamed.emplace_back(label, token);
        taken.push_back(token);
      }
    }
    return tokens;
  }

  // Positions from which to copy and their match lengths, best first: at least the first `count` of them.
  std::vector<std::pair<int, int>> rank_positions(const CopyState& state, bool is_start, size_t count) const {
    if (is_start) return starts_;
    if (!state.match) return {{state.pointer, 0}};
    std::vector<std::pair<int, int>> ranked;
    for (int match = state.match; match > 0 && ranked.size() < count; match--) {
      const uint64_t *level = &state.levels[size_t(match - 1) * words_], *longer = match < state.match ? level + words_ : nullptr;
      const size_t first = ranked.size();
      for (int end = 1; end <= length_; end++)
        if (has(level, end) && !(longer && has(longer, end))) ranked.emplace_back(end, match);
      std::stable_sort(ranked.begin() + first, ranked.end(), [&](const auto& one, const auto& other) {
        return std::abs(one.first - state.pointer) < std::abs(other.first - state.pointer);
      });
    }
    return ranked;
  }

  int query_length() const { return length_; }  // without eos
  // `CopyTracker.tokens_ahead`.
  int32_t ahead(const CopyState& state, int by) const {
    if (merging_.is_empty()) return state.position + by <= length_ ? text_[state.position + by] : PAD;
    const std::vector<int32_t>& tokens = cut(state, state.position);
    return by < int(tokens.size()) ? tokens[by] : PAD;
  }
  int symbol_count(int32_t token) const { return merging_.symbol_count(token); }

 private:
  static std::vector<int32_t> symbols(const std::vector<int32_t>& tokens, const Merging& merging) {
    std::vector<int32_t> text;
    for (const int32_t token : tokens) merging.split(token, text);
    return text;
  }
  static bool has(const uint64_t* positions, int position) { return positions[position / 64] >> (position % 64) & 1; }
  // The position nearest to the pointer, of two the one before it; the set must not be empty.
  int nearest(const uint64_t* positions, int pointer) const {
    for (int off = 0;; off++) {
      if (pointer >= off && has(positions, pointer - off)) return pointer - off;
      if (pointer + off < 64 * words_ && has(positions, pointer + off)) return pointer + off;
    }
  }

  int advance_pointer(int32_t token, int pointer) const {
    if (pointer < length_ && text_[pointer] == token) return pointer + 1;
    for (int ahead = pointer + 1; ahead < std::min(pointer + 1 + MAX_SKIP, length_); ahead++)
      if (text_[ahead] == token) return ahead + 1;
    return pointer;
  }
  bool is_ring(int32_t token) const { return std::find(rings_.begin(), rings_.end(), token) != rings_.end(); }

  static constexpr int32_t ANY_RING = -1;  // all ring labels count as one token
  static constexpr size_t ROOM = 4096;     // size of the cache
  const Merging& merging_;
  const std::vector<int32_t> text_;  // in symbols
  const std::vector<int32_t>& rings_;
  const int length_;  // of the query, without eos
  const int words_;  // of 64 bits that hold a set of positions
  const int pointer_;  // where the SMILES starts
  std::vector<std::pair<int, int>> starts_;  // of the molecules, the longest first, each with a match of 0
  std::vector<char> ring_;
  std::map<int32_t, std::vector<uint64_t>> after_;  // positions just after each symbol of the query
  mutable std::map<std::vector<int32_t>, std::vector<int32_t>> cuts_;  // by open ring labels and position
};

// The node of a table to which a context leads. `last(i)`: the token written i-th from the end, or PAD.
template <class Last>
int32_t context_node(const EditNgramTable& table, const CopyTracker& tracker, const CopyState& state, const Last& last) {
  const int match = state.match, kind = match < 3 ? match : match < 6 ? 3 : 4;
  const int32_t context[] = {last(1), kind, last(2), tracker.ahead(state, 0), last(3), tracker.ahead(state, 1),
                             last(4), tracker.ahead(state, 2), last(5), last(6), last(7)};
  int32_t node = 0;
  for (const int32_t entry : context) {
    const int32_t *const first = table.entries + table.children[node], *const end = table.entries + table.children[node + 1];
    const int32_t* const child = std::lower_bound(first, end, entry);
    if (child == end || *child != entry) break;
    node = int32_t(child - table.entries);
  }
  return node;
}

// `edit_ngrams.probability_class`.
inline int probability_class(double probability) {
  static constexpr double edges[] = {EDGES};
  return int(std::upper_bound(std::begin(edges), std::end(edges), probability) - std::begin(edges));
}

struct Candidate {  // a token that may become a node
  double path_probability, step_probability;
  int serial, parent;
  int32_t token, position;
  bool operator<(const Candidate& other) const {
    return path_probability != other.path_probability ? path_probability < other.path_probability : serial > other.serial;
  }
};

// Build the tree of the likeliest nodes after a prefix, whose copy state is `first`; of those that do not pay off, if their cost is given, the first is kept.
void build_tree(const EditNgramTable& table, const CopyTracker& tracker, const CopyState& first, const TreeLimits& limits, const int32_t* prefix,
          int written, std::vector<TreeNode>& tree) {
  std::vector<CopyState> states;  // of each node
  std::vector<int> depths;
  std::vector<char> leaf;
  std::vector<int32_t> pushed;
  std::priority_queue<Candidate> heap;
  int serial = 0, paths = 0;
  tree.clear();
  // Put the next tokens after a node on the heap.
  const auto push_children = [&](int parent, const CopyState& state) {
    // The token written i-th from the end, at the node.
    const auto last = [&](int i) -> int32_t {
      int node = parent;
      for (; i > 1 && node >= 0; i--) node = tree[node].parent;
      if (node >= 0) return tree[node].token;
      return i <= written ? prefix[written - i] : PAD;
    };
    const double path_probability = parent < 0 ? 1.0 : tree[parent].path_probability;
    const int32_t context = context_node(table, tracker, state, last);
    pushed.clear();
    for (int at = table.starts[context]; at < table.starts[context + 1]; at++) {
      const double step_probability = table.thousandths[at] / 1000.0;
      const double probability = path_probability * (limits.accept_rates ? limits.accept_rates[probability_class(step_probability)] : step_probability);
      if (probability < limits.min_probability) continue;
      const bool copies = table.tokens[at] == COPY;
      const int32_t token = copies ? tracker.copied_token(state) : table.tokens[at];
      if (std::find(pushed.begin(), pushed.end(), token) != pushed.end()) continue;
      pushed.push_back(token);
      heap.push({probability, step_probability, ++serial, parent, token, copies ? state.position : -1});
    }
  };
  static const AddedCost unused({0.0}, 0.0);
  NodeChoice choice(limits.cost ? *limits.cost : unused, limits.value);
  push_children(-1, first);
  while (!heap.empty() && int(tree.size()) < limits.max_nodes) {
    const Candidate next = heap.top();
    heap.pop();
    const bool new_path = next.parent < 0 || !leaf[next.parent];
    if (new_path && paths == limits.max_paths) continue;
    if (limits.cost && !tree.empty() && !choice.may_gain(next.path_probability)) break;
    if (limits.cost) choice.add(next.path_probability);
    paths += new_path;
    if (next.parent >= 0) leaf[next.parent] = false;
    tree.push_back({next.parent, next.token, next.position, next.step_probability, next.path_probability});
    depths.push_back(next.parent < 0 ? 1 : depths[next.parent] + 1);
    leaf.push_back(true);
    states.push_back(tracker.advance(next.parent < 0 ? first : states[next.parent], next.token));
    if (next.token != EOS && depths.back() < limits.max_length) push_children(int(tree.size()) - 1, states.back());
  }
  if (limits.cost) tree.resize(std::min(tree.size(), size_t(std::max(choice.best, 1))));
}

}  // namespace
