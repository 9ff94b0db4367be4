// `atom_maps.py` in C++, with the same maps: costs are whole numbers, labels integers of 64 bits, and every order is that of Python.
// Functions have the names of those in Python.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <queue>
#include <tuple>
#include <vector>

#ifdef _WIN32
#define NOMINMAX
#include <windows.h>
#undef near  // macros there
#undef far
#else
#include <time.h>
#endif

// One side of a reaction, as `compiled_maps.py` writes it. The steps (from an atom to a neighbour) of an atom stand together.
struct GraphArrays {
  int32_t atoms, steps;
  const int32_t* kinds;  // of each atom: atomic number, aromatic, in a ring, charge, hydrogens
  const int32_t* molecules;
  const int32_t* ranks;
  const int32_t* first;  // of each atom its first step, and at the end the number of steps
  const int32_t* near;  // of each step: the neighbour,
  const int32_t* orders;  // twice the order of the bond
};

struct Costs {
  int32_t made, reordered, charged, proton, unknown, molecule;
};

namespace {

constexpr int RADIUS = 8, ROUNDS = 10, KIND = 5;
constexpr uint64_t HERE = 0x9E3779B97F4A7C15, MIX = 0xD6E8FEB86659FD93;
enum Stop { NOT_MAPPED = 0, OUT_OF_TIME = 1, FINISHED = 2 };

double thread_seconds() {
#ifdef _WIN32
  FILETIME created, ended, kernel, user;
  GetThreadTimes(GetCurrentThread(), &created, &ended, &kernel, &user);
  const auto ticks = [](const FILETIME& t) { return (double(t.dwHighDateTime) * 4294967296.0 + double(t.dwLowDateTime)) * 1e-7; };
  return ticks(kernel) + ticks(user);
#else
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
#endif
}

uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 32)) * MIX;
  return value ^ (value >> 29);
}

struct Graph : GraphArrays {
  // Labels of the surroundings by kind (elements alone; more as well), then atom or step, then radius.
  std::vector<uint64_t> atom_labels[2], step_labels[2];

  explicit Graph(const GraphArrays& arrays, bool labelled) : GraphArrays(arrays) {
    for (int kind = 0; labelled && kind < 2; ++kind) make_labels(kind);
  }

  int element(int atom) const { return kinds[KIND * atom]; }

  int step_to(int atom, int other) const {
    for (int step = first[atom]; step < first[atom + 1]; ++step)
      if (near[step] == other) return step;
    return -1;
  }

  void make_labels(int kind) {
    const auto label = [&](int atom) {
      const int32_t* of = kinds + KIND * atom;
      return uint64_t(kind ? 4 * of[0] + 2 * of[1] + of[2] : of[0]);
    };
    std::vector<uint64_t> here(atoms), beyond(steps), around(atoms);
    std::vector<int> back(steps);  // of each step that in the other direction
    for (int atom = 0; atom < atoms; ++atom)
      for (int step = first[atom]; step < first[atom + 1]; ++step) back[step] = step_to(near[step], atom);
    for (int atom = 0; atom < atoms; ++atom) here[atom] = label(atom) + HERE;
    for (int step = 0; step < steps; ++step)
      beyond[step] = label(near[step]) + (kind ? uint64_t(2 * orders[step]) << 16 : 0) + HERE;
    auto& of_atoms = atom_labels[kind];
    auto& of_steps = step_labels[kind];
    of_atoms.resize(size_t(atoms) * (RADIUS + 1));
    of_steps.resize(size_t(steps) * (RADIUS + 1));
    for (int radius = 0; radius <= RADIUS; ++radius) {
      if (radius) {
        for (int atom = 0; atom < atoms; ++atom) {
          around[atom] = 0;
          for (int step = first[atom]; step < first[atom + 1]; ++step) around[atom] += beyond[step];
        }
        std::vector<uint64_t> before = beyond;
        for (int step = 0; step < steps; ++step) beyond[step] = mix(before[step] * HERE + around[near[step]] - before[back[step]]);
        for (int atom = 0; atom < atoms; ++atom) here[atom] = mix(here[atom] * HERE + around[atom]);
      } else {
        for (auto& value : here) value = mix(value);
        for (auto& value : beyond) value = mix(value);
      }
      for (int atom = 0; atom < atoms; ++atom) of_atoms[size_t(atom) * (RADIUS + 1) + radius] = here[atom];
      for (int step = 0; step < steps; ++step) of_steps[size_t(step) * (RADIUS + 1) + radius] = beyond[step];
    }
  }
};

