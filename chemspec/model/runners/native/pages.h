// Pages of the KV caches of many queries in one pool on a device, and the inputs of a forward pass that reads them in path order.
//
// A page holds the keys and values of one node and never moves, so evicting nodes costs the device nothing. A node of a pass
// attends to the pages of its path, from bos to itself, wherever these lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#include "guarded.h"

namespace {

constexpr int32_t UNUSED = 0;  // the page that padding is written to; no node has it

struct PagedQuery {
  int32_t row = 0;                              // of the batch
  std::vector<int32_t> pages, parents, depths;  // of each slot; the parents are slots, or -1
};

struct PageTable {
  int32_t vocabulary, positions;
  std::vector<int32_t> free;
  std::vector<PagedQuery> queries;
};

// New nodes of a pass, grouped by query: queries, token ids, depths, and slots of the parents, or -1.
struct NewNodes {
  int32_t count;
  const int32_t *owner, *tokens, *depths, *parents;
};

// Sizes of a pass: most nodes of a query, most nodes of a path, groups of up to `width` nodes of a query; and how many pages are free.
struct PassSizes {
  int32_t width, widest, longest, groups, free;  // width: given
};

// Inputs of a padded pass of `groups` x `width` nodes, on the host. A group has nodes of one query; `direct`: of the query in its row.
struct PassInputs {
  int32_t groups, width, direct;
  int32_t length, first;               // entries of a path; number of the first new node among pages
  int64_t* pages;                      // of each node
  int32_t* embedded;                   // rows of the table of tokens and positions, two of each node
  int32_t* depths;
  int32_t* paths;                      // (nodes, length) pages; those of this pass count from `first`
  int32_t* rows;                       // of each group, its query's
  int32_t* where;                      // output: which node of the padded pass each new node is
};

// Fills the path of a node of which `known` entries are there, and the padded rest, which is masked, with the node itself.
void end_path(int32_t* path, int known, int length, int32_t self) { std::fill(path + known, path + length, self); }

void write_pass(PageTable& table, const NewNodes& nodes, const PassInputs& to) {
  const int padded = to.groups * to.width;
  std::vector<char> used(padded, 0);
  std::fill(to.rows, to.rows + to.groups, 0);
  int group = 0;  // the next free one
  for (int start = 0, stop; start < nodes.count; start = stop) {
    PagedQuery& query = table.queries[nodes.owner[start]];
    const int before = int(query.pages.size()), base = (to.direct ? query.row : group) * to.width;
    for (stop = start; stop < nodes.count && nodes.owner[stop] == nodes.owner[start]; stop++) {
      const int node = base + stop - start, depth = nodes.depths[stop];
      int32_t* path = to.paths + size_t(node) * to.length;
      int parent = nodes.parents[stop], known = depth;
      if (parent >= before) {  // computed in this pass
        const int32_t* path_of_parent = to.paths + size_t(base + parent - before) * to.length;
        std::copy(path_of_parent, path_of_parent + depth, path);
      } else {
        for (; known > 0; parent = query.parents[parent]) path[--known] = query.pages[parent];
      }
      end_path(path, depth, to.length, to.first + node);
      const int32_t page = table.free.back();
      table.free.pop_back();
      query.pages.push_back(page), query.parents.push_back(nodes.parents[stop]), query.depths.push_back(depth);
      to.pages[node] = page, to.depths[node] = depth, to.where[stop] = node, used[node] = 1;
      to.embedded[2 * node] = nodes.tokens[stop], to.embedded[2 * node + 1] = table.vocabulary + depth;
    }
    for (int first = start; first < stop && !to.direct; first += to.width) to.rows[group++] = query.row;
  }
  for (int node = 0; node < padded; node++) {
    if (used[node]) continue;
    to.pages[node] = UNUSED, to.depths[node] = 0, to.embedded[2 * node] = 0, to.embedded[2 * node + 1] = table.vocabulary;
    end_path(to.paths + size_t(node) * to.length, 0, to.length, to.first + node);
  }
}

// Whether the nodes can be computed: ids of the vocabulary, each one level below its parent; writes the sizes of their pass.
bool measure_pass(const PageTable& table, const NewNodes& nodes, PassSizes& sizes) {
  sizes = {sizes.width, 0, 0, 0, int32_t(table.free.size())};
  for (int start = 0, stop; start < nodes.count; start = stop) {
    const int32_t owner = nodes.owner[start];
    if (owner < 0 || owner >= int(table.queries.size())) return false;
    const PagedQuery& query = table.queries[owner];
    const int before = int(query.pages.size());
    for (stop = start; stop < nodes.count && nodes.owner[stop] == owner; stop++) {
      const int32_t parent = nodes.parents[stop], depth = nodes.depths[stop], token = nodes.tokens[stop];
      if (token < 0 || token >= table.vocabulary || depth < 0 || depth >= table.positions) return false;
      if (parent < -1 || parent >= before + (stop - start)) return false;
      const int32_t above = parent < 0 ? -1 : parent < before ? query.depths[parent] : nodes.depths[start + parent - before];
      if (depth != above + 1) return false;
      sizes.longest = std::max(sizes.longest, depth + 1);
    }
    sizes.widest = std::max(sizes.widest, int32_t(stop - start));
    sizes.groups += (stop - start + sizes.width - 1) / sizes.width;
  }
  return true;
}

}  // namespace

// --- C interface for Python: functions that can run out of memory return 0 (or null) --------------
extern "C" {

void* chemspec_pages(int vocabulary, int positions) {
  return new (std::nothrow) PageTable{vocabulary, positions, {}, {}};
}
void chemspec_pages_close(void* table) { delete static_cast<PageTable*>(table); }

// Adds free pages, of which the last is taken first.
int chemspec_pages_add(void* table, const int32_t* pages, int count) {
  return guarded([&] { auto& free = static_cast<PageTable*>(table)->free; free.insert(free.end(), pages, pages + count); });
}

// Adds a query in a row of the batch, with the next number.
int chemspec_pages_join(void* table, int row) {
  return guarded([&] { static_cast<PageTable*>(table)->queries.push_back({row, {}, {}, {}}); });
}

// Returns 1, or -1 if a node cannot be computed.
int chemspec_pages_measure(void* table, const NewNodes* nodes, PassSizes* sizes) {
  return measure_pass(*static_cast<PageTable*>(table), *nodes, *sizes) ? 1 : -1;
}

// Takes pages for new nodes, for which there must be enough, and writes the inputs of their pass.
int chemspec_pages_write(void* table, const NewNodes* nodes, const PassInputs* inputs) {
  return guarded([&] { write_pass(*static_cast<PageTable*>(table), *nodes, *inputs); });
}

// Keeps these slots of a query, ascending, each with its parent, and renumbers them in this order; the others' pages are free.
int chemspec_pages_keep(void* handle, int owner, const int32_t* kept, int count) {
  return guarded([&] {
    PageTable& table = *static_cast<PageTable*>(handle);
    PagedQuery& query = table.queries[owner];
    PagedQuery left{query.row, {}, {}, {}};
    std::vector<int32_t> renumbered(query.pages.size(), -1);
    for (int slot = 0, next = 0; slot < int(query.pages.size()); slot++) {
      if (next == count || kept[next] != slot) {
        table.free.push_back(query.pages[slot]);
        continue;
      }
      renumbered[slot] = next++;
      left.pages.push_back(query.pages[slot]), left.depths.push_back(query.depths[slot]);
      left.parents.push_back(query.parents[slot] < 0 ? -1 : renumbered[query.parents[slot]]);
    }
    query = std::move(left);
  });
}

}  // extern "C"
