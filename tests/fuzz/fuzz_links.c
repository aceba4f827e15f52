/* The readers of benchmark logs, and the fits to their data. */
#include <gsl/gsl_errno.h>
#include <math.h>

#include "calibrate/links/links.h"
#include "common/status.h"
#include "tests/fuzz/fuzz_driver.h"

static const char nccl[] =
    "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 2\n# Using devices\n"
    "#  Rank  0 Group  0 Pid 41 on n1 device  0 [0000:1b:00] GPU X\n"
    "#  size  count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    " 1024 256 float sum -1 20.5 0.05 0.05 0 21.5 0.05 0.05 0\n"
    " 2048 512 float sum -1 21.5 0.05 0.05 0 21.9 0.05 0.05 0\n"
    " 4096 512 float sum -1 31.5 0.05 0.05 0 29 0.05 0.05 N/A\n"
    " 8192 512 float sum -1 41.5 0.05 0.05 0 52 0.05 0.05 N/A\n";
static const char old_nccl[] =
    "# nThread 1 nGpus 8\n#  size  count type redop time algbw busbw error time algbw busbw error\n"
    " 0 0 float sum 30 0 0 N/A 31 0 0 N/A\n 400000 1000 float sum 100 4 7 N/A 100 4 7 N/A\n";
static const char cuda[] =
    " Device 0: Tesla\nbandwidthTest-H2D-Pinned, Bandwidth = 12.0 GB/s, Time = 0.00050 s, Size = "
    "6000000 bytes, NumDevsUsed = 1\n Device to Host Bandwidth, 1 Device(s)\n PAGEABLE Memory\n"
    "   Transfer Size (Bytes)\tBandwidth(MB/s)\n   32000000\t\t6400.0\n   64000000\t\t6500.0\n";
static const char rates[] =
    "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) (GB/s)\n"
    "  0  1\n 0 N/A 276.07\n 1 275.90 N/A\n\nSUM x 5\ncpu_to_gpu0_by_dma 26.2387\n";
static const char crlf[] =
    "# nThread 1 nGpus 2\r\n#  size  count type redop root time algbw busbw #wrong time algbw "
    "busbw "
    "#wrong\r\n 1024 256 float sum -1 20.5 0.05 0.05 0\r\n 2048\r\n\r\n Device 0:\r\n";

static const char commands[] =
    "[1,0]<stdout>:me@box$ mpirun -np 2 ./build/alltoall_perf -b 8 -g 1\n"
    "> # size time(us) algbw busbw\n> 1024 20.5\n> 0.05 0.05\n| bytes | busbw |\n| 64 | 3 |\n"
    "2026-01-09 04:57:13,12 # bytes N type op time algbw busbw res timestamp\n";
static const char p2p[] =
    "Device=0 CANNOT Access Peer Device=1\nBidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n"
    "   D\\D     0      1\n     0 802.94  52.11\n     1 52.1 8\nP2P=Disabled Latency Matrix (us)\n"
    "   GPU     0\n     0   1.39\n\n   CPU     0\n     0   1.62\n";
static const char messages[] =
    " RDMA_Write BW Test\n #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n"
    " 2 5000 4.26 3.88 2.03\n 4 5000 8.52 8.49 2.2\n RDMA_Read Latency Test\n"
    " #bytes #iterations t_min[usec] t_max[usec] t_typical[usec]\n 2 1000 0.8 5.8 0.9\n"
    "srun -n 4 osu_alltoall\n# OSU MPI All-to-All Personalized Exchange Latency Test v5\n"
    "# Size  Avg Latency(us)\n1 2.5\n2 2.6\n# OSU MPI Bandwidth Test v5\n# Size Bandwidth (MB/s)\n"
    "1 6.5\n2 13\n";
static const char iperf[] =
    "[SUM] 0.00-10.00 sec 31.9 GBytes 27.4 Gbits/sec 0 receiver\n\"sum_received\": {\n"
    "\"bits_per_second\": 2.7e10,\n";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {
        {nccl, sizeof nccl - 1},         {old_nccl, sizeof old_nccl - 1}, {cuda, sizeof cuda - 1},
        {rates, sizeof rates - 1},       {commands, sizeof commands - 1}, {p2p, sizeof p2p - 1},
        {messages, sizeof messages - 1}, {iperf, sizeof iperf - 1},       {crlf, sizeof crlf - 1}};
    gsl_set_error_handler_off();
    *seeds = all;
    return sizeof all / sizeof all[0];
}

static void fit(const dl_link_series *series)
{
    dl_link_fit fit = {0};
    dl_error err = {0};
    for (size_t i = 0; i < series->count; i++) {
        const dl_link_point *p = &series->points[i];
        DL_ASSERT(p->bytes >= 0 && p->time_ns > 0 && p->error_frac >= 0, "%g bytes, %g ns, %g",
                  p->bytes, p->time_ns, p->error_frac);
        DL_ASSERT(i == 0 || p->bytes > p[-1].bytes, "size %g again", p->bytes);
    }
    if (dl_link_fit_run(&fit, series->points, series->count, &err) != DL_OK) {
        DL_ASSERT(err.code == DL_ERR_DATA, "code %d: %s", (int)err.code, err.text);
        return;
    }
    for (size_t i = 0; i < series->count; i++) {
        const double time = dl_link_fit_time_ns(&fit, series->points[i].bytes);
        DL_ASSERT(isfinite(time) && time >= 0, "%g ns at %g bytes", time, series->points[i].bytes);
    }
    dl_link_fit_free(&fit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    DL_SCOPED(dl_link_data) links = {0};
    dl_error err = {0};
    const dl_status status =
        dl_link_data_read_text(&links, "fuzz", (const char *)data, bytes, &err);
    DL_ASSERT(status == DL_OK || err.text[0] != '\0', "an error without text");
    dl_link_data_finish(&links);
    for (size_t i = 0; i < links.series_count; i++)
        fit(&links.series[i]);
    return 0;
}