int common_radius(const std::vector<uint64_t>& ours, int at, const std::vector<uint64_t>& theirs, int other) {
  const uint64_t *a = &ours[size_t(at) * (RADIUS + 1)], *b = &theirs[size_t(other) * (RADIUS + 1)];
  int radius = 0;
  while (radius <= RADIUS && a[radius] == b[radius]) ++radius;
  return radius;
}

struct AtomMap {
  const Graph &left, &right;
  const int32_t* break_costs;  // of each step on the left
  const Costs costs;
  const double until;  // of the thread's processor time, or negative: no limit
  std::vector<int> origin, target, given;

  AtomMap(const Graph& left, const Graph& right, const int32_t* break_costs, const Costs& costs, double until)
      : left(left), right(right), break_costs(break_costs), costs(costs), until(until), origin(right.atoms, -1), target(left.atoms, -1) {
    int molecules = 0;
    for (int atom = 0; atom < left.atoms; ++atom) molecules = std::max(molecules, left.molecules[atom] + 1);
    given.assign(molecules, 0);
  }

  bool late() const { return until >= 0 && thread_seconds() > until; }

  void pair(int atom, int from) {
    const int before = origin[atom], rival = target[from];
    origin[atom] = from;
    target[from] = atom;
    if (rival >= 0) origin[rival] = before;
    else ++given[left.molecules[from]];
    if (before >= 0) {
      target[before] = rival;
      given[left.molecules[before]] -= rival < 0;
    }
  }

  void restore(int atom, int before) {
    if (before >= 0) return pair(atom, before);
    const int from = origin[atom];
    origin[atom] = target[from] = -1;
    --given[left.molecules[from]];
  }

  bool changes(int atom) const {
    const int from = origin[atom];
    if (from < 0) return true;
    const int32_t *after = right.kinds + KIND * atom, *was = left.kinds + KIND * from;
    if (after[3] != was[3] || after[4] != was[4]) return true;
    if (right.first[atom + 1] - right.first[atom] != left.first[from + 1] - left.first[from]) return true;
    for (int step = right.first[atom]; step < right.first[atom + 1]; ++step) {
      const int near = origin[right.near[step]], old = near < 0 ? -1 : left.step_to(from, near);
      if (old < 0 || left.orders[old] != right.orders[step]) return true;
    }
    return false;
  }

  std::vector<int> changing() const {
    std::vector<int> atoms;
    for (int atom = 0; atom < right.atoms; ++atom)
      if (changes(atom)) atoms.push_back(atom);
    return atoms;
  }

  static bool holds(const std::vector<int>& few, int value) { return std::find(few.begin(), few.end(), value) != few.end(); }

  int cost_at(const std::vector<int>& atoms, const std::vector<int>& origins) const {
    int total = 0;
    for (int atom : atoms) {
      const int from = origin[atom];
      if (from < 0) total += costs.unknown;
      else {
        const int32_t *after = right.kinds + KIND * atom, *was = left.kinds + KIND * from;
        total += costs.charged * std::abs(after[3] - was[3]) + costs.proton * std::abs(after[4] - was[4]);
      }
      for (int step = right.first[atom]; step < right.first[atom + 1]; ++step) {
        const int near = right.near[step];
        if (near < atom && holds(atoms, near)) continue;  // counted from there
        if (from < 0) {
          total += costs.made;
          continue;
        }
        const int far = origin[near], old = far < 0 ? -1 : left.step_to(from, far);
        const int before = old < 0 ? 0 : left.orders[old], order = right.orders[step];
        if (order != before) total += before ? costs.reordered * std::abs(order - before) : costs.made;
      }
    }
    std::vector<int> counted;
    for (int from : origins) {
      const int atom = target[from], molecule = left.molecules[from];
      for (int step = left.first[from]; step < left.first[from + 1]; ++step) {
        const int far = left.near[step], near = target[far];
        if ((atom < 0 && near < 0) || (far < from && holds(origins, far))) continue;
        if (atom < 0 || near < 0 || right.step_to(atom, near) < 0) total += break_costs[step];
      }
      if (given[molecule] > 0 && !holds(counted, molecule)) {
        counted.push_back(molecule);
        total += costs.molecule;
      }
    }
    return total;
  }
};

