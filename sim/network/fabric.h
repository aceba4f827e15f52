/* The switches between nodes, by the line that a machine file has for them ([fabric] topology):
 * which links a copy between two nodes crosses from one node's port to the other's, in addition to
 * these.
 *
 * Nodes have slots: `packed`, node k has slot k; `scattered`, the nodes are dealt over all groups
 * in turn, as a scheduler does that takes what is free; or as a list says (`slots`). Ranks follow
 * the nodes' numbers, as a launcher gives them, and rings and trees follow the ranks: NCCL orders
 * by topology what is in a node, never the nodes. With `rank_order = switches` the launcher has
 * sorted them, so that node k has the k-th of the slots in use.
 *
 *   fat_tree    group_nodes nodes under a leaf switch, whose uplinks together carry what its ports
 *               do over oversubscription; pod_groups leaves form a pod, whose uplinks are to its
 *               leaves' as 1 to pod_oversubscription. Above, nothing limits
 *   rail        the same, with a leaf per NIC of the group's nodes: NIC i of group_nodes nodes has
 *               leaf i. NICs of one number in a group reach each other in one leaf
 *   dragonfly   groups of group_nodes nodes, router_nodes of them at a router; every two routers of
 *               a group have a link each way, every two groups global_links. Minimal routes: within
 *               the group to the router that has the link to the other group (group number modulo
 *               routers), over it, and to the node's router (Kim et al. 2008, section 3)
 *   torus       a switch per slot in a box of size_x*size_y*size_z, with a link each way to its six
 *               neighbours; routes go the shorter way around in x, then in y, then in z
 *
 *   switches    a tree of any depth by hand: a switch ([netswitch]) has the ports of some slots,
 *               other switches below it, and uplinks of together their given rate, or that of all
 *               these over its oversubscription. A parent with several uplinks stands for as many
 *               spine switches
 *
 * Spreading of a tree's flows: `ideal`, a group's uplinks are one link of their sum; `ecmp`, each
 * pair of NICs takes one uplink by a hash, with the downlink from the same spine switch, so that
 * flows collide (RFC 2992); of a tree by hand every level has a hash of its own. Beside the port's
 * rate, links have link_bytes_per_s, where given; other jobs take background_frac of every link, by
 * hand also of each switch's, or send what [traffic] says, whose flows share the links. Each switch
 * beyond a route's first adds hop_ns.
 *
 * Left out: adaptive routes, buffers and losses. */
#ifndef DL_SIM_FABRIC_H
#define DL_SIM_FABRIC_H

#include "common/machine.h"

/* Longest way: a torus of 64 x 64 x 64. */
#define DL_FABRIC_ROUTE_MAX 96

/* Number of the fabric's links; 0 without one. */
int dl_fabric_links(const dl_machine *machine);

/* Bytes a second of link `link`, each direction by itself, where a port has port_bytes_per_s. */
double dl_fabric_capacity(const dl_machine *machine, double port_bytes_per_s, int link);

/* Writes the name of a link to text[bytes]: "leaf 3 up", "group 1 to 2". */
void dl_fabric_name(const dl_machine *machine, int link, char *text, size_t bytes);

/* The slots of all nodes into slots[machine->nodes]. */
void dl_fabric_slots(const dl_machine *machine, int *slots);

/* The links from NIC `from_nic` of a slot to `to_nic` of another one into
 * links[DL_FABRIC_ROUTE_MAX], each once, in the order of the way; returns their number, which may
 * be 0. *latency_ns is that of the switches beyond the first. */
int dl_fabric_route(const dl_machine *machine, int from_slot, int from_nic, int to_slot, int to_nic,
                    int links[DL_FABRIC_ROUTE_MAX], double *latency_ns);

#endif
