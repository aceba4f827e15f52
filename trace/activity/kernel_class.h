/* Class and phase of a kernel, derived from its name, the only datum that every trace records for
 * every kernel.
 *
 * The rules are data, one table in kernel_class.c: the first rule whose pattern occurs in the name
 * applies. Patterns are parts of identifiers without "::", so they match mangled and demangled
 * names. The class is that of most of the kernel's work: a convolution with fused bias and
 * activation is a convolution. A kernel of no known library is OTHER.
 *
 * Classification takes about 20 us per name; dl_kernel_classes classifies each name once. */
#ifndef DL_TRACE_ACTIVITY_KERNEL_CLASS_H
#define DL_TRACE_ACTIVITY_KERNEL_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/dlt/dlt.h"
#include "trace/record.h"

/* A user-defined rule: kernels whose name matches one of the patterns execute a collective, and
 * ranges call it. */
typedef struct dl_kernel_rule {
    const char *patterns; /* as in kernel_class.c: separated by '|', '*' = any text, '^' = start */
    const char *collective; /* "AllReduce", ... */
} dl_kernel_rule;

/* Puts rules[count] (borrowed; count 0 removes them) before the built-in ones, for the whole
 * process. Call it before reading traces, and never while another thread classifies kernels. */
void dl_kernel_use_rules(const dl_kernel_rule *rules, size_t count);

/* Returns the collective of the first user-defined rule that matches the name; NULL: none does. */
const char *dl_kernel_ruled_collective(const char *name);

typedef enum dl_kernel_class {
    DL_KERNEL_OTHER = 0,
    DL_KERNEL_CONVOLUTION,
    DL_KERNEL_GEMM, /* matrix products, including those with vectors */
    DL_KERNEL_ATTENTION,
    DL_KERNEL_NORMALISATION,
    DL_KERNEL_SOFTMAX, /* softmax and losses */
    DL_KERNEL_POOLING,
    DL_KERNEL_EMBEDDING, /* embedding tables: lookup, gradient, index processing */
    DL_KERNEL_OPTIMIZER,
    DL_KERNEL_COLLECTIVE, /* collectives, and point-to-point transfers by kernels */
    DL_KERNEL_ELEMENTWISE,
    DL_KERNEL_REDUCTION, /* reductions, scans, sorts */
    DL_KERNEL_LAYOUT,    /* copies, fills, transposes, gathers and scatters, casts */
    DL_KERNEL_CLASS_END
} dl_kernel_class;

/* "convolution", "gemm", ...; never NULL. */
const char *dl_kernel_class_name(dl_kernel_class class);

/* Returns the class of the kernel `name`. Sets *phase (may be NULL) to FORWARD, BACKWARD, UPDATE
 * (an optimizer) or, for a collective or if the name does not tell, NONE. */
dl_kernel_class dl_kernel_classify(const char *name, dl_phase *phase);

/* Returns classes by name id: [trace->string_count] dl_kernel_class, valid for all ids used by
 * KERNELs; other ids have OTHER. The caller frees the array. */
uint8_t *dl_kernel_classes(const dl_trace *trace);

/* A collective as described by its kernel's name. Texts are constant, or belong to a user-defined
 * rule. */
typedef struct dl_kernel_collective {
    /* "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "SendRecv", ...; "":
     * unknown (generic kernels) */
    const char *collective;
    /* "float32", "bfloat16", "int8", ... for a reduction by NCCL or RCCL; "" for other libraries'
     * kernels, and for other collectives, which move bytes whatever type they name */
    const char *type;
} dl_kernel_collective;

/* Sets *told from the name of a kernel that matches a user-defined rule or belongs to NCCL or RCCL
 * (any version since 2.7), DeepEP or NVSHMEM (dispatch and combine are all-to-all; a reduction of
 * NVSHMEM leaves the result on all ranks, its "fcollect" is an all-gather). Returns false, with
 * *told unchanged, for other kernels. The name does not give NCCL's algorithm and protocol: one
 * kernel serves several, and its suffix ("RING_LL") names one of them (src/device/generate.py of
 * NCCL 2.28, best_kernel()). */
bool dl_kernel_tell_collective(const char *name, dl_kernel_collective *told);

#endif
