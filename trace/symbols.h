/* One device's work as a sequence of symbols in the order in which the host launched it: the form
 * in which repetitions are looked for.
 *
 * A symbol is a kind of work: a kernel's name and launch shape; a copy's direction and the binary
 * logarithm of its bytes; a memset's; one launch of a CUDA graph, whatever nodes it has. What only
 * communicates (NCCL's and RCCL's kernels) is no symbol, because ranks interleave it differently;
 * it belongs to the symbol before it. Calls of the host are no symbols.
 *
 * Launch order is the order of correlations (serial numbers: they may wrap around at 2^32), and of
 * start times where these are equal (nodes of one graph) or, for more than half of a device's work,
 * unknown. Work of unknown correlation takes that of the work that started before it.
 */
#ifndef DL_TRACE_SYMBOLS_H
#define DL_TRACE_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"

/* What a symbol tells apart. */
typedef enum dl_symbol_detail {
    DL_SYMBOL_SHAPES, /* as above */
    DL_SYMBOL_NAMES   /* without launch shapes and sizes: for steps whose shapes vary */
} dl_symbol_detail;

/* What a kind of work is in a step, beside itself. */
typedef enum dl_symbol_role {
    DL_ROLE_INPUT = 1,  /* a copy from the host that brings a batch: of DL_INPUT_BYTES at
                          least or unknown size, and not half as many of its size go back */
    DL_ROLE_UPDATE = 2, /* an optimizer's kernel */
    DL_ROLE_GRAPH = 4   /* a graph's launch */
} dl_symbol_role;

/* Smaller copies from the host are scalars, as a learning rate is. */
#define DL_INPUT_BYTES 64

typedef struct dl_symbol_line {
    uint32_t device;
    size_t work_count;
    size_t *work;      /* [work_count] indices of the device's activities in launch order */
    size_t count;      /* symbols */
    uint32_t *symbols; /* [count] kinds, numbered from 0 without gaps */
    size_t *first;     /* [count + 1] symbol i is work[first[i]] to before work[first[i + 1]] */
    int64_t *idle_ns;  /* [count] the device's idle time before symbol i, given all earlier work */
    int64_t *start_ns; /* [count] of the symbol's first work */
    uint32_t kind_count;
    uint64_t *kind_hash; /* [kind_count] the same for the same kind in every process */
    uint8_t *kind_roles; /* [kind_count] of dl_symbol_role, or-ed */
} dl_symbol_line;

/* Owns its arrays; release with dl_symbols_free. */
typedef struct dl_symbols {
    dl_symbol_line *lines; /* [count] in order of device; only devices that have work */
    size_t count;
} dl_symbols;

/* Finds the symbols of the device work among activities[count]; zero `symbols` before. `strings`
 * [string_count] are the trace's; names outside count as empty. O(n log n). */
void dl_symbols_init(dl_symbols *symbols, const dl_activity *activities, size_t count,
                     char *const *strings, size_t string_count, dl_symbol_detail detail);
void dl_symbols_free(dl_symbols *symbols);

#endif
