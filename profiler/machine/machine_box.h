/* Findings about the machine that dlprof runs on: the parts of a machine file (common/machine.h),
 * and facts that the file gives in comments only (addresses, wire rates). Filled by
 * dl_probe_machine (processors, PCIe tree), dl_gpu_probe (machine_gpu.h: reports of NVIDIA's
 * driver), dl_stream_measure (memory rate) and dl_box_take_copies (links and memories of GPUs),
 * written by dl_machine_write.
 *
 * 0 and "" mean that the system reported no value. Places are numbered as in a machine file: first
 * the sockets, 0 .. sockets-1, then the switches. */
#ifndef DL_PROFILER_MACHINE_BOX_H
#define DL_PROFILER_MACHINE_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/machine.h"
#include "common/status.h"
#include "trace/dlt/dlt.h"

#define DL_BUS_ID_BYTES 16 /* "0000:3b:00.0" */
#define DL_BOX_NAME_BYTES 96

/* A PCIe link: the lanes in use, and the highest rate that both ends support (the current rate is
 * lower while a GPU is idle). */
typedef struct dl_pci_link {
    double transfers_per_s; /* per lane */
    int lanes;
    double wire_bytes_per_s; /* per direction, after line coding */
} dl_pci_link;

typedef struct dl_box_switch {
    char bus_id[DL_BUS_ID_BYTES]; /* address of the upstream port */
    int parent;                   /* place above */
    dl_pci_link link;             /* to the parent */
} dl_box_switch;

typedef struct dl_box_gpu {
    char bus_id[DL_BUS_ID_BYTES];
    unsigned device_id; /* PCI device number */
    int parent;         /* place above */
    dl_pci_link link;

    /* From the driver. */
    char name[DL_BOX_NAME_BYTES];     /* "NVIDIA A100-SXM4-40GB" */
    int major, minor;                 /* compute capability */
    double cores;                     /* fp32 cores, each with one multiply-add per cycle */
    double clock_hz, memory_clock_hz; /* maximum clocks */
    double memory_bus_bits, memory_bytes;

    /* Measured by dl_box_take_copies: copies to and from pinned host memory; both directions
     * together (0 also if neither slows the other); averages in the GPU's memory. */
    double to_bytes_per_s, from_bytes_per_s, both_bytes_per_s;
    double average_bytes_per_s;
} dl_box_gpu;

typedef struct dl_box_nic {
    char bus_id[DL_BUS_ID_BYTES];
    char name[DL_BOX_NAME_BYTES]; /* eth0, mlx5_0 */
    bool infiniband;              /* else Ethernet */
    int parent;                   /* place above */
    dl_pci_link link;
    double port_bytes_per_s; /* on the wire; 0 also without a carrier */
} dl_box_nic;

typedef struct dl_box_nvlink {
    int a, b; /* indices of GPUs, a < b */
    int lanes;
} dl_box_nvlink;

typedef struct dl_box {
    char name[DL_BOX_NAME_BYTES], processor[DL_BOX_NAME_BYTES];
    int sockets, cores;
    double memory_bytes, cache_bytes; /* totals over all sockets; cache_bytes: last-level caches */
    int numa_count;
    bool places_known; /* false: some devices are put at socket0, as their socket is unknown */
    bool peer_memory;  /* the kernel module for copies between NICs and GPUs is loaded */

    dl_box_switch *switches;
    dl_box_gpu *gpus; /* in the order of their addresses, as with CUDA_DEVICE_ORDER=PCI_BUS_ID; then
                       * those that only the driver shows */
    dl_box_nic *nics;
    int switch_count, gpu_count, nic_count;

    char driver_note[160]; /* why the driver reported nothing; "" = it reported */
    dl_box_nvlink *nvlinks;
    int nvlink_count;
    double nvlink_bytes_per_s; /* per lane and direction, on the wire */
    int nvswitch_lanes;        /* fewest lanes of a GPU to NVSwitches; 0: no NVSwitch */
    bool peer_known;
    dl_peer peer;

    /* Measured, by dl_stream_measure. */
    double socket_memory_bytes_per_s; /* each socket's cores on their own memory */
    double socket_link_bytes_per_s;   /* each socket's cores reading the next socket's memory */

    /* Measured, by dl_box_take_copies. */
    char copies_note[160];          /* why copies of GPUs were not measured; "": they were, or were
                                     * not requested */
    double root_bytes_per_s;        /* from a socket to all its GPUs; 0: unknown, or not a limit */
    double nvlink_copy_bytes_per_s; /* per lane */
    double nvswitch_copy_bytes_per_s;
} dl_box;

/* Releases everything; a zeroed object is fine. */
void dl_box_free(dl_box *box);

