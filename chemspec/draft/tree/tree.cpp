// `tree.grow`, compiled: the same nodes, the same numbers to the last bit, in a fraction of the time.
//
// What it computes, and why, is told in `tree.py`, `trail.py` and `phrases.py`; names here are those of there. Compiled at
// first use without contraction to fused multiply-adds, which would round otherwise than Python does.

#include <algorithm>
#include <array>
#include <cstdint>
#include <queue>
#include <vector>

namespace {

constexpr int CONTEXT = 12;            // of a trail: longer matches are not told apart
constexpr int WORDS = 8;               // a query may have 64 * WORDS places
constexpr int32_t COPY = -1, PAD = 0;  // PAD: beyond either end of a text
constexpr int64_t BASE = int64_t(1) << 20;
constexpr int STEPS[] = {1, 3, 7, 15, 31};

using Places = std::array<uint64_t, WORDS>;  // a set of places in the query, as bits

struct Trail {
  int place, match, pointer;
  Places levels[CONTEXT];  // of which `match` count
  std::vector<int32_t> rings;
};

}  // namespace

extern "C" {

// Arrays belong to the caller and outlive the call.
struct Step {
  double share;
  int32_t token, kind;  // see `phrases.chance_class`
};

struct Table {  // `phrases.Packed`
  const int64_t* slots;
  const int32_t* starts;
  const Step* steps;
  int32_t bits;
};

struct Query {
  const int32_t* text;   // with eos
  const int32_t* rings;  // ring labels, as `Marks.rings`
  int32_t length, labels, place, pointer;  // of text and rings; where the trail starts
};

struct Limits {
  double least;
  const double* rates;    // of each class of chances, or null
  const double* seconds;  // of a pass with 0, 1, ... more nodes, or null
  int32_t nodes, length, paths, eos;
};

struct Nodes {  // room for `Limits.nodes`
  int32_t *parents, *tokens, *places;
  double *shares, *chances;
};
}

namespace {

// One query, read along a prefix.
class Reader {
 public:
  Reader(const Query& query) : query_(query) {
    ring_.resize(query.length);
    for (int i = 0; i < query.length; i++) ring_[i] = is_ring(query.text[i]);
  }
  Trail start() const {
    Trail trail;
    trail.place = query_.place, trail.match = 0, trail.pointer = query_.pointer;
    return trail;
  }
  bool is_ring(int32_t token) const { return std::find(query_.rings, query_.rings + query_.labels, token) != query_.rings + query_.labels; }

  Trail step(const Trail& from, int32_t token) const {
    Trail to;
    const bool ring = is_ring(token);
    int pointer = from.pointer;
    if (query_.text[pointer] == token && pointer + 1 < query_.length) {
      pointer++;
    } else {
      for (int ahead = pointer + 1; ahead < std::min(pointer + 4, query_.length - 1); ahead++)
        if (query_.text[ahead] == token) {
          pointer = ahead + 1;
          break;
        }
    }
    to.pointer = pointer;
    Places level = {};
    bool any = false;
    for (int i = 0; i + 1 < query_.length; i++)
      if (ring ? bool(ring_[i]) : query_.text[i] == token) level[(i + 1) / 64] |= uint64_t(1) << ((i + 1) % 64), any = true;
    to.match = 0;
    if (any) {
      to.levels[to.match++] = level;
      for (int shorter = 0; shorter < std::min(from.match, CONTEXT - 1); shorter++) {
        Places& longer = to.levels[to.match];
        uint64_t carried = 0, all = 0;
        for (int w = 0; w < WORDS; w++) {
          const uint64_t word = from.levels[shorter][w];
          longer[w] = ((word << 1) | carried) & level[w];
          carried = word >> 63;
          all |= longer[w];
        }
        if (!all) break;
        to.match++;
      }
    }
    to.place = to.match ? nearest(to.levels[to.match - 1], pointer) : pointer;
    to.rings = from.rings;
    if (ring) turn(to.rings, token);
    return to;
  }

  int32_t copied(const Trail& trail) const {
    const int32_t token = query_.text[trail.place];
    if (!ring_[trail.place]) return token;
    std::vector<int32_t> theirs;
    for (int i = 0; i < trail.place; i++)
      if (ring_[i]) turn(theirs, query_.text[i]);
    const auto& ours = trail.rings;
    for (size_t back = 1; back <= std::min(theirs.size(), ours.size()); back++)
      if (theirs[theirs.size() - back] == token) return ours[ours.size() - back];
    for (int i = 0; i < query_.labels; i++)
      if (std::find(ours.begin(), ours.end(), query_.rings[i]) == ours.end()) return query_.rings[i];
    return token;
  }

  int32_t ahead(const Trail& trail, int by) const { return trail.place + by < query_.length ? query_.text[trail.place + by] : PAD; }

