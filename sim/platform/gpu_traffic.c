/* Traffic of other jobs on the links between nodes ([traffic] of the machine file): flows that
 * share the links with those of the run, from its start until all workers are done or, if no worker
 * waits for others, until the first one is done. */
#include "sim/platform/gpu_internal.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

/* A periodic transfer from one GPU to another. */
typedef struct sender {
    int class;
    int64_t latency_ns, every_ns;
    int64_t next_ns; /* time of its next transfer */
    double bytes;
} sender;

struct dl_gpu_traffic {
    sender *senders; /* [count] senders */
    int count;
    int sending; /* number of senders with a transfer in flight; each of the others has a pending
                  * event */
};

int dl_gpus_traffic_flows(const dl_gpus *gpus)
{
    return gpus->traffic != NULL ? gpus->traffic->count : 0;
}

static sender sender_of(dl_gpus *gpus, const dl_traffic *job, int pair, int gpu, int pairs)
{
    const dl_gpu_options *options = gpus->config.options;
    const dl_place from = {DL_PLACE_GPU, job->from[pair], gpu};
    const dl_place to = {DL_PLACE_GPU, job->to[pair], gpu};
    dl_route route;
    dl_links_route(&options->links, from, to, &route);
    return (sender){.class = dl_network_route_class(gpus->network, &route),
                    .latency_ns = dl_ns_ceil(route.latency_ns),
                    .every_ns = (int64_t)job->every_ns.value,
                    .bytes = job->bytes.value / pairs};
}

void dl_gpus_traffic_init(dl_gpus *gpus)
{
    const dl_machine *m = &gpus->config.options->machine;
    if (m->fabric.traffic_count == 0) return;
    dl_gpu_traffic *traffic = gpus->traffic = dl_calloc(1, sizeof *traffic, "other jobs");
    for (int j = 0; j < m->fabric.traffic_count; j++) {
        const dl_traffic *job = &m->fabric.traffic[j];
        for (int p = 0; p < job->count; p++) {
            const int from = dl_machine_node(m, job->from[p])->gpu_count;
            const int to = dl_machine_node(m, job->to[p])->gpu_count;
            const int pairs = from < to ? from : to;
            for (int g = 0; g < pairs; g++)
                DL_APPEND(traffic->senders, traffic->count, "senders of other jobs") =
                    sender_of(gpus, job, p, g, pairs);
        }
    }
}

void dl_gpus_traffic_free(dl_gpus *gpus)
{
    if (gpus->traffic != NULL) free(gpus->traffic->senders);
    free(gpus->traffic);
}

static void has_sent(void *user, int number);

/* Whether only events of other jobs are pending: the run's workers then wait for one another
 * forever. */
static bool is_left_alone(const dl_gpus *gpus)
{
    const dl_gpu_traffic *traffic = gpus->traffic;
    return traffic->sending == 0 && dl_engine_pending(gpus->config.engine) < traffic->count;
}

static void send(void *user, int number)
{
    dl_gpus *gpus = user;
    sender *s = &gpus->traffic->senders[number];
    if (gpus->team->stopping || is_left_alone(gpus)) return;
    gpus->traffic->sending++;
    s->next_ns = gpus->config.engine->now_ns + s->every_ns;
    dl_network_start(gpus->network, s->class, s->bytes, s->latency_ns, has_sent, gpus, number);
}

static void has_sent(void *user, int number)
{
    dl_gpus *gpus = user;
    dl_engine *engine = gpus->config.engine;
    const int64_t wait_ns = gpus->traffic->senders[number].next_ns - engine->now_ns;
    gpus->traffic->sending--;
    if (gpus->team->stopping) return;
    dl_engine_after(engine, wait_ns > 0 ? wait_ns : 0, send, gpus, number);
}

void dl_gpus_traffic_start(dl_gpus *gpus)
{
    for (int i = 0; i < dl_gpus_traffic_flows(gpus); i++)
        dl_engine_after(gpus->config.engine, 0, send, gpus, i);
}