// How far around two atoms, or beyond two steps, both sides agree: the sum of the radii by both kinds of labels.
struct Similarity {
  const Graph &left, &right;
  std::vector<int> around, surplus;

  Similarity(const Graph& left, const Graph& right, int molecules) : left(left), right(right), surplus(molecules, 0) {
    around.resize(size_t(right.atoms) * left.atoms);
    for (int atom = 0; atom < right.atoms; ++atom)
      for (int from = 0; from < left.atoms; ++from)
        for (int kind = 0; kind < 2; ++kind)
          around[size_t(atom) * left.atoms + from] += common_radius(right.atom_labels[kind], atom, left.atom_labels[kind], from);
    std::vector<uint64_t> required;
    for (int atom = 0; atom < right.atoms; ++atom) required.push_back(right.atom_labels[0][size_t(atom) * (RADIUS + 1) + 1]);
    std::vector<std::pair<int, uint64_t>> offered;
    for (int atom = 0; atom < left.atoms; ++atom) offered.emplace_back(left.molecules[atom], left.atom_labels[0][size_t(atom) * (RADIUS + 1) + 1]);
    std::sort(offered.begin(), offered.end());
    std::sort(required.begin(), required.end());
    for (size_t at = 0; at < offered.size();) {
      const auto label = offered[at];
      int count = 0;
      for (; at < offered.size() && offered[at] == label; ++at) ++count;
      const auto range = std::equal_range(required.begin(), required.end(), label.second);
      surplus[label.first] += std::max(0, count - int(range.second - range.first));
    }
  }

  int at(int atom, int from) const { return around[size_t(atom) * left.atoms + from]; }

  int beyond(int step, int other) const {
    return common_radius(right.step_labels[0], step, left.step_labels[0], other) + common_radius(right.step_labels[1], step, left.step_labels[1], other);
  }

  // Radius (negative), surplus, ranks on the right and on the left, atom, origin: pairs of one element, most similar first.
  std::vector<std::tuple<int, int, int, int, int, int>> pairs() const {
    std::vector<std::tuple<int, int, int, int, int, int>> found;
    for (int atom = 0; atom < right.atoms; ++atom)
      for (int from = 0; from < left.atoms; ++from)
        if (right.element(atom) == left.element(from))
          found.emplace_back(-at(atom, from), surplus[left.molecules[from]], right.ranks[atom], left.ranks[from], atom, from);
    std::sort(found.begin(), found.end());
    return found;
  }
};

bool grow(AtomMap& match, const Similarity& similarity) {
  const Graph &left = match.left, &right = match.right;
  using Entry = std::tuple<int, int, int, int, int, int, int, int>;
  for (const auto& pair : similarity.pairs()) {
    const int seed = std::get<4>(pair), source = std::get<5>(pair);
    if (match.origin[seed] >= 0 || match.target[source] >= 0) continue;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> heap;
    heap.emplace(0, 0, 0, 0, 0, 0, seed, source);
    while (!heap.empty()) {
      const int atom = std::get<6>(heap.top()), from = std::get<7>(heap.top());
      heap.pop();
      if (match.origin[atom] >= 0 || match.target[from] >= 0) continue;
      if (match.late()) return false;
      match.pair(atom, from);
      for (int step = right.first[atom]; step < right.first[atom + 1]; ++step)
        for (int other = left.first[from]; other < left.first[from + 1]; ++other) {
          const int near = right.near[step], far = left.near[other];
          if (right.element(near) != left.element(far) || match.origin[near] >= 0 || match.target[far] >= 0) continue;
          heap.emplace(std::abs(right.orders[step] - left.orders[other]), -similarity.beyond(step, other), -similarity.at(near, far),
                       similarity.surplus[left.molecules[far]], right.ranks[near], left.ranks[far], near, far);
        }
    }
  }
  return true;
}

