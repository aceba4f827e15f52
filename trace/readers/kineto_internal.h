/* Declarations shared by the parts of the Kineto reader, kineto*.c only. */
#ifndef DL_TRACE_READERS_KINETO_INTERNAL_H
#define DL_TRACE_READERS_KINETO_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/readers/json_events.h"
#include "trace/readers/reader.h"
#include "trace/readers/readers_internal.h"

/* Members of an event that the reader uses; their names are in kineto.c. */
typedef enum dl_kineto_key {
    KEY_PH,
    KEY_CAT,
    KEY_NAME,
    KEY_PID,
    KEY_TID,
    KEY_TS,
    KEY_DUR,
    KEY_EXTERNAL_ID,
    KEY_EXTERNAL_ID_LOWER,
    KEY_CORRELATION,
    KEY_DEVICE,
    KEY_STREAM,
    KEY_BYTES,
    KEY_SIZE,
    KEY_GRID,
    KEY_BLOCK,
    KEY_SHARED,
    KEY_REGISTERS,
    KEY_GRAPH,
    KEY_GRAPH_NODE,
    KEY_WAIT_STREAM,
    KEY_WAIT_RECORD,
    KEY_WAIT_EVENT,
    KEY_COLLECTIVE,
    KEY_TYPE,
    KEY_IN_ELEMENTS,
    KEY_OUT_ELEMENTS,
    KEY_GROUP,
    KEY_GROUP_TEXT,
    KEY_GROUP_SIZE,
    KEY_GROUP_RANKS,
    KEY_RANK,
    KEY_FROM_RANK,
    KEY_TO_RANK,
    KEY_INPUT_DIMS,
    KEY_INPUT_DIMS_LOWER,
    KEY_SEQUENCE,
    KEY_INPUT_TYPE,
    KEY_META_NAME,
    KEY_END
} dl_kineto_key;

/* Sources of the data about a collective's call, best first. */
typedef enum dl_kineto_told {
    TOLD_BY_PARAMETERS, /* record_param_comms with its arguments */
    TOLD_BY_RANGE,      /* "nccl:all_reduce" */
    TOLD_BY_KERNEL,
    TOLD_END
} dl_kineto_told;

typedef struct dl_kineto_call {
    dl_kineto_told told;
    const char *collective;
    uint64_t in_bytes, out_bytes;            /* 0: unknown */
    bool integers;                           /* dl_comm_type_counts, for all inputs */
    uint32_t ranks;                          /* number of ranks; 0: unknown */
    uint32_t group, group_text, group_ranks; /* text ids of the process group's name, description
                                              * and ranks ("[0, 1]"); 0: unknown */
    int64_t peer, peer_place;     /* of a Send or Recv: the other rank, and its place in the
                                   * group; -1: unknown */
    uint32_t thread, correlation; /* correlation is set for calls known from kernels */
    int64_t start_ns, duration_ns;
} dl_kineto_call;

/* A process group of the trace's head ("pg_config"): text ids of its name, description and complete
 * list of ranks; 0: unknown. */
typedef struct dl_kineto_group {
    uint32_t name, description, members;
    uint32_t ranks; /* 0: unknown */
} dl_kineto_group;

/* A wait for the event recorded by the call with correlation `record`. */
typedef struct dl_kineto_wait {
    uint64_t object;
    uint32_t record, stream, device;
} dl_kineto_wait;

/* Bytes that a call copies. */
typedef struct dl_kineto_copy {
    uint32_t correlation;
    uint64_t bytes;
} dl_kineto_copy;

/* Number of calls of an operator with an input of these first dimensions. */
typedef struct dl_kineto_size {
    int64_t samples, second; /* second: 0 if the input has no second dimension, or it holds
                              * features */
    size_t calls;
} dl_kineto_size;

typedef struct dl_kineto_sizes {
    dl_kineto_size *items; /* [count] */
    size_t count;
} dl_kineto_sizes;

