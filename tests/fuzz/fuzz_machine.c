#include "common/machine.h"
#include "tests/fuzz/fuzz_driver.h"

static const char whole[] =
    "; by hand\n[machine]\nschema = 1\nname = box\nnodes = 2\nprice_usd_per_hour = 7.2, catalogue\n"
    "peer = switch\ngpudirect = yes\n[gpu_model k80]\nmemory_bytes = 12GiB\n"
    "memory_bytes_per_s = 240GB/s\nfp32_flop_per_s = 4.4Tflop/s, catalogue\n"
    "[link x16]\nbytes_per_s = 12GB/s, measured\nlatency_ns = 1us\n[link qpi]\n"
    "bytes_per_s = 19.2GB/s\nduplex_bytes_per_s = 30GB/s\nlatency_ns = 200\n[host]\nsockets = 2\n"
    "memory_bytes_per_s = 60GB/s\nroot_bytes_per_s = 25GB/s\nsocket_link = qpi\n"
    "[switch low]\nparent = top\nlink = x16\n[switch top]\nparent = socket0\nlink = x16\n"
    "[gpus 0-1]\nmodel = k80\nparent = low\nlink = x16\n"
    "[gpus 2]\nmodel = k80\nparent = socket1\nlink = x16\n"
    "[nics 0]\nparent = top\nlink = x16\nport = qpi\n[network]\nbytes_per_s = 50Gb/s\n"
    "[nvlinks pair]\nlink = qpi\nlanes = 2\npairs = 0-1, 1-2\n[nvswitch]\nlink = qpi\nsum_frac = "
    "0.5\n"
    "[protocol ll]\nlaunch_ns = 1us\nhop_ns = 2us\nnetwork_hop_ns = 3us\nbandwidth_frac = 0.5\n";
static const char small[] =
    "[machine]\nschema = 1\nname = a\npeer = all\n[gpu_model g]\nmemory_bytes = 1\n"
    "memory_bytes_per_s = 1e9\nfp32_flop_per_s = 1e12\n[link l]\nbytes_per_s = 1e9\nlatency_ns = "
    "0\n"
    "[host]\nmemory_bytes_per_s = 1e9\n[gpus 0]\nmodel = g\nparent = socket0\nlink = l\n";
static const char crlf[] =
    "[machine]\r\nschema = 1\r\nname = \r\npeer = all\r\n[gpu_model g]\r\nmemory_bytes = \r\n[link "
    "l]\r\nbytes_per_s = , measured\r\nlatency_ns = 0\r\n[gpus 0]\r\nmodel =\r\nparent = "
    "socket0\r\n";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {
        {whole, sizeof whole - 1}, {small, sizeof small - 1}, {crlf, sizeof crlf - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

static void check_class(const dl_machine *m, int link)
{
    DL_ASSERT(link >= 0 && link < m->class_count, "link class %d of %d", link, m->class_count);
    DL_ASSERT(m->classes[link].bytes_per_s.value > 0, "%g", m->classes[link].bytes_per_s.value);
}

/* What was read is connected, and every index points into its array. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dl_machine m = {0};
    dl_error err = {0};
    if (dl_machine_read_text(&m, "fuzz", (const char *)data, bytes, &err) != DL_OK) {
        DL_ASSERT(err.text[0] != '\0', "status %d without a text", (int)err.code);
        return 0;
    }
    for (int i = 0; i < m.gpu_count; i++) {
        int socket = dl_machine_socket(&m, m.gpus[i].parent);
        DL_ASSERT(socket >= 0 && socket < m.sockets, "socket %d of %d", socket, m.sockets);
        DL_ASSERT(m.gpus[i].model < m.model_count, "model %d", m.gpus[i].model);
        check_class(&m, m.gpus[i].link);
    }
    for (int i = 0; i < m.nic_count; i++) {
        check_class(&m, m.nics[i].link);
        check_class(&m, m.nics[i].port);
    }
    for (int i = 0; i < m.nvlink_count; i++) {
        DL_ASSERT(m.nvlinks[i].a < m.nvlinks[i].b && m.nvlinks[i].b < m.gpu_count, "%d-%d",
                  m.nvlinks[i].a, m.nvlinks[i].b);
    }
    if (m.sockets > 1) check_class(&m, m.socket_link);
    dl_machine_free(&m);
    return 0;
}
