/* The parts of a network that know little of time: heaps, bundles of classes, components, and
 * shares. Not for others than network*.c. */
#ifndef DL_SIM_NETWORK_PARTS_H
#define DL_SIM_NETWORK_PARTS_H

#include "sim/network/network.h"

/* Puts a flow with its mark set into the class's heap, and takes the flow with the least mark out
 * (the heap must not be empty). The class must not be in its bundle's heap meanwhile. O(1), and
 * O(log n) amortised. */
void dl_network_heap_push(dl_network *network, dl_flow_class *c, int flow);
int dl_network_heap_pop(dl_network *network, dl_flow_class *c);

/* Puts a class with flows into its bundle's heap, by the mark of its first flow, and takes it out
 * again. O(1), and O(log n) amortised. */
void dl_network_enqueue(dl_network *network, int class);
void dl_network_dequeue(dl_network *network, int class);

/* All bundles are free; to be called when there is room for more classes. Bundles in use stay. */
void dl_network_grow_bundles(dl_network *network, int room);

/* Accounts for the bundle's progress up to now. */
static inline void dl_network_advance(const dl_network *network, dl_flow_bundle *b)
{
    b->served += b->rate * 1e-9 * (double)(network->engine->now_ns - b->since_ns);
    b->since_ns = network->engine->now_ns;
}

/* Enters the class, which has no flows, into a bundle, and takes it out again. Others with which it
 * alone shares a link change their bundles too, or what these share. Deactivating says whether the
 * component may have parted: no other class goes over the same links, and more than one of these is
 * still in use. */
void dl_network_activate(dl_network *network, int class);
bool dl_network_deactivate(dl_network *network, int class);

/* The same for a class without flows that shares no link with others. */
void dl_network_deactivate_alone(dl_network *network, int class);

/* Gives one class of a larger bundle a bundle of its own, and returns that. */
int dl_network_expel(dl_network *network, int class);

/* Lets no other class into the bundle. */
void dl_network_close(dl_network *network, int bundle);

/* Lets others into a bundle of one class again: joins it to the one with the same
 * links, if there is one. Both must have the same rate. */
void dl_network_rejoin(dl_network *network, int bundle);

/* Whether classes besides this one use the link now. */
static inline bool dl_network_is_shared(const dl_network *network, int link)
{
    return network->users[link] > 1;
}

/* Rate that the links which the active class has to itself allow a flow of it; INFINITY = any. */
double dl_network_class_cap(const dl_network *network, const dl_flow_class *c);

/* Rate of a flow of the class that shares no link with others; the class has links. */
double dl_network_alone_rate(const dl_network *network, const dl_flow_class *c);

/* Remembers that the flows on the links of an active class have changed. */
void dl_network_mark_dirty(dl_network *network, int class);

/* Sets part_links and part_bundles to what is connected to `link` by active classes, and stamps it.
 * Links that one class has to itself join nothing and are left out. The links that it finds become
 * dirty too, so that what parts later is found again. */
void dl_network_find_component(dl_network *network, int link);

/* Sets the max-min fair rates of the component's bundles, of which there may be more and others
 * afterwards. */
void dl_network_share(dl_network *network);

#endif
