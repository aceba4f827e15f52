/* Machines from text and from the files that come with the program, for the tests of the network.
 */
#ifndef DL_TESTS_MACHINE_FIXTURE_H
#define DL_TESTS_MACHINE_FIXTURE_H

#include "tests/check.h"

#include <stdio.h>
#include <string.h>

#include "sim/network/links.h"

/* The sections that all machines of the tests share, with round numbers. */
#define FIXTURE_PARTS                                                        \
    "[gpu_model g]\nmemory_bytes = 1GB\nmemory_bytes_per_s = 1GB/s\n"        \
    "fp32_flop_per_s = 1Tflop/s\n"                                           \
    "[link x16]\nbytes_per_s = 10GB/s\nlatency_ns = 100\n"                   \
    "[link duplex]\nbytes_per_s = 10GB/s\nduplex_bytes_per_s = 15GB/s\n"     \
    "latency_ns = 100\n[link fast]\nbytes_per_s = 50GB/s\nlatency_ns = 50\n" \
    "[link wire]\nbytes_per_s = 1GB/s\nlatency_ns = 5000\n"

/* GPUs 0 to 3 each on a crossbar link of 50 GB/s and 50 ns: any two are 50 GB/s and 100 ns apart,
 * and no other pair disturbs them. */
#define FIXTURE_CROSSBAR                                                                    \
    "[machine]\nschema = 1\nname = crossbar\npeer = none\n" FIXTURE_PARTS                   \
    "[host]\nmemory_bytes_per_s = 40GB/s\n[gpus 0-3]\nmodel = g\nparent = socket0\nlink = " \
    "x16\n[nvswitch]\nlink = fast\n"

static inline dl_machine fixture_machine(const char *text)
{
    dl_machine machine = {0};
    dl_error err = {0};
    if (dl_machine_read_text(&machine, "machine.ini", text, strlen(text), &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    return machine;
}

#ifdef DL_MACHINES
static inline dl_machine fixture_shipped(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.ini", DL_MACHINES, name);
    dl_machine machine = {0};
    dl_error err = {0};
    if (dl_machine_read(&machine, path, &err) != DL_OK) fail_msg("%s: %s", path, err.text);
    return machine;
}
#endif

static inline dl_place gpu_place(int node, int index)
{
    return (dl_place){DL_PLACE_GPU, node, index};
}

static inline dl_place host_place(int node, int socket)
{
    return (dl_place){DL_PLACE_HOST, node, socket};
}

#endif
