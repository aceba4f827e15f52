/* The switches between nodes, as described by a machine file ([fabric] topology): the links that a
 * copy crosses between the ports of two nodes, in addition to the ports.
 *
 * Nodes have slots: with `packed`, node k has slot k; with `scattered`, the nodes are distributed
 * over all groups in turn, as by a scheduler that takes any free nodes; or a list gives them
 * (`slots`). Ranks follow the nodes' numbers, as launchers assign them, and rings and trees follow
 * the ranks: NCCL orders the ranks within a node by topology, never the nodes. With `rank_order =
 * switches` the launcher has sorted them, so that node k has the k-th of the slots in use.
 *
 *   fat_tree    group_nodes nodes under a leaf switch, whose uplinks have in total the rate of all
 *               its ports over oversubscription; pod_groups leaves form a pod, whose uplinks have
 *               in total its leaves' uplink rate over pod_oversubscription. Nothing above a pod is
 *               limited
 *   rail        the same, with a leaf per NIC of the group's nodes: NIC i of group_nodes nodes is
 *               on leaf i, through which NICs with the same number in a group reach each other
 *   dragonfly   groups of group_nodes nodes, with router_nodes nodes per router; every two routers
 *               of a group have a link each way, every two groups global_links. Minimal routes:
 *               within the group to the router that has the link to the other group (group number
 *               modulo routers), over it, and to the node's router (Kim et al. 2008, section 3)
 *   torus       a switch per slot in a box of size_x*size_y*size_z, with a link each way to its six
 *               neighbours; routes go the shorter way around in x, then in y, then in z
 *
 *   switches    a user-defined tree of any depth: a switch ([netswitch]) has the ports of some
 *               slots, other switches below it, and uplinks with a given total rate, or that of its
 *               ports and lower switches over its oversubscription. A parent with several uplinks
 *               represents as many spine switches
 *
 * Spreading of a tree's flows: with `ideal`, a group's uplinks are one link of their total rate;
 * with `ecmp`, a hash assigns each pair of NICs to one uplink, and to the downlink from the same
 * spine switch, so that flows collide (RFC 2992); in a user-defined tree each level has a different
 * hash. A pod's uplinks are always one link. Links of a dragonfly or a torus have the port's rate,
 * or link_bytes_per_s if given. Other jobs take background_frac of every link (which [netswitch]
 * can set per switch), or send the flows of [traffic], which share the links. Each switch beyond a
 * route's first adds hop_ns.
 *
 * Adaptive routing, buffers and losses are not modelled. */
#ifndef DL_SIM_FABRIC_H
#define DL_SIM_FABRIC_H

#include "common/machine.h"

/* Longest route: a torus of 64 x 64 x 64. */
#define DL_FABRIC_ROUTE_MAX 96

/* Number of the fabric's links; 0 without a fabric. */
int dl_fabric_links(const dl_machine *machine);

/* Capacity of link `link` in bytes per second, per direction, for ports of port_bytes_per_s. */
double dl_fabric_capacity(const dl_machine *machine, double port_bytes_per_s, int link);

/* Writes the name of a link to text[bytes]: "leaf 3 up", "group 1 to 2". */
void dl_fabric_name(const dl_machine *machine, int link, char *text, size_t bytes);

/* Writes the slots of all nodes to slots[machine->nodes]. */
void dl_fabric_slots(const dl_machine *machine, int *slots);

/* Writes the links from NIC `from_nic` of a slot to `to_nic` of another one to
 * links[DL_FABRIC_ROUTE_MAX], each once, in route order; returns their number, which may be 0. Sets
 * *latency_ns to the latency of the switches beyond the first. */
int dl_fabric_route(const dl_machine *machine, int from_slot, int from_nic, int to_slot, int to_nic,
                    int links[DL_FABRIC_ROUTE_MAX], double *latency_ns);

#endif