 private:
  static void turn(std::vector<int32_t>& open, int32_t label) {
    const auto found = std::find(open.begin(), open.end(), label);
    if (found == open.end()) open.push_back(label);
    else open.erase(found);
  }
  static bool has(const Places& places, int place) { return places[place / 64] >> (place % 64) & 1; }
  // Of a set that is not empty, the place nearest to the pointer; of two, the one before it.
  static int nearest(const Places& places, int pointer) {
    for (int off = 0;; off++) {
      if (pointer >= off && has(places, pointer - off)) return pointer - off;
      if (pointer + off < 64 * WORDS && has(places, pointer + off)) return pointer + off;
    }
  }

  const Query& query_;
  std::vector<char> ring_;
};

// The node of a table to which a context leads. `last(i)`: the token written i-th from the end, or PAD.
template <class Last>
int32_t node_of(const Table& table, const Reader& reader, const Trail& trail, const Last& last) {
  const int match = trail.match, kind = match < 3 ? match : match < 6 ? 3 : 4;
  const int32_t context[] = {last(1), kind, last(2), reader.ahead(trail, 0), last(3), reader.ahead(trail, 1),
                             last(4), reader.ahead(trail, 2), last(5), last(6), last(7)};
  const int64_t size = int64_t(1) << table.bits;
  int32_t node = 0;
  for (const int32_t entry : context) {
    const int64_t key = node * BASE + entry;
    int64_t slot = int64_t(uint64_t(key) * 0x9E3779B97F4A7C15 >> (64 - table.bits));
    while (table.slots[2 * slot] >= 0 && table.slots[2 * slot] != key) slot = (slot + 1) % size;
    if (table.slots[2 * slot] < 0) break;
    node = int32_t(table.slots[2 * slot + 1]);
  }
  return node;
}

struct Guess {  // a token that may become a node
  double chance, share;
  int made, parent;
  int32_t token, place;
  bool operator<(const Guess& other) const { return chance != other.chance ? chance < other.chance : made > other.made; }
};

// `tree.Worth`.
struct Worth {
  const double* seconds;
  int best = 0;
  double rate, tokens = 1.0;

  explicit Worth(const double* all) : seconds(all), rate(all ? 1 / all[0] : 0) {}
  bool more(int nodes, double chance) {
    tokens += chance;
    const double now = tokens / seconds[nodes + 1];
    if (now > rate) {
      best = nodes + 1, rate = now;
      return true;
    }
    for (const int step : STEPS)
      if (tokens + step * chance > rate * seconds[nodes + 1 + step]) return true;
    return false;
  }
};

}  // namespace

// The likeliest nodes after a prefix; returns how many, or -1 if there is not enough memory.
extern "C" int chemspec_grow(const Table* table, const Query* query, const Limits* limits, const int32_t* prefix, int written, const Nodes* into) {
  try {
    const Reader reader(*query);
    std::vector<Trail> trails;  // of each node
    std::vector<int> depths;
    std::vector<char> leaf;
    std::vector<int32_t> met;
    std::priority_queue<Guess> guesses;
    int made = 0, paths = 0, grown = 0;
    Trail first = reader.start();
    for (int i = 1; i < written; i++) first = reader.step(first, prefix[i]);
    // The token written i-th from the end, at a node.
    const auto widen = [&](int parent, const Trail& trail) {
      const auto last = [&](int i) -> int32_t {
        int node = parent;
        for (; i > 1 && node >= 0; i--) node = into->parents[node];
        if (node >= 0) return into->tokens[node];
        return i <= written ? prefix[written - i] : PAD;
      };
      const double chance = parent < 0 ? 1.0 : into->chances[parent];
      const int32_t node = node_of(*table, reader, trail, last);
      met.clear();
      for (int at = table->starts[node]; at < table->starts[node + 1]; at++) {
        const Step& step = table->steps[at];
        const double likely = chance * (limits->rates ? limits->rates[step.kind] : step.share);
        if (likely < limits->least) continue;
        const bool copies = step.token == COPY;
        const int32_t token = copies ? reader.copied(trail) : step.token;
        if (std::find(met.begin(), met.end(), token) != met.end()) continue;
        met.push_back(token);
        guesses.push({likely, step.share, ++made, parent, token, copies ? trail.place : -1});
      }
    };
    Worth worth(limits->seconds);
    widen(-1, first);
    while (!guesses.empty() && grown < limits->nodes) {
      const Guess guess = guesses.top();
      guesses.pop();
      const bool branches = guess.parent < 0 || !leaf[guess.parent];
      if (branches && paths == limits->paths) continue;
      if (limits->seconds && !worth.more(grown, guess.chance)) break;
      paths += branches;
      if (guess.parent >= 0) leaf[guess.parent] = false;
      into->parents[grown] = guess.parent, into->tokens[grown] = guess.token, into->places[grown] = guess.place;
      into->shares[grown] = guess.share, into->chances[grown] = guess.chance;
      depths.push_back(guess.parent < 0 ? 1 : depths[guess.parent] + 1);
      leaf.push_back(true);
      trails.push_back(reader.step(guess.parent < 0 ? first : trails[guess.parent], guess.token));
      if (guess.token != limits->eos && depths.back() < limits->length) widen(grown, trails.back());
      grown++;
    }
    return limits->seconds ? worth.best : grown;
  } catch (...) {
    return -1;
  }
}