/* Returns the socket above `place`, or `place` if it is a socket. */
int dl_box_socket(const dl_box *box, int place);

/* Whether NVLinks or an NVSwitch join the GPUs a < b. */
bool dl_box_has_nvlink(const dl_box *box, int a, int b);

/* Whether the paths from two places to their socket share a switch. */
bool dl_box_share_switch(const dl_box *box, int place_a, int place_b);

/* Computes the rate on the wire from transfers and lanes; 0 if either is unknown. */
void dl_pci_link_set_wire(dl_pci_link *link);

/* Returns the PCIe generation, 1 .. 6; 0 if the lanes' rate is unknown or not a PCIe rate. */
int dl_pci_link_generation(const dl_pci_link *link);

/* Linux's information on links and ports in /sys. `root` is "/sys", or a folder like it in tests.
 * Missing or "Unknown" values are 0. */

/* Returns the link between the device `bus_id` and the port above it (NULL or "": not visible): the
 * lanes in use and the highest rate that both ends support, not the current rate, which GPUs lower
 * when idle. */
dl_pci_link dl_sysfs_pci_link(const char *root, const char *bus_id, const char *port);

/* Rate of the network device `name` in bytes per second; 0 without a carrier and for most virtual
 * devices. */
double dl_sysfs_net_rate(const char *root, const char *name);

/* Rate of port 1 of an InfiniBand (or RoCE) device in bytes per second; 0 if it is unknown or the
 * port is not active. */
double dl_sysfs_infiniband_rate(const char *root, const char *name);

/* Whether the port's link layer is InfiniBand rather than Ethernet. */
bool dl_sysfs_is_infiniband(const char *root, const char *name);

/* Whether the device is one of a NIC's virtual functions, which share its port. */
bool dl_sysfs_is_virtual_function(const char *root, const char *bus_id);

/* Whether the kernel module `name` is loaded. */
bool dl_sysfs_has_module(const char *root, const char *name);

/* A [link ..] section of a machine file: a kind of link, and the rate that programs reach on it. */
#define DL_LINK_NAME_BYTES 40

typedef struct dl_link_section {
    char name[DL_LINK_NAME_BYTES];
    double bytes_per_s;        /* 0 = unknown */
    double duplex_bytes_per_s; /* measured, both directions together; 0 = no such limit known */
    dl_origin origin;
    double latency_ns; /* assumed */
    char comment[256]; /* source of the rate, or where to find it */
} dl_link_section;

typedef struct dl_link_list {
    dl_link_section *items;
    size_t count;
} dl_link_list;

/* Lists each kind of link that the box uses once. Release with dl_link_list_free. */
dl_link_list dl_link_list_make(const dl_box *box);
void dl_link_list_free(dl_link_list *list);

/* "pcie4x16"; "pcie15.75" (GB/s on the wire) if generation or lanes are unknown; "pcie". */
void dl_pci_link_name(char name[DL_LINK_NAME_BYTES], const dl_pci_link *link);

/* "infiniband200", "ethernet25" (Gb/s). */
void dl_port_name(char name[DL_LINK_NAME_BYTES], const dl_box_nic *nic);

/* Rates of a GPU that follow from its driver's reports; 0 if they do not suffice.
 *
 *   fp32_flop_per_s    = 2 cores clock                    one multiply-add per core and cycle
 *   memory_bytes_per_s = 2 memory_clock bus_bits / 8      two transfers per clock, as in NVML
 *   fp16, tf32, fp8    = fp32 x a ratio of the compute capability, see machine_write.c
 *
 * Peak rates at the highest clock (of the tensor cores if theirs differs); they agree with the data
 * sheets of P100, V100, T4, A100, H100, H200 within 1 %. */
typedef struct dl_gpu_rates {
    double fp32_flop_per_s;
    double tf32_flop_per_s, fp16_flop_per_s, fp8_flop_per_s; /* dense, fp32 accumulation */
    double memory_bytes_per_s;
} dl_gpu_rates;

dl_gpu_rates dl_gpu_rates_find(const dl_box_gpu *gpu);

/* Writes a machine file (common/machine.h) from the findings about this machine.
 *
 * Sizes reported by system or driver are marked measured, hardware rates that follow from clocks
 * and widths catalogue, and everything else assumed; a comment gives the source of each. An unknown
 * key becomes a comment that says what to fill in and where to find it; a key that the format
 * requires is also a gap: dlsim refuses the file until all gaps are filled.
 *
 *   fp32_flop_per_s    = 2 flop x cores x highest clock
 *   fp16, tf32, fp8    = fp32 x the ratio of the compute capability (tensor cores, dense)
 *   memory_bytes_per_s = 2 x highest memory clock x bus width / 8 (two transfers per clock)
 *   link bytes_per_s   = rate on the wire x the fraction that copies were seen to reach
 *
 * Rates that the box has measured are marked measured and replace these. [protocol] is not
 * written. */

