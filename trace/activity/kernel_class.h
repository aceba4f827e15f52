/* Class and phase of a kernel, derived from its name, the only datum that every trace records for
 * every kernel.
 *
 * The rules are data, one table in kernel_class.c: the first rule whose pattern occurs in the name
 * decides. Patterns are pieces of identifiers without "::", so they hold for mangled and demangled
 * names. The class is that of most of the kernel's work: a convolution with fused bias and
 * activation is a convolution. A kernel of no known library is OTHER.
 *
 * Classifying takes some 20 us per name; dl_kernel_classes does it once per name.
 */
#ifndef DL_TRACE_ACTIVITY_KERNEL_CLASS_H
#define DL_TRACE_ACTIVITY_KERNEL_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/record.h"

/* A user's rule: kernels whose name matches one of the patterns carry out a collective. */
typedef struct dl_kernel_rule {
    const char *patterns; /* as in kernel_class.c: '|' between them, '*' = any text, '^' = start */
    const char *collective; /* "AllReduce", ... */
    const char *algorithm;  /* "ring", ...; "" = not said */
} dl_kernel_rule;

/* Puts rules[count] (borrowed; count 0 removes them) before the built-in ones, for the whole
 * process. Call it before traces are read, never while another thread classifies. */
void dl_kernel_use_rules(const dl_kernel_rule *rules, size_t count);

/* Whether one of the patterns matches the text. */
bool dl_kernel_pattern_matches(const char *patterns, const char *text);

typedef enum dl_kernel_class {
    DL_KERNEL_OTHER = 0,
    DL_KERNEL_CONVOLUTION,
    DL_KERNEL_GEMM, /* matrix products, with vectors too */
    DL_KERNEL_ATTENTION,
    DL_KERNEL_NORMALISATION,
    DL_KERNEL_SOFTMAX, /* softmax and losses */
    DL_KERNEL_POOLING,
    DL_KERNEL_EMBEDDING, /* tables of embeddings: lookup, gradient, their indices */
    DL_KERNEL_OPTIMIZER,
    DL_KERNEL_COLLECTIVE, /* collectives, and point-to-point transfers by kernels */
    DL_KERNEL_ELEMENTWISE,
    DL_KERNEL_REDUCTION, /* reductions, scans, sorts */
    DL_KERNEL_LAYOUT,    /* copies, fills, transposes, gathers and scatters, casts */
    DL_KERNEL_CLASS_END
} dl_kernel_class;

/* "convolution", "gemm", ...; never NULL. */
const char *dl_kernel_class_name(dl_kernel_class class);

/* Class of the kernel `name`. *phase (may be NULL) becomes FORWARD, BACKWARD, UPDATE (an optimizer)
 * or, if the name does not tell, NONE. */
dl_kernel_class dl_kernel_classify(const char *name, dl_phase *phase);

/* Classes by name id: [string_count] dl_kernel_class, valid for all ids that a KERNEL of
 * activities[count] uses (others are OTHER). free() it. */
uint8_t *dl_kernel_classes(const dl_activity *activities, size_t count, char *const *strings,
                           size_t string_count);

/* A collective as its kernel's name describes it. Texts are constant, or of the user's rule. */
typedef struct dl_kernel_collective {
    /* "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "SendRecv", ...; "" =
     * not told (generic kernels) */
    const char *collective;
    /* "float32", "bfloat16", "int8", ... of a reduction; "" otherwise, as the others move bytes
     * whatever type they name */
    const char *type;
    const char *algorithm; /* of a rule of the user's; "" otherwise */
} dl_kernel_collective;

/* Sets *told from the name of a kernel that matches a user's rule or belongs to NCCL or RCCL (any
 * version since 2.7), DeepEP or NVSHMEM (dispatch and combine are all-to-all; a reduction of
 * NVSHMEM leaves the result on all ranks, its "fcollect" is an all-gather); false, with *told
 * unchanged, for other kernels. The name does not give NCCL's algorithm and protocol: one kernel
 * serves several, and its suffix ("RING_LL") names one of them (src/device/generate.py of NCCL
 * 2.28, best_kernel()). */
bool dl_kernel_tell_collective(const char *name, dl_kernel_collective *told);

#endif
