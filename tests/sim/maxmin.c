#include "tests/sim/maxmin.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"

/* Links and caps that would be reached this close to one another are taken as reached together. */
#define RELATIVE_TOLERANCE 1e-12

void dl_maxmin_init(dl_maxmin *system, int links, int flows, int uses)
{
    size_t l = (size_t)links, f = (size_t)flows;
    *system = (dl_maxmin){
        .link_capacity_count = links,
        .flow_capacity = flows,
        .use_capacity = uses,
        .capacity = dl_calloc(l, sizeof(double), "link capacities"),
        .left = dl_calloc(l, sizeof(double), "capacities left"),
        .open_weight = dl_calloc(l, sizeof(double), "weights on links"),
        .weight = dl_calloc(f, sizeof(double), "flow weights"),
        .cap = dl_calloc(f, sizeof(double), "flow caps"),
        .rate = dl_calloc(f, sizeof(double), "flow rates"),
        .fixed = dl_calloc(f, sizeof(bool), "fixed flows"),
        .first_use = dl_calloc(f + 1, sizeof(int), "flow routes"),
        .use_link = dl_calloc((size_t)uses, sizeof(int), "links of flows"),
    };
}

void dl_maxmin_free(dl_maxmin *system)
{
    free(system->capacity);
    free(system->left);
    free(system->open_weight);
    free(system->weight);
    free(system->cap);
    free(system->rate);
    free(system->fixed);
    free(system->first_use);
    free(system->use_link);
    *system = (dl_maxmin){0};
}

void dl_maxmin_clear_flows(dl_maxmin *system)
{
    system->flows = 0;
    system->uses = 0;
}

int dl_maxmin_add_link(dl_maxmin *system, double capacity)
{
    DL_ASSERT(system->links < system->link_capacity_count && capacity > 0,
              "link %d of %d, capacity %g", system->links, system->link_capacity_count, capacity);
    system->capacity[system->links] = capacity;
    return system->links++;
}

int dl_maxmin_add_flow(dl_maxmin *system, double weight, double cap, const int *links,
                       int link_count)
{
    DL_ASSERT(system->flows < system->flow_capacity &&
                  system->uses + link_count <= system->use_capacity,
              "flow %d of %d, use %d of %d", system->flows, system->flow_capacity,
              system->uses + link_count, system->use_capacity);
    DL_ASSERT(weight > 0 && cap > 0 && (link_count > 0 || isfinite(cap)),
              "weight %g, cap %g, %d links", weight, cap, link_count);
    int flow = system->flows++;
    system->weight[flow] = weight;
    system->cap[flow] = cap;
    system->first_use[flow] = system->uses;
    for (int i = 0; i < link_count; i++)
        system->use_link[system->uses++] = links[i];
    system->first_use[flow + 1] = system->uses;
    return flow;
}

/* The level (rate per weight) at which the next link is full or the next flow reaches its cap. */
static double next_level(const dl_maxmin *system)
{
    double level = INFINITY;
    for (int l = 0; l < system->links; l++) {
        if (system->open_weight[l] > 0) {
            level = fmin(level, system->left[l] / system->open_weight[l]);
        }
    }
    for (int f = 0; f < system->flows; f++) {
        if (!system->fixed[f]) level = fmin(level, system->cap[f] / system->weight[f]);
    }
    return level;
}

static bool reached(const dl_maxmin *system, int flow, double level)
{
    double limit = level * (1 + RELATIVE_TOLERANCE);
    if (system->cap[flow] / system->weight[flow] <= limit) return true;
    for (int u = system->first_use[flow]; u < system->first_use[flow + 1]; u++) {
        int l = system->use_link[u];
        if (system->left[l] <= limit * system->open_weight[l]) return true;
    }
    return false;
}

/* left[l] is the capacity without the fixed flows, open_weight[l] the weight of the others. */
static void weigh_links(dl_maxmin *system)
{
    for (int l = 0; l < system->links; l++) {
        system->left[l] = system->capacity[l];
        system->open_weight[l] = 0;
    }
    for (int f = 0; f < system->flows; f++) {
        for (int u = system->first_use[f]; u < system->first_use[f + 1]; u++) {
            int l = system->use_link[u];
            if (system->fixed[f]) {
                system->left[l] -= system->rate[f];
            } else {
                system->open_weight[l] += system->weight[f];
            }
        }
    }
}

void dl_maxmin_solve(dl_maxmin *system)
{
    for (int f = 0; f < system->flows; f++)
        system->fixed[f] = false;
    for (int open = system->flows; open > 0;) {
        weigh_links(system);
        double level = next_level(system);
        for (int f = 0; f < system->flows; f++) {
            if (system->fixed[f] || !reached(system, f, level)) continue;
            system->rate[f] = fmin(system->cap[f], level * system->weight[f]);
            system->fixed[f] = true;
            open--;
        }
    }
}
