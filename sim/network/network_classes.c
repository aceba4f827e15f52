/* The classes of a network, found by their links. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/status.h"
#include "sim/network/network_parts.h"

static uint64_t hash_use(uint64_t hash, int link, int times)
{
    hash = (hash ^ (uint64_t)link) * 0x100000001b3; /* FNV-1a, a link at a time */
    return (hash ^ (uint64_t)times) * 0x100000001b3;
}

static uint64_t hash_class(const dl_network *network, const dl_flow_class *c)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int u = c->first_use; u < c->first_use + c->use_count; u++)
        hash = hash_use(hash, network->uses[u].link, network->uses[u].times);
    return hash ^ hash >> 29;
}

static bool is_class(const dl_network *network, const dl_flow_class *c, const int *links,
                     const unsigned char *times, int count)
{
    if (c->use_count != count) return false;
    for (int i = 0; i < count; i++) {
        const dl_use *use = &network->uses[c->first_use + i];
        if (use->link != links[i] || use->times != times[i]) return false;
    }
    return true;
}

/* Twice the room in the hash table, which is never more than half full. */
static void grow_table(dl_network *network)
{
    int size = network->table_size ? 2 * network->table_size : 64;
    free(network->table);
    network->table = dl_calloc((size_t)size, sizeof(int), "classes by links");
    network->table_size = size;
    memset(network->table, -1, (size_t)size * sizeof(int));
    for (int c = 0; c < network->class_count; c++) {
        size_t at = hash_class(network, &network->classes[c]) % (size_t)size;
        while (network->table[at] >= 0)
            at = (at + 1) % (size_t)size;
        network->table[at] = c;
    }
}

static int add_class(dl_network *network, const int *links, const unsigned char *times, int count)
{
    if (network->class_count == network->class_room) {
        int room = network->class_room ? 2 * network->class_room : 32;
        network->classes =
            dl_realloc(network->classes, (size_t)room, sizeof *network->classes, "flow classes");
        dl_network_grow_bundles(network, room);
    }
    if (network->use_count + count > network->use_room) {
        network->use_room = 2 * network->use_room + count;
        network->uses = dl_realloc(network->uses, (size_t)network->use_room, sizeof *network->uses,
                                   "links of flow classes");
    }
    int class = network->class_count++;
    network->classes[class] = (dl_flow_class){
        .first_use = network->use_count, .use_count = count, .head = -1, .bundle = -1};
    for (int i = 0; i < count; i++) {
        DL_ASSERT(links[i] >= 0 && links[i] < network->link_count && times[i] >= 1,
                  "link %d of %d, %d times", links[i], network->link_count, times[i]);
        network->uses[network->use_count++] = (dl_use){links[i], class, times[i], -1, -1, -1};
    }
    return class;
}

int dl_network_class(dl_network *network, const int *links, const unsigned char *times, int count)
{
    if (2 * (network->class_count + 1) > network->table_size) grow_table(network);
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < count; i++)
        hash = hash_use(hash, links[i], times[i]);
    hash ^= hash >> 29;
    size_t at = hash % (size_t)network->table_size;
    for (; network->table[at] >= 0; at = (at + 1) % (size_t)network->table_size) {
        int class = network->table[at];
        if (is_class(network, &network->classes[class], links, times, count)) return class;
    }
    return network->table[at] = add_class(network, links, times, count);
}

int dl_network_route_class(dl_network *network, const dl_route *route)
{
    return dl_network_class(network, route->links, route->uses, route->count);
}
