/* Crowds: groups of workers whose copies to and from a server differ only in unshared links. One
 * flow class per direction serves a crowd (sim/network/network.h). A worker whose copies cross only
 * shared links, or only unshared ones, keeps separate classes. */
#include "sim/platform/gpu_internal.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

#define KINDS_MOST 16
#define SEVERAL (-1) /* several workers use the link */

enum { PUSH, PULL, WAYS };

/* One direction of a crowd's copies; `shared` has the links that all of them use, in order. */
typedef struct way {
    dl_gpu_copy copy; /* without its flow class */
    dl_route shared;
    double own_rate; /* rate of each worker's slowest unshared link */
    int own_at;      /* position of the unshared links: 0: before the shared ones; shared.count:
                      * after them */
} way;

/* A crowd: workers whose copies cross equal links. */
typedef struct kind {
    way ways[WAYS];
    int copies; /* index of its push in gpus->copies */
} kind;

struct dl_gpu_crowds {
    dl_gpus *gpus;
    int *user; /* [links of the machine] the only worker whose copies use the link, + 1; 0: none; or
                * SEVERAL */
    kind kinds[KINDS_MOST];
    int kind_count;
};

static void find_route(const dl_gpus *gpus, int worker, int which, dl_route *route)
{
    const dl_place gpu = gpus->places[worker], server = gpus->servers[0];
    dl_links_route(&gpus->config.options->links, which == PUSH ? gpu : server,
                   which == PUSH ? server : gpu, route);
}

static void note_users(dl_gpu_crowds *crowds)
{
    dl_route route;
    for (int w = 0; w < crowds->gpus->config.workers; w++) {
        for (int which = 0; which < WAYS; which++) {
            find_route(crowds->gpus, w, which, &route);
            for (int i = 0; i < route.count; i++) {
                int *user = &crowds->user[route.links[i]];
                *user = *user == 0 || *user == w + 1 ? w + 1 : SEVERAL;
            }
        }
    }
}

/* Returns NULL if unshared links may carry other traffic or several copies of a worker
 * concurrently, if workers may be absent, or if copies are pageable or never share links. */
dl_gpu_crowds *dl_gpu_crowds_new(dl_gpus *gpus)
{
    const dl_gpus_config *config = &gpus->config;
    const dl_gpu_options *options = config->options;
    if (options->shards > 1 || gpus->server != NULL || config->with_input ||
        dl_absences_given(&config->team->absences) || config->inside_bytes > 0 ||
        options->pageable || options->without_contention ||
        options->machine.fabric.traffic_count > 0)
        return NULL;
    dl_gpu_crowds *crowds = dl_calloc(1, sizeof *crowds, "crowds");
    crowds->gpus = gpus;
    crowds->user = dl_calloc((size_t)options->links.count, sizeof *crowds->user, "links");
    note_users(crowds);
    return crowds;
}

void dl_gpu_crowds_free(dl_gpu_crowds *crowds)
{
    if (crowds == NULL) return;
    free(crowds->user);
    free(crowds);
}

/* Divides a route into shared and unshared links; false if the worker's copies need a separate
 * class. */
static bool part_route(const dl_gpu_crowds *crowds, const dl_route *route, way *w)
{
    const dl_links *links = &crowds->gpus->config.options->links;
    w->shared.count = 0;
    w->own_rate = INFINITY;
    for (int i = 0; i < route->count; i++) {
        const int link = route->links[i];
        if (link >= links->count)
            return false; /* an added link: of staged copies, or of the
                                                 * server's process */
        if (crowds->user[link] != SEVERAL) {
            w->own_rate = fmin(w->own_rate, dl_links_capacity(links, link) / route->uses[i]);
            continue;
        }
        w->shared.links[w->shared.count] = link;
        w->shared.uses[w->shared.count++] = route->uses[i];
    }
    if (w->shared.count == 0 || w->shared.count == route->count) return false;
    w->own_at = crowds->user[route->links[0]] == SEVERAL ? w->shared.count : 0;
    return true;
}