#define DL_KINETO_SAMPLE_OPERATORS 6 /* the last is the loss */

typedef struct dl_kineto {
    dl_trace_builder builder;
    dl_read_trace *item;
    char *scratch; /* [scratch_room] */
    size_t scratch_room;
    const char **collective_of; /* [known_texts] collectives of range names, by string id */
    bool *collective_known;
    size_t known_texts;
    dl_kineto_call *calls; /* [call_count] */
    size_t call_count, call_room;
    size_t told[TOLD_END];   /* number of calls by source */
    dl_kineto_group *groups; /* [group_count] */
    size_t group_count;
    dl_kineto_wait *waits; /* [wait_count] */
    size_t wait_count;
    dl_kineto_copy *copies; /* [copy_count] */
    size_t copy_count;
    /* By operator: calls by the first dimensions of the input, and by its number of elements
     * (stored in `samples`) */
    dl_kineto_sizes samples[DL_KINETO_SAMPLE_OPERATORS], elements[DL_KINETO_SAMPLE_OPERATORS];
    bool trains[DL_KINETO_SAMPLE_OPERATORS]; /* only calls for which gradients are kept count */
    uint8_t *shape_roles;                    /* [shape_room] by string id, in kineto_samples.c */
    size_t shape_room;
    int64_t base_ns;
    int64_t rank, ranks; /* -1: unknown */
    bool has_fraction;   /* a time has a fraction of a microsecond */
    int64_t pid;         /* process id of the first host event; -1: none yet */
    bool several_pids;
    uint64_t python_functions, other_events;
    char *other_category; /* category of the first of other_events */
} dl_kineto;

/* Returns the id of the unescaped string `value`. */
uint32_t dl_kineto_text(dl_kineto *kineto, dl_json_text value);

/* Store an event's data about a collective's call; `activity` is its RANGE or KERNEL.
 * dl_kineto_keep_range takes any RANGE: it also counts batch sizes (below), and gives a RANGE that
 * accumulates a gradient the gradient's bytes. */
void dl_kineto_keep_parameters(dl_kineto *kineto, const dl_json_text *values,
                               const dl_activity *activity);
void dl_kineto_keep_range(dl_kineto *kineto, const dl_json_text *values, dl_activity *activity);

/* Returns an operator's "Input Dims", which PyTorch 1.8 wrote as "Input dims"; .at = NULL: not
 * given. */
static inline dl_json_text dl_kineto_input_dims(const dl_json_text *values)
{
    return values[values[KEY_INPUT_DIMS].at == NULL ? KEY_INPUT_DIMS_LOWER : KEY_INPUT_DIMS];
}

/* In kineto_samples.c. If `name` is an operator whose input has one sample per row, counts the
 * batch size given by its input's shape. If any call of the operator has a sequence number, which
 * PyTorch gives while gradients are enabled, only such calls count: others are of a validation, or
 * of a policy that collects samples. dl_kineto_tell_samples writes the most frequent batch size
 * and the number of different sizes to the trace's meta data. */
void dl_kineto_count_samples(dl_kineto *kineto, const char *name, const dl_json_text *values);
void dl_kineto_tell_samples(dl_kineto *kineto);
void dl_kineto_free_samples(dl_kineto *kineto);

/* Returns the string id of the first input's shape, "[64, 256]", if it has two dimensions or more,
 * of which the first is above 1; else 0. A RANGE that accumulates such a gradient has this id as
 * its correlation until dl_kineto_leave_out_inputs, which sets all these to 0, and the bytes to 0
 * of those whose shape is that of an input with samples and of no other input of these operators:
 * an input of the network that requires a gradient. */
uint32_t dl_kineto_shape_of_rows(dl_kineto *kineto, const dl_json_text *values);
void dl_kineto_leave_out_inputs(dl_kineto *kineto);

/* Completes the work that requires the whole trace, and adds the notes. */
void dl_kineto_finish(dl_kineto *kineto);

#endif
