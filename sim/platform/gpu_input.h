/* Batches for GPUs: read from the node's storage, shared by all of its workers, if that has a rate;
 * then made by cores of the GPU's node, first come first served, then copied to it from the memory
 * of its socket.
 *
 * A worker may have `prefetch` batches waiting or being made; with 0, one is made on request. With
 * options->made_at_launch it is made once dl_input_allow permits it, waits in host memory, and is
 * copied on request. The time to make one may vary exponentially, like reads from a file system
 * that others use. */
#ifndef DL_SIM_GPU_INPUT_H
#define DL_SIM_GPU_INPUT_H

#include "sim/noise.h"
#include "sim/platform/gpu.h"

typedef struct dl_input_config {
    dl_engine *engine; /* borrowed, like all pointers here */
    dl_network *network;
    const dl_gpu_options *options; /* cores of each node, prefetch, whether making a batch varies */
    const dl_place *places;        /* [workers] destination GPUs of the batches */
    int workers;
    dl_gpu_steps steps; /* time and bytes of their batches; read by init only */
    uint64_t seed;
    uint32_t replicate;
    const int *storage; /* [nodes] classes of flows from their storage; NULL: no limit */
    dl_event_fn came;   /* came(user, worker): a batch has arrived */
    /* Current factor on the fixed time of a copy to the worker's GPU; NULL: 1. */
    double (*slowed)(const void *user, int worker);
    void *user;
} dl_input_config;

typedef struct dl_input_worker {
    int class; /* of its copies */
    int64_t latency_ns;
    double copy_ns;         /* of the copy, beside its bytes and the link's latency */
    double make_ns, bytes;  /* of a batch */
    double stored_bytes;    /* to read before it is made */
    int ready, making;      /* numbers of batches; making: until copied */
    int made;               /* batches of `making` in host memory; only with made_at_launch */
    bool wanted;            /* the worker waits for one; likewise */
    int64_t ordered, taken; /* since the start */
    int64_t allowed;        /* limit on ordered batches, for steps done once */
    int64_t again;          /* further batches, for steps that were cut and are repeated */
    dl_noise noise;         /* of making its batches */
} dl_input_worker;

/* Workers whose batches have been read and wait for a core of the node: a ring. */
typedef struct dl_input_node {
    int idle_cores;
    int *queue; /* [room] */
    int room, first, queued;
} dl_input_node;

typedef struct dl_input {
    dl_input_config config;
    int64_t steps; /* batches of a worker */
    dl_noise_source noise;
    dl_input_node *nodes;
    dl_input_worker *workers;
    int *queues; /* [workers x depth] of all nodes */
} dl_input;

/* Call after adding all links of the network. dl_input_free and dl_input_most accept a zeroed
 * object. */
void dl_input_init(dl_input *input, const dl_input_config *config);
void dl_input_free(dl_input *input);

/* Most batches made at a time: the largest number of flows, and of events beside those of flows. */
int dl_input_most(const dl_input *input);

/* The run starts: each worker will take `steps` batches. */
void dl_input_start(dl_input *input, int64_t steps);

/* With made_at_launch: the worker's first `count` batches may be made from now on. */
void dl_input_allow(dl_input *input, int worker, int64_t count);

/* Takes a batch for the worker's step (0, 1, ...); a step that was cut and is repeated takes
 * another one. False if no batch is ready: `came` is called once one has arrived. */
bool dl_input_take(dl_input *input, int worker, int64_t step);

#endif
