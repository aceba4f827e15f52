#include "common/machine_shm.h"

#include <math.h>

#include "common/alloc.h"

/* Measured rates of NCCL and of the driver's copies through host memory, sum of both directions,
 * from issues of the named repositories; an all-reduce moves twice its bus bandwidth. */
#define OF_PCIE3                                                                          \
    "PCIe 3.0, both ways: copies 6.1 to 8.6 GB/s (NVIDIA/nccl 1127), all-reduce 2 x 3.9 " \
    "(384), 2 x 6 to 9 (406)"
#define OF_PCIE4                                                                             \
    "PCIe 4.0, copies both ways of RTX 4090: 26 GB/s (tinygrad/open-gpu-kernel-modules 6), " \
    "21 to 30 (NVIDIA/nccl 814)"
#define OF_PCIE5 "PCIe 5.0, all-reduce: 2 x 24 to 35 GB/s (NVIDIA/nccl 1130), 2 x 28 to 35 (1639)"

static const struct slot {
    double wire_bytes_per_s;
    struct {
        const char *rates, *source;
    } by[2]; /* by the slot that the GPU supports, and by the detected slot */
} slots[] = {
    {DL_PCIE3_X8_BYTES_PER_S,
     {{"7GB/s (4GB/s to 11GB/s)", OF_PCIE3 "; at most what 8 lanes carry"},
      {"7GB/s (4GB/s to 11GB/s)", OF_PCIE3 "; at most what 8 lanes carry"}}},
    {DL_PCIE3_X16_BYTES_PER_S,
     {{"9GB/s (6GB/s to 16GB/s)", OF_PCIE3}, {"9GB/s (6GB/s to 16GB/s)", OF_PCIE3}}},
    {DL_PCIE4_X16_BYTES_PER_S,
     {{"12GB/s (6GB/s to 28GB/s)", OF_PCIE4 "; slots may be of 3.0, or x8"},
      {"20GB/s (10GB/s to 32GB/s)", OF_PCIE4}}},
    {DL_PCIE5_X16_BYTES_PER_S,
     {{"28GB/s (10GB/s to 70GB/s)", OF_PCIE5 "; slots may be of 4.0, or x8"},
      {"45GB/s (20GB/s to 70GB/s)", OF_PCIE5}}},
};

void dl_machine_write_shm(FILE *out, double wire_bytes_per_s, bool seen, const char *of)
{
    size_t nearest = 0;
    for (size_t i = 1; i < DL_LENGTH(slots); i++)
        if (fabs(log(slots[i].wire_bytes_per_s / wire_bytes_per_s)) <
            fabs(log(slots[nearest].wire_bytes_per_s / wire_bytes_per_s)))
            nearest = i;
    fprintf(out, "[shm%s]\nbytes_per_s = %s, assumed\nsource = %s\n", of,
            slots[nearest].by[seen].rates, slots[nearest].by[seen].source);
}

void dl_machine_write_overlap(FILE *out, const char *of)
{
    fprintf(out,
            "[overlap%s]\ninside_slowdown = 9 (1.02 to 80), assumed\n"
            "source = DistributedDataParallel hid nothing of 498 MB of GPT-2 on two TITAN RTX "
            "(huggingface/transformers 9371), Horovod all of ResNet-50 on four RTX 2080 Ti "
            "(HKBU-HPML/ddl-benchmarks)\n",
            of);
}
