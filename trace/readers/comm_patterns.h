/* Which of a program's ranges are calls of collectives, and which ones: by patterns, for libraries
 * have many names for one thing and new ones come.
 *
 * Built in: ranges "nccl:all_reduce", "rccl:...", "xccl:...", and what PyTorch's c10d calls its
 * collectives ("_allgather_base", "reduce_scatter_tensor_coalesced", "all_to_allv"). Capitals, '_',
 * '-' and blanks do not count. Names of kernels are told by kernel_class.h.
 *
 * A file of patterns adds to both, for libraries that are not built in:
 *
 *   [pattern token exchange]                    ; any name
 *   text       = my_lib::exchange|^token_*_a2a  ; in names of kernels and ranges; '|' between
 *                                               ; several, '*' = any text, '^' = the name's begin;
 *                                               ; capitals count
 *   collective = AlltoAll
 *   algorithm  = direct                         ; may be left out; told in summaries
 *
 * Names and meaning of c10d's: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp. */
#ifndef DL_TRACE_READERS_COMM_PATTERNS_H
#define DL_TRACE_READERS_COMM_PATTERNS_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "trace/kernel_class.h"

typedef struct dl_comm_pattern {
    char *text;             /* owned; lower case, without '_' and so on */
    const char *collective; /* "AllReduce", ...; constant */
} dl_comm_pattern;

/* The user's own patterns, which go before those built in; {0} = none. Release with
 * dl_comm_patterns_free. */
typedef struct dl_comm_patterns {
    dl_comm_pattern *patterns; /* [count] */
    size_t count;
    dl_kernel_rule *rules; /* [rule_count] of files, texts owned; for ranges too. A program hands
                            * them to dl_kernel_use_rules for kernels */
    size_t rule_count;
} dl_comm_patterns;

/* Adds "TEXT=COLLECTIVE": ranges that hold TEXT are calls of COLLECTIVE ("AllReduce", "AllGather",
 * "ReduceScatter", "AlltoAll", "Broadcast", "Reduce", "Gather", "Scatter", "Send", "Recv").
 * DL_ERR_PARSE without '=' or TEXT, DL_ERR_NAME for another COLLECTIVE. */
dl_status dl_comm_patterns_add(dl_comm_patterns *patterns, const char *rule,
                               dl_error *err) DL_MUST_CHECK;

/* Adds the patterns of a file as above. Errors name file and line: DL_ERR_IO, DL_ERR_PARSE,
 * DL_ERR_NAME (a section, key, collective or algorithm, with the nearest name), DL_ERR_DATA (no
 * text or collective). Algorithms: ring, tree, direct, hierarchical, pairwise, nvls, collnet. */
dl_status dl_comm_patterns_read(dl_comm_patterns *patterns, const char *path,
                                dl_error *err) DL_MUST_CHECK;

/* The same from memory; `name` stands in error texts. `text` may hold any bytes. */
dl_status dl_comm_patterns_read_text(dl_comm_patterns *patterns, const char *name, const char *text,
                                     size_t bytes, dl_error *err) DL_MUST_CHECK;

void dl_comm_patterns_free(dl_comm_patterns *patterns);

/* The collective that the range `text` calls, or NULL. Constant text. */
const char *dl_comm_of_range(const dl_comm_patterns *patterns, const char *text);

/* The collective that c10d calls `name` ("allreduce_coalesced"), or NULL ("wait", "init"). A
 * barrier is an AllReduce, as NCCL has none. */
const char *dl_comm_of_name(const char *name);

/* Bytes of an element of a type as PyTorch writes it ("Float", "c10::BFloat16", "long int"); 0 =
 * unknown. */
size_t dl_comm_type_bytes(const char *type);

/* Bytes of one rank as NCCL counts them (activity_collectives.h), from those that one rank gives
 * and gets: AllReduce, Broadcast, Reduce, Send, Recv, AllGather, Gather: what it gives; Scatter,
 * ReduceScatter: what it gets; AlltoAll: a peer's share of what it gives. `out_bytes` 0: not known,
 * ReduceScatter's is 1 / ranks of what it gives then. 0 = unknown. */
uint64_t dl_comm_rank_bytes(const char *collective, uint64_t in_bytes, uint64_t out_bytes,
                            uint32_t ranks);

#endif
