/* What a run on GPUs has used. */
#include <stdio.h>

#include "common/units.h"
#include "sim/platform/platform_gpu.h"

static void measure_links(const dl_gpus *gpus, double span_s, dl_usage *usage)
{
    const dl_links *links = &gpus->config.options->links;
    for (int l = 0; l < gpus->network.link_count; l++) {
        double frac =
            dl_network_link_bytes(&gpus->network, l) / (gpus->network.capacity[l] * span_s);
        if (frac <= usage->link_frac) continue;
        usage->link_frac = frac;
        if (l < links->count) {
            dl_links_name(links, l, usage->link);
        } else {
            snprintf(usage->link, sizeof usage->link, "%s", gpus->own_names[l - links->count]);
        }
    }
}

void dl_gpus_measure(const dl_team *team, dl_usage *usage)
{
    const dl_gpus *gpus = dl_gpus_of(team);
    const dl_dispatch *dispatch = &gpus->dispatch;
    const double span_ns = (double)team->engine.now_ns;
    char name[DL_RESOURCE_NAME_BYTES];
    for (int w = 0; w < team->config.workers; w++) {
        const int64_t *state_ns = team->workers[w].state_ns;
        snprintf(name, sizeof name, "gpu of worker %d", w);
        dl_usage_note(usage, name,
                      (double)(state_ns[DL_STATE_COMPUTE] + state_ns[DL_STATE_UPDATE]) / span_ns);
    }
    for (int t = 0; t < dispatch->thread_count; t++) {
        snprintf(name, sizeof name, "host thread %d", t);
        double step_ns = dispatch->config.serial_ns +
                         dispatch->threads[t].count * dispatch->config.per_worker_ns;
        dl_usage_note(usage, name, (double)dispatch->threads[t].step * step_ns / span_ns);
    }
    measure_links(gpus, dl_ns_to_s(span_ns), usage);
    dl_usage_note(usage, usage->link, usage->link_frac);
    usage->traffic_bytes = gpus->moved_bytes;
}
