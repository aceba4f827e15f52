#include "sim/collective/fold.h"

#include <limits.h>
#include <stdlib.h>

#include "common/alloc.h"

static bool has_equal_nodes(const dl_links *links)
{
    return links->machine->kind_count == 1 && links->core < 0 && links->sites < 0 &&
           links->fabric < 0 && links->pairs < 0 && !dl_machine_has_unlike_nodes(links->machine);
}

/* --- classes of links ------------------------------------------------------------------------ */

static int find(int *like, int link)
{
    while (like[link] != link)
        link = like[link] = like[like[link]];
    return link;
}

static void unite(int *like, int a, int b)
{
    a = find(like, a);
    b = find(like, b);
    like[a > b ? a : b] = a > b ? b : a;
}

/* Unites the classes of links that a kind's routes cross at the same position; false if the routes
 * differ. */
static bool unite_routes(dl_fold *fold, const dl_route *routes)
{
    for (int r = 0; r < fold->lines; r++) {
        if (routes[r].count != routes[0].count) return false;
        for (int l = 0; l < routes[r].count; l++) {
            if (routes[r].links[l] >= fold->nodes * fold->per_node) return false;
            unite(fold->like, routes[r].links[l] % fold->per_node,
                  routes[0].links[l] % fold->per_node);
        }
    }
    return true;
}

static void list_classes(dl_fold *fold)
{
    for (int l = fold->per_node - 1; l >= 0; l--) {
        const int first = find(fold->like, l);
        fold->like[l] = first;
        fold->size[first]++;
        if (first == l) continue;
        fold->members[l] = fold->members[first];
        fold->members[first] = l;
    }
}

/* --- the check ------------------------------------------------------------------------------- */

/* The link that represents `link` in the folded network. */
static int stand_in(const dl_fold *fold, int link)
{
    const int local = link % fold->per_node;
    return link - local + fold->like[local];
}

static int size_of(const dl_fold *fold, int link)
{
    return fold->size[fold->like[link % fold->per_node]];
}

static bool have_equal_capacities(const dl_fold *fold, const dl_links *links)
{
    const dl_node_links *node = &links->kinds[0];
    for (int l = 0; l < node->count; l++)
        if (node->capacity[l] != node->capacity[fold->like[l]]) return false;
    return true;
}

/* Number of times that the route crosses links represented by `in`. */
static int crossings(const dl_fold *fold, const dl_route *route, int in)
{
    int times = 0;
    for (int l = 0; l < route->count; l++)
        if (stand_in(fold, route->links[l]) == in) times += route->uses[l];
    return times;
}

/* Whether each route of a kind has the latency of the first one and crosses the links of each class
 * as often as the first one, and whether all routes together cross all links of a class equally
 * often. unite_routes must have formed the classes. */
static bool are_exact(const dl_fold *fold, const dl_route *routes, int *times)
{
    const dl_route *first = &routes[0];
    bool exact = true;
    for (int r = 0; r < fold->lines; r++) {
        const dl_route *route = &routes[r];
        exact &= route->latency_ns == first->latency_ns && route->staged == first->staged &&
                 route->leaves_node == first->leaves_node && route->slice_ns == first->slice_ns;
        for (int l = 0; l < route->count; l++) {
            const int in = stand_in(fold, route->links[l]);
            exact &= crossings(fold, route, in) == crossings(fold, first, in);
            times[route->links[l]] += route->uses[l];
        }
    }
    for (int r = 0; r < fold->lines; r++) {
        for (int l = 0; l < routes[r].count; l++) {
            const int link = routes[r].links[l];
            const int all = fold->lines * crossings(fold, first, stand_in(fold, link));
            exact &= times[link] * size_of(fold, link) == all && times[link] <= UCHAR_MAX;
        }
    }
    for (int r = 0; r < fold->lines; r++)
        for (int l = 0; l < routes[r].count; l++)
            times[routes[r].links[l]] = 0;
    return exact;
}

dl_fold *dl_fold_make(const dl_links *links, const dl_route *routes, int kinds, int lines)
{
    if (lines < 2 || !has_equal_nodes(links)) return NULL;
    const size_t per_node = (size_t)links->per_node;
    dl_fold *fold = dl_calloc(1, sizeof *fold, "fold");
    *fold = (dl_fold){.lines = lines,
                      .nodes = links->machine->nodes,
                      .per_node = links->per_node,
                      .like = dl_calloc(per_node, sizeof *fold->like, "classes of links"),
                      .size = dl_calloc(per_node, sizeof *fold->size, "classes of links"),
                      .members = dl_calloc(per_node, sizeof *fold->members, "classes of links")};
    DL_AUTOFREE int *times = dl_calloc((size_t)links->count, sizeof *times, "crossings of links");
    for (int l = 0; l < links->per_node; l++)
        fold->like[l] = l, fold->members[l] = -1;
    bool exact = true;
    for (int k = 0; k < kinds && exact; k++)
        exact = unite_routes(fold, routes + k * lines);
    list_classes(fold);
    exact = exact && have_equal_capacities(fold, links);
    for (int k = 0; k < kinds && exact; k++)
        exact = are_exact(fold, routes + k * lines, times);
    if (exact) return fold;
    dl_fold_free(fold);
    return NULL;
}

void dl_fold_free(dl_fold *fold)
{
    if (fold == NULL) return;
    free(fold->like);
    free(fold->size);
    free(fold->members);
    free(fold);
}

void dl_fold_route(const dl_fold *fold, dl_route *route)
{
    int count = 0, times[DL_ROUTE_MAX];
    for (int l = 0; l < route->count; l++) {
        const int in = stand_in(fold, route->links[l]);
        int i = 0;
        while (i < count && route->links[i] != in)
            i++;
        if (i == count) times[count++] = 0;
        times[i] += route->uses[l];
        route->links[i] = in;
    }
    for (int i = 0; i < count; i++)
        route->uses[i] = (unsigned char)(fold->lines * times[i] / size_of(fold, route->links[i]));
    route->count = count;
}