/* Keys missing in a file, as "[host] memory_bytes_per_s". Release with dl_machine_gaps_free. */
typedef struct dl_machine_gaps {
    char **keys;
    size_t count;
} dl_machine_gaps;

/* Writes the file to `out` (the caller checks for errors) and appends its gaps. */
void dl_machine_write(const dl_box *box, FILE *out, dl_machine_gaps *gaps);

void dl_machine_gaps_free(dl_machine_gaps *gaps);

/* Processors, memory, PCIe tree, GPUs and NICs of a machine, from an hwloc topology.
 *
 * In the tree, ports of PCIe switches alternate on the way down from a host bridge: root port,
 * upstream port, downstream port, upstream port of the next switch, ... A switch is identified by
 * its upstream port; only those with a GPU or a NIC below are kept. GPUs are NVIDIA's display and
 * 3D controllers; NICs are network controllers that the system has a driver for, without virtual
 * functions.
 *
 * Not modelled: the link that the functions of one card share; devices of other makers. */
struct hwloc_topology; /* struct of hwloc_topology_t */

/* Fills `box`, which the caller zeroed and frees, from a loaded topology with I/O objects. `sysfs`
 * is "/sys", or NULL for another machine's topology: link rates are then those of the topology,
 * port rates unknown. */
void dl_probe_topology(dl_box *box, struct hwloc_topology *topology, const char *sysfs);

/* Fills `box` from this machine's topology. DL_ERR_SYSTEM if hwloc cannot load it. */
dl_status dl_probe_machine(dl_box *box, dl_error *err) DL_MUST_CHECK;

/* Rates of host memory, measured with threads that are bound to cores.
 *
 * The triad a[i] = b[i] + s c[i] of McCalpin's STREAM: the best of several passes over arrays far
 * larger than the caches, three times 8 bytes per element. If the processor reads a line of a
 * before it writes it, memory transfers a third more than is counted.
 *
 * Between sockets: the threads of all sockets simultaneously read arrays in the memory of the next
 * socket. This assumes that memory is placed in the node of the thread that first writes it. */
typedef struct dl_stream_config {
    int threads; /* one on each of the allowed cores 0 .. threads-1; at most dl_cpu_count() */
    double array_bytes;            /* each of the three arrays, over all threads */
    int passes;                    /* >= 1 */
    int (*socket_of_cpu)(int cpu); /* returns a number that is unique to the socket */
} dl_stream_config;

typedef struct dl_stream_rates {
    double triad_bytes_per_s; /* of the whole machine */
    double link_bytes_per_s;  /* from each socket to the next; 0 with one socket */
} dl_stream_rates;

/* Returns the configuration by STREAM's rules: threads on all allowed cores, arrays of four times
 * the caches but at least 64 MiB and at most a sixteenth of the memory, ten passes; sockets as
 * Linux reports them. Both arguments are totals of the machine; 0 = unknown. */
dl_stream_config dl_stream_default_config(double cache_bytes, double memory_bytes);

/* Measures all threads together. DL_ERR_SYSTEM if threads cannot be made or bound. */
dl_status dl_stream_measure(const dl_stream_config *config, dl_stream_rates *rates,
                            dl_error *err) DL_MUST_CHECK;

/* Rates of links and of GPUs' memories.
 *
 * `trace` is from dl_bench_gpu and dl_bench_gpu_memory (profiler/bench/bench_gpu.h),
 * devices[gpu_count] gives each GPU's device number in the trace, -1 if it has none. The rate of
 * each kind of copy is that of the largest size, where latency matters least:
 *
 *   link of GPUs       host to device 0 and back; both together if copies of one direction are
 *                      slower beside the other's
 *   root_bytes_per_s   the sum of concurrent copies to all GPUs, if less than alone; only if
 *                      all are on one socket, none below a switch with another
 *   NVLink             from GPU to GPU, over the lanes between them; or by NVSwitch
 *   memory             an average of n vectors, which reads n and writes one; the best n
 *
 * Not used: latencies; copies over PCIe from GPU to GPU, which dlsim routes over the links measured
 * by copies from and to the host. */
void dl_box_take_copies(dl_box *box, const dl_trace *trace, const int *devices);

/* Returns the index of the GPU at that address, ignoring case; -1 if there is none. */
int dl_box_find_gpu(const dl_box *box, const char *bus_id);

#endif
