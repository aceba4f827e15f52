#include "sim/platform/host.h"

#include <stdlib.h>

#include "common/alloc.h"

static void set_speeds(void *user, const int *running, int count, int runnable, double *speed)
{
    dl_host *host = user;
    dl_maxmin_clear_flows(&host->memory);
    for (int i = 0; i < count; i++) {
        double full = host->bytes_per_ns[running[i]];
        if (full > 0) dl_maxmin_add_flow(&host->memory, 1, full, &host->memory_link, 1);
    }
    dl_maxmin_solve(&host->memory);
    int flow = 0;
    for (int i = 0; i < count; i++) {
        double full = host->bytes_per_ns[running[i]];
        speed[i] = full > 0 ? host->memory.rate[flow++] / full : 1 / host->sharing[runnable];
    }
}

static void on_done(void *user, int thread)
{
    dl_host *host = user;
    host->done(host->user, thread);
}

void dl_host_init(dl_host *host, const dl_host_config *config)
{
    size_t threads = (size_t)config->threads;
    *host = (dl_host){
        .sharing = dl_calloc(threads + 1, sizeof(double), "sharing"),
        .bytes_per_ns = dl_calloc(threads, sizeof(double), "traffic of tasks"),
        .memory_capacity = config->memory_bytes_per_ns,
        .done = config->done,
        .user = config->user,
    };
    for (int k = 1; k <= config->threads; k++)
        host->sharing[k] = dl_sharing(config->costs, k);
    dl_maxmin_init(&host->memory, 1, config->cores, config->cores);
    host->memory_link = dl_maxmin_add_link(&host->memory, config->memory_bytes_per_ns);
    dl_processor_init(&host->processor, &(dl_processor_config){.engine = config->engine,
                                                               .cores = config->cores,
                                                               .threads = config->threads,
                                                               .slice_ns = config->slice_ns,
                                                               .tick_ns = config->tick_ns,
                                                               .speed = set_speeds,
                                                               .done = on_done,
                                                               .user = host});
}

void dl_host_free(dl_host *host)
{
    dl_processor_free(&host->processor);
    dl_maxmin_free(&host->memory);
    free(host->sharing);
    free(host->bytes_per_ns);
    *host = (dl_host){0};
}

void dl_host_compute(dl_host *host, int thread, double work_ns)
{
    host->bytes_per_ns[thread] = 0;
    dl_processor_start(&host->processor, thread, work_ns);
}

void dl_host_move(dl_host *host, int thread, dl_work work)
{
    host->bytes_per_ns[thread] =
        work.full_speed_ns > 0 ? work.traffic_bytes / work.full_speed_ns : 0;
    host->traffic_bytes += work.traffic_bytes;
    dl_processor_start(&host->processor, thread, work.full_speed_ns);
}

void dl_host_cut(dl_host *host, int thread)
{
    dl_processor_cut(&host->processor, thread);
}
