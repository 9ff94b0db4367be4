// The compiled loop's tree builder, as a library of its own.

#include "../../chemspec/decode/compiled/tree.h"

// The same from a prefix alone, into an array of `Limits.max_nodes` nodes; returns their number, or -1 without enough memory.
extern "C" int chemspec_build_tree(const Table* table, const Query* query, const Limits* limits, const int32_t* prefix, int written,
                                   TreeNode* tree) {
  try {
    const CopyTracker tracker(*query);
    CopyState first = tracker.start();
    for (int i = 1; i < written; i++) first = tracker.advance(first, prefix[i]);
    std::vector<TreeNode> nodes;
    grow(*table, tracker, first, *limits, prefix, written, nodes);
    std::copy(nodes.begin(), nodes.end(), tree);
    return int(nodes.size());
  } catch (...) {
    return -1;
  }
}
