// `builder.build_tree`, compiled: the same nodes, the same numbers to the last bit, in a fraction of the time.
//
// What it computes, and why, stands in `builder.py`, `copy_state.py` and `edit_ngrams.py`, with the same names. The constants
// in capitals come from there too, see `build.py`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <queue>
#include <utility>
#include <vector>

extern "C" {

// Arrays belong to the caller and outlive the call.
struct EditNgramTable {
  const int32_t *children, *entries, *starts, *tokens;
  const uint16_t* thousandths;
};

struct EncodedQuery {  // the arguments of `CopyTracker`
  const int32_t* text;   // with eos
  const int32_t* rings;  // ring labels, as `TokenClasses.rings`
  int32_t length, labels, position, pointer;  // of text and rings; those of the initial copy state
};

struct TreeLimits {
  double min_probability;
  const double* accept_rates;  // of each class of probabilities, or null
  const double* pass_seconds;  // of a pass with 0, 1, ... more nodes, or null
  int32_t max_nodes, max_length, max_paths;
};

struct TreeNode {  // `builder.TreeNode`
  int32_t parent, token, position;
  double step_probability, path_probability;
};
}

namespace {

constexpr int PROBE_SIZES[] = {1, 3, 7, 15, 31};  // `ThroughputStop` probes this many nodes past the first unprofitable one

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

// `copy.advance_pointer`; length: of the query, without eos.
inline int advance_pointer(const int32_t* text, int length, int32_t token, int pointer) {
  if (pointer < length && text[pointer] == token) return pointer + 1;
  for (int ahead = pointer + 1; ahead < std::min(pointer + 1 + MAX_SKIP, length); ahead++)
    if (text[ahead] == token) return ahead + 1;
  return pointer;
}

// One query, whose copy states are worked out along a prefix.
class CopyTracker {
 public:
  CopyTracker(const EncodedQuery& query) : query_(query), words_((query.length + 63) / 64) {
    ring_.resize(query.length);
    for (int i = 0; i < query.length; i++) {
      ring_[i] = is_ring(query.text[i]);
      if (i + 1 == query.length) break;
      std::vector<uint64_t>& positions = after_[ring_[i] ? ANY_RING : query.text[i]];
      positions.resize(words_);
      positions[(i + 1) / 64] |= uint64_t(1) << ((i + 1) % 64);
    }
  }
  CopyState start() const {
    CopyState state;
    state.position = query_.position, state.match = 0, state.pointer = query_.pointer;
    return state;
  }
  bool is_ring(int32_t token) const { return std::find(query_.rings, query_.rings + query_.labels, token) != query_.rings + query_.labels; }

  CopyState advance(const CopyState& from, int32_t token) const {
    CopyState to;
    const bool ring = is_ring(token);
    const int pointer = to.pointer = advance_pointer(query_.text, query_.length - 1, token, from.pointer);
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
    const int32_t token = query_.text[state.position];
    if (!ring_[state.position]) return token;
    std::vector<int32_t> query_rings;
    for (int i = 0; i < state.position; i++)
      if (ring_[i]) toggle_ring(query_rings, query_.text[i]);
    const auto& output_rings = state.open_rings;
    for (size_t back = 1; back <= std::min(query_rings.size(), output_rings.size()); back++)
      if (query_rings[query_rings.size() - back] == token) return output_rings[output_rings.size() - back];
    for (int i = 0; i < query_.labels; i++)
      if (std::find(output_rings.begin(), output_rings.end(), query_.rings[i]) == output_rings.end()) return query_.rings[i];
    return token;
  }

  int32_t ahead(const CopyState& state, int by) const { return state.position + by < query_.length ? query_.text[state.position + by] : PAD; }

 private:
  static bool has(const uint64_t* positions, int position) { return positions[position / 64] >> (position % 64) & 1; }
  // The position nearest to the pointer, of two the one before it; the set must not be empty.
  int nearest(const uint64_t* positions, int pointer) const {
    for (int off = 0;; off++) {
      if (pointer >= off && has(positions, pointer - off)) return pointer - off;
      if (pointer + off < 64 * words_ && has(positions, pointer + off)) return pointer + off;
    }
  }

  static constexpr int32_t ANY_RING = -1;  // all ring labels count as one token
  const EncodedQuery& query_;
  const int words_;  // of 64 bits that hold a set of positions
  std::vector<char> ring_;
  std::map<int32_t, std::vector<uint64_t>> after_;  // positions just after each token of the query
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

// Finds the number of nodes, `best`, that maximises tokens per second; nodes are added by falling probability.
struct ThroughputStop {
  const double* seconds;
  int best = 0;
  double rate, tokens = 1.0;

  explicit ThroughputStop(const double* all) : seconds(all), rate(all ? 1 / all[0] : 0) {}
  bool should_continue(int nodes, double probability) {
    tokens += probability;
    const double now = tokens / seconds[nodes + 1];
    if (now > rate) {
      best = nodes + 1, rate = now;
      return true;
    }
    for (const int ahead : PROBE_SIZES)  // no later node is more probable than this one, so these rates are upper bounds
      if (tokens + ahead * probability > rate * seconds[nodes + 1 + ahead]) return true;
    return false;
  }
};

// Build the tree of the likeliest nodes after a prefix, whose copy state is `first`.
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
  ThroughputStop stop(limits.pass_seconds);
  push_children(-1, first);
  while (!heap.empty() && int(tree.size()) < limits.max_nodes) {
    const Candidate next = heap.top();
    heap.pop();
    const bool new_path = next.parent < 0 || !leaf[next.parent];
    if (new_path && paths == limits.max_paths) continue;
    if (limits.pass_seconds && !stop.should_continue(int(tree.size()), next.path_probability)) break;
    paths += new_path;
    if (next.parent >= 0) leaf[next.parent] = false;
    tree.push_back({next.parent, next.token, next.position, next.step_probability, next.path_probability});
    depths.push_back(next.parent < 0 ? 1 : depths[next.parent] + 1);
    leaf.push_back(true);
    states.push_back(tracker.advance(next.parent < 0 ? first : states[next.parent], next.token));
    if (next.token != EOS && depths.back() < limits.max_length) push_children(int(tree.size()) - 1, states.back());
  }
  if (limits.pass_seconds) tree.resize(stop.best);
}

}  // namespace