static bool are_alike(const way *a, const way *b)
{
    if (a->shared.count != b->shared.count || a->own_at != b->own_at ||
        (a->copy.domain >= 0) != (b->copy.domain >= 0) ||
        a->copy.latency_ns != b->copy.latency_ns || a->own_rate < b->own_rate ||
        a->own_rate > b->own_rate)
        return false;
    for (int i = 0; i < a->shared.count; i++) {
        if (a->shared.links[i] != b->shared.links[i] || a->shared.uses[i] != b->shared.uses[i])
            return false;
    }
    return true;
}

static int crowd_class(dl_gpus *gpus, const way *w)
{
    const int own = dl_gpus_add_own_link(gpus, w->own_rate, "links of workers");
    return dl_network_crowd(gpus->network, w->shared.links, w->shared.uses, w->shared.count, own,
                            w->own_at);
}

int dl_gpu_crowds_find(dl_gpu_crowds *crowds, int worker)
{
    dl_gpus *gpus = crowds->gpus;
    const dl_place gpu = gpus->places[worker], server = gpus->servers[0];
    kind *own = &crowds->kinds[crowds->kind_count];
    if (crowds->kind_count == KINDS_MOST) return -1;
    for (int which = 0; which < WAYS; which++) {
        dl_route route;
        way *w = &own->ways[which];
        w->copy = dl_gpus_route(gpus, which == PUSH ? gpu : server, which == PUSH ? server : gpu,
                                -1, &route);
        if (!part_route(crowds, &route, w)) return -1;
    }
    for (const kind *k = crowds->kinds; k < own; k++) {
        if (are_alike(&k->ways[PUSH], &own->ways[PUSH]) &&
            are_alike(&k->ways[PULL], &own->ways[PULL]))
            return k->copies;
    }
    crowds->kind_count++;
    for (int which = 0; which < WAYS; which++) {
        dl_gpu_copy copy = own->ways[which].copy;
        copy.class = crowd_class(gpus, &own->ways[which]);
        if (which == PUSH) copy.domain = -1; /* counted per worker after the run */
        copy.is_crowd = true;
        const int number = dl_gpus_add_copy(gpus, copy);
        if (which == PUSH) own->copies = number;
    }
    return own->copies;
}

/* Whether all copies of the crowd cross the link. */
static bool has_link(const dl_network *network, int class, int link)
{
    const dl_flow_class *c = &network->classes[class];
    for (int u = c->first_use; u < c->first_use + c->use_count; u++)
        if (network->uses[u].link == link) return true;
    return false;
}

void dl_gpu_crowds_note_bytes(dl_gpus *gpus)
{
    dl_network *network = gpus->network;
    const dl_machine *m = &gpus->config.options->machine;
    const int domain = dl_machine_domain(m, gpus->servers[0].node);
    for (int w = 0; w < gpus->config.workers; w++) {
        const dl_gpu_worker *worker = &gpus->workers[w];
        const dl_gpu_copy *copies = &gpus->copies[worker->copies];
        const int own_domain = dl_machine_domain(m, gpus->places[w].node);
        if (copies[PUSH].is_crowd && own_domain != domain)
            gpus->sent_bytes[own_domain] += worker->pushes * gpus->crowd_bytes[PUSH];
        for (int which = 0; which < WAYS && copies[which].is_crowd; which++) {
            const double bytes = which == PUSH ? worker->pushes * gpus->crowd_bytes[PUSH]
                                               : worker->pulls * gpus->crowd_bytes[PULL];
            dl_route route;
            find_route(gpus, w, which, &route);
            for (int i = 0; i < route.count; i++) {
                const int link = route.links[i];
                if (!has_link(network, copies[which].class, link))
                    network->bytes[link] += bytes * route.uses[i];
            }
        }
    }
}