bool move(AtomMap& match, int atom, const std::vector<char>& edge) {
  if (match.late()) return false;
  const int before = match.origin[atom];
  int best_gain = 0, best_origin = -1;
  std::vector<int> atoms, origins;
  for (int from = 0; from < match.left.atoms; ++from) {
    const int rival = match.target[from];
    if (match.left.element(from) != match.right.element(atom) || from == before || (rival >= 0 && !edge[rival])) continue;
    atoms.assign(1, atom);
    if (rival >= 0) atoms.push_back(rival);
    origins.assign(1, from);
    if (before >= 0) origins.push_back(before);
    const int cost = match.cost_at(atoms, origins);
    match.pair(atom, from);
    const int gain = match.cost_at(atoms, origins) - cost;
    match.restore(atom, before);
    if (rival >= 0 && match.origin[rival] != from) match.restore(rival, from);
    if (gain < best_gain) {
      best_gain = gain;
      best_origin = from;
    }
  }
  if (best_origin >= 0) match.pair(atom, best_origin);
  return best_origin >= 0;
}

void improve(AtomMap& match) {
  for (int round = 0; round < ROUNDS; ++round) {
    const auto atoms = match.changing();
    std::vector<char> edge(match.right.atoms, 0);
    for (int atom : atoms) edge[atom] = 1;
    bool moved = false;
    for (int atom : atoms) moved |= move(match, atom, edge);
    if (!moved) return;
  }
}

using Part = std::vector<std::pair<int, int>>;

Part alike(const AtomMap& match, int atom, int from) {
  const Graph &left = match.left, &right = match.right;
  Part part{{atom, from}};
  const auto taken = [&part](int near, int far) {
    return std::any_of(part.begin(), part.end(), [=](const auto& each) { return each.first == near || each.second == far; });
  };
  for (size_t at = 0; at < part.size(); ++at) {
    const int here = part[at].first, there = part[at].second;
    for (int step = right.first[here]; step < right.first[here + 1]; ++step) {
      const int near = right.near[step], order = right.orders[step];
      const int old = match.origin[near] < 0 ? -1 : left.step_to(there, match.origin[near]);
      if (old >= 0 && left.orders[old] == order) continue;  // it is from there already
      for (int other = left.first[there]; other < left.first[there + 1]; ++other) {
        const int far = left.near[other];
        if (order != left.orders[other] || match.target[far] >= 0 || taken(near, far)) continue;
        if (std::equal(left.kinds + KIND * far, left.kinds + KIND * far + 3, right.kinds + KIND * near)) part.emplace_back(near, far);
      }
    }
  }
  return part;
}

bool move_parts(AtomMap& match) {
  bool moved = false;
  for (int atom : match.changing()) {
    if (match.late()) return moved;
    for (int from = 0; from < match.left.atoms; ++from) {
      if (match.left.element(from) != match.right.element(atom) || match.target[from] >= 0) continue;
      const Part part = alike(match, atom, from);
      if (part.size() < 2) continue;  // `improve` has tried that
      std::vector<int> atoms, origins, before;
      for (const auto& each : part) {
        atoms.push_back(each.first);
        before.push_back(match.origin[each.first]);
        origins.push_back(each.second);
      }
      for (int old : before)
        if (old >= 0 && !AtomMap::holds(origins, old)) origins.push_back(old);
      const int cost = match.cost_at(atoms, origins);
      for (const auto& each : part) match.pair(each.first, each.second);
      if (match.cost_at(atoms, origins) < cost) {
        moved = true;
        break;
      }
      for (size_t at = 0; at < part.size(); ++at) match.restore(part[at].first, before[at]);
    }
  }
  return moved;
}

}  // namespace

extern "C" {

// Map the atoms of the right side; `origin` has for each its atom of the left side or -1. With `started` only `improve` runs, on the map
// given there. Returns a `Stop`; the map is unusable after NOT_MAPPED.
int chemspec_map_atoms(const GraphArrays* before, const GraphArrays* after, const int32_t* break_costs, const Costs* costs, double seconds,
                       int started, int32_t* origin) {
  try {
    const Graph left(*before, !started), right(*after, !started);
    AtomMap match(left, right, break_costs, *costs, seconds < 0 ? -1.0 : thread_seconds() + seconds);
    if (started) {
      for (int atom = 0; atom < right.atoms; ++atom)
        if (origin[atom] >= 0) match.pair(atom, origin[atom]);
      improve(match);
    } else {
      if (!grow(match, Similarity(left, right, int(match.given.size())))) return NOT_MAPPED;
      improve(match);
      if (move_parts(match)) improve(match);
    }
    std::copy(match.origin.begin(), match.origin.end(), origin);
    return match.late() ? OUT_OF_TIME : FINISHED;
  } catch (const std::bad_alloc&) {
    return NOT_MAPPED;
  }
}
}
