/* Batches for GPUs: read from the node's storage, whose rate (if it has one) all of its workers
 * share, or from storage shared by all nodes; then made by cores of the GPU's node in FIFO order,
 * then copied to the GPU from the memory of its socket.
 *
 * A worker may have `prefetch` batches waiting or being made; with 0, a batch is made on request.
 * With options->made_at_launch it is made once dl_input_allow permits it, waits in host memory, and
 * is copied on request. The time to make a batch may be exponentially distributed, like reads from
 * a shared file system. */
#ifndef DL_SIM_GPU_INPUT_H
#define DL_SIM_GPU_INPUT_H

#include "sim/noise.h"
#include "sim/platform/gpu.h"

typedef struct dl_input_config {
    dl_engine *engine; /* borrowed, like all pointers here */
    dl_network *network;
    const dl_gpu_options *options; /* gives cores per node, prefetch, and whether the time to make a
                                    * batch varies */
    const dl_place *places;        /* [workers] destination GPUs of the batches */
    int workers;
    dl_gpu_steps steps; /* times and bytes of the batches; read by dl_input_init only */
    uint64_t seed;
    uint32_t replicate;
    const int *storage; /* [nodes] flow classes of their storage; NULL: no limit */
    dl_event_fn came;   /* came(user, worker): a batch has arrived */
    /* Current factor on the fixed time of a copy to the worker's GPU; NULL: 1. */
    double (*slowed)(const void *user, int worker);
    void *user;
} dl_input_config;

typedef struct dl_input_worker {
    int class; /* flow class of its copies */
    int64_t latency_ns;
    double copy_ns;         /* fixed time of a copy, excluding its bytes and the link's latency */
    double make_ns, bytes;  /* time to make a batch, and bytes per batch */
    double stored_bytes;    /* bytes to read before a batch is made */
    int ready, making;      /* numbers of batches: on the GPU; requested but not yet copied to it */
    int made;               /* with made_at_launch: number of `making` batches that are in host
                             * memory */
    bool wanted;            /* with made_at_launch: the worker waits for a batch whose copy to the
                             * GPU has not started */
    int64_t ordered, taken; /* numbers of batches ordered and taken since the start */
    int64_t allowed;        /* limit on ordered batches, with one per step */
    int64_t again;          /* additional batches, for steps that were cut and are repeated */
    dl_noise noise;         /* variation of the time to make its batches */
} dl_input_worker;

/* A node's idle cores, and the FIFO ring of its workers whose batches have been read and wait for a
 * core. */
typedef struct dl_input_node {
    int idle_cores;
    int *queue; /* [room] */
    int room, first, queued;
} dl_input_node;

typedef struct dl_input {
    dl_input_config config;
    int64_t steps; /* batches per worker */
    dl_noise_source noise;
    dl_input_node *nodes;
    dl_input_worker *workers;
    int *queues; /* [workers x depth] storage of the queues of all nodes */
} dl_input;

/* Call after adding all links of the network. dl_input_free and dl_input_most accept a zeroed
 * object. */
void dl_input_init(dl_input *input, const dl_input_config *config);
void dl_input_free(dl_input *input);

/* Largest number of batches of all workers that wait or are being made; that many flows, and that
 * many further events, may exist at a time. */
int dl_input_most(const dl_input *input);

/* Starts a run in which each worker takes `steps` batches. */
void dl_input_start(dl_input *input, int64_t steps);

/* With made_at_launch: allows the worker's first `count` batches to be made from now on. */
void dl_input_allow(dl_input *input, int worker, int64_t count);

/* Takes a batch for the worker's step (0, 1, ...); a step that was cut and is repeated takes
 * another one. False if no batch is ready: `came` is called when one has arrived. */
bool dl_input_take(dl_input *input, int worker, int64_t step);

#endif
