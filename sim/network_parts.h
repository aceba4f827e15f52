/* The parts of a network that know nothing of time: the heap of a class, which classes are active,
 * components, and shares. Not for others than network.c. */
#ifndef DL_SIM_NETWORK_PARTS_H
#define DL_SIM_NETWORK_PARTS_H

#include "sim/network.h"

/* Puts a flow with its mark set into the class's heap. O(1). */
void dl_network_heap_push(dl_network *network, dl_flow_class *c, int flow);

/* Takes the flow with the least mark out; the heap must not be empty. O(log n) amortised. */
int dl_network_heap_pop(dl_network *network, dl_flow_class *c);

/* Enters the class into the lists of its links, with nothing served, and takes it out again. */
void dl_network_activate(dl_network *network, int class);
void dl_network_deactivate(dl_network *network, int class);

/* Remembers that the flows on the class's links have changed. */
void dl_network_mark_dirty(dl_network *network, int class);

/* Sets part_links and part_classes to what is connected to `link` by active classes, and stamps
 * it. A link that one class alone uses joins nothing and is left out: it caps that class. The links
 * that it finds become dirty too, so that what parts later is found again. */
void dl_network_find_component(dl_network *network, int link);

/* Sets the max-min fair rates of the component's classes. */
void dl_network_share(dl_network *network);

#endif
