#include "tests/refused.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "calibrate/links/links.h"
#include "trace/dlt/dlt.h"

static dl_link_data read_text(const char *name, const char *text)
{
    dl_link_data data = {0};
    dl_error err = {0};
    if (dl_link_data_read_text(&data, name, text, strlen(text), &err) != DL_OK)
        fail_msg("line %d: %s", err.line, err.text);
    dl_link_data_finish(&data);
    return data;
}

/* The head of a run on 8 GPUs of two nodes. */
#define RANKS                                                             \
    "# Using devices\n"                                                   \
    "#  Rank  0 Group  0 Pid 41 on node-1 device  0 [0000:1b:00] GPU X\n" \
    "#  Rank  1 Group  0 Pid 42 on node-2 device  0 [0000:1b:00] GPU X\n"
#define NEW_HEAD                                                                              \
    "#\n#       size   count   type   redop    root     time   algbw   busbw #wrong     time" \
    "   algbw   busbw #wrong\n#        (B)    (elements)   (us)  (GB/s)  (GB/s)\n"

/* JSON of nccl-tests -J: two processes of two GPUs, of which it lists the first ones. */
static void its_json_is_read_as_its_table(void **state DL_UNUSED)
{
    static const char json[] =
        "{\"version\":2,\"start_time\":\"2026-01-02 "
        "03:04:05\",\"args\":[\".\\/build\\/all_gather_perf\","
        "\"-b\",\"8\"],\"env\":[\"A=\\\"b\\\"\"],\"nccl_version\":22703,\"config\":{\"nthreads\":1,"
        "\"ngpus\":2,"
        "\"step_factor\":2,\"devices\":[{\"rank\":0,\"group\":0,\"pid\":7,\"hostname\":\"a\","
        "\"device\":0,"
        "\"device_hex\":\"0000:1b:00\",\"device_info\":\"GPU X "
        "80GB\"},{\"rank\":2,\"hostname\":\"b\","
        "\"device_info\":\"GPU X 80GB\"}]},\"results\":["
        "{\"size\":1024,\"count\":64,\"type\":\"float\",\"redop\":\"none\",\"root\":\"    "
        "-1\",\"out_of_place\":"
        "{\"time\":20.512345,\"alg_bw\":0.049921,\"bus_bw\":0.037441,\"nwrong\":0.000000},\"in_"
        "place\":"
        "{\"time\":19.5,\"alg_bw\":0.05,\"bus_bw\":0.04,\"nwrong\":null},\"actual_iterations\":20,"
        "\"experiment_name\":\"AllGather\"},"
        "{\"size\":2048,\"count\":128,\"type\":\"float\",\"redop\":\"none\",\"root\":\"    -1\","
        "\"out_of_place\":null,\"in_place\":{\"time\":21.25,\"alg_bw\":0.1,\"bus_bw\":0.07,"
        "\"nwrong\":0.0}}],"
        "\"out_of_bounds\":{\"count\":0,\"okay\":\"true\"},\"errors\":[]}\n";
    DL_SCOPED(dl_link_data) data = read_text("run.json", json);
    assert_int_equal(data.series_count, 2);
    const dl_link_series *out = &data.series[0], *in = &data.series[1];
    assert_string_equal(out->name, "allgather");
    assert_string_equal(out->device, "GPU X 80GB");
    assert_int_equal(out->ranks, 4);
    assert_int_equal(out->nodes, 2);
    assert_int_equal(out->place, DL_LINK_OUT_OF_PLACE);
    assert_int_equal(out->count, 1);
    assert_true(out->points[0].bytes == 1024 && fabs(out->points[0].time_ns - 20512.345) < 1e-9);
    assert_int_equal(in->place, DL_LINK_IN_PLACE);
    assert_int_equal(in->count, 2);
    assert_true(in->points[1].bytes == 2048 && in->points[1].time_ns == 21250);
}

static void several_tables_of_new_nccl_tests_are_read(void **state DL_UNUSED)
{
    DL_SCOPED(dl_link_data) data = read_text(
        "run.log",
        "# nccl-tests version 2.17.8\n# Collective test starting: all_reduce_perf\n"
        "# nThread 1 nGpus 1 minBytes 8\n" RANKS NEW_HEAD
        "       1024  256  float  sum  -1  20.5  0.05  0.05  0  21.5  0.05  0.05  0\n"
        "node-1:4:4 [0] NCCL INFO something\n"
        "       2048  512  float  sum  -1  22.0  0.09  0.09  0  N/A  N/A  N/A  N/A\n"
        "# Out of bounds values : 0 OK\n"
        "# Collective test starting: alltoall_perf\n# nThread 1 nGpus 1\n" RANKS NEW_HEAD
        "[1,0]<stdout>:  4096  512  float  none  -1  30  0.1  0.1  0  31  0.1  0.1  N/A\n");
    assert_int_equal(data.series_count, 4);
    const dl_link_series *out = &data.series[0], *in = &data.series[1];
    assert_string_equal(out->name, "allreduce");
    assert_string_equal(out->device, "GPU X");
    assert_int_equal(out->ranks, 2);
    assert_int_equal(out->nodes, 2);
    assert_int_equal(out->place, DL_LINK_OUT_OF_PLACE);
    assert_int_equal(out->count, 2);
    assert_true(out->points[0].bytes == 1024 && out->points[0].time_ns == 20500);
    assert_int_equal(in->count, 1); /* N/A is skipped */
    assert_int_equal(in->points[0].line, 10);
    assert_string_equal(data.series[3].name, "alltoall");
}

#define OLD_RUN "# nThread 1 nGpus 8 minBytes 1 maxBytes 8\n# Using devices\n"

/* Tables without an announcement: identified by columns, busbw / algbw, and the file's name. */
static void old_tables_tell_their_collective(void **state DL_UNUSED)
{
    static const struct {
        const char *file, *columns, *row, *name;
    } cases[] = {
        {"a.log", "type   redop", "float sum 100 4.0 7.0 N/A 100 4.0 7.0 N/A", "allreduce"},
        {"a.log", "type   redop", "float sum 100 4.0 3.5 N/A 100 4.0 3.5 N/A", "reducescatter"},
        {"a.log", "type   redop root", "float sum 0 100 4.0 4.0 0 100 4.0 4.0 0", "reduce"},
        {"x_all_gather.log", "type", "float 100 4.0 3.5 N/A 100 4.0 3.5 N/A", "allgather"},
        {"x_alltoall.log", "type", "float 100 4.0 3.5 N/A 100 4.0 3.5 N/A", "alltoall"},
        {"b.log", "type redop root", "float sum -1 100 4.0 7.0 0 100 4.0 7.0 0", "allreduce"},
        {"b.log", "type root", "float 0 100 4.0 4.0 0 100 4.0 4.0 0", "broadcast"},
    };
    char text[1024];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text,
                 OLD_RUN "#  size  count  %s  time algbw busbw error time algbw busbw error\n"
                         "   0 0 %s\n 400000 100000 %s\n",
                 cases[i].columns, cases[i].row, cases[i].row);
        DL_SCOPED(dl_link_data) data = read_text(cases[i].file, text);
        assert_string_equal(data.series[0].name, cases[i].name);
        assert_int_equal(data.series[0].ranks, 8);
    }
}

/* Output of eight tasks of `srun --label`, and a log without the '#' of its lines. */
static void labels_and_missing_hashes_do_not_matter(void **state DL_UNUSED)
{
    static const char *const texts[] = {
        "0: # Collective test starting: all_reduce_perf\n"
        "0: # nThread 1 nGpus 1 minBytes 8\n"
        "0: #  Rank  0 Group  0 Pid 41 on node-1 device  0 [0000:1b:00] GPU X\n"
        "0: #  Rank  1 Group  0 Pid 42 on node-2 device  0 [0000:1b:00] GPU X\n"
        "7: node-2:4:4 [0] NCCL INFO something\n"
        "0: #  size  count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "0: \n"
        "0:        1024  256  float  sum  -1  20.5  0.05  0.05  0  21.5  0.05  0.05  0\n",
        "Collective test starting: all_reduce_perf\n"
        "nThread 1 nGpus 1 minBytes 8\n"
        "  Rank  0 Group  0 Pid 41 on node-1 device  0 [0000:1b:00] GPU X\n"
        "  Rank  1 Group  0 Pid 42 on node-2 device  0 [0000:1b:00] GPU X\n"
        "  size  count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "  (B)  (elements)  (us)  (GB/s)  (GB/s)\n"
        "         1024  256  float  sum  -1  20.5  0.05  0.05  0  21.5  0.05  0.05  0\n",
    };
    for (size_t i = 0; i < 2; i++) {
        DL_SCOPED(dl_link_data) data = read_text("x.log", texts[i]);
        assert_int_equal(data.series_count, 2);
        assert_string_equal(data.series[0].name, "allreduce");
        assert_string_equal(data.series[0].device, "GPU X");
        assert_int_equal(data.series[0].ranks, 2);
        assert_int_equal(data.series[0].nodes, 2);
        assert_true(data.series[1].points[0].time_ns == 21500);
    }
}

/* Only rows: columns, and busbw / algbw = 2 x 7 / 8 of an all-reduce of 8 ranks, then 3 / 4 of a
 * reduce-scatter of 4. */
static void rows_alone_are_a_table(void **state DL_UNUSED)
{
    DL_SCOPED(dl_link_data) data = read_text(
        "rows.log", "  1048576 262144 float sum -1 80.0 13.11 22.94 0 81.0 12.95 22.66 0\n"
                    "  2097152 524288 float sum -1 90.0 23.30 40.78 0 91.0 23.05 40.33 0\n"
                    "  1048576 262144 float sum -1 50.0 20.97 15.73 0 51.0 20.56 15.42 0\n"
                    "  2097152 524288 float sum -1 60.0 34.95 26.21 0 N/A N/A N/A N/A\n");
    assert_int_equal(data.series_count, 4);
    assert_string_equal(data.series[0].name, "allreduce");
    assert_int_equal(data.series[0].ranks, 8);
    assert_int_equal(data.series[0].nodes, 0);
    assert_int_equal(data.series[0].count, 2);
    assert_true(data.series[0].points[1].time_ns == 90000);
    assert_string_equal(data.series[2].name, "reducescatter");
    assert_int_equal(data.series[2].ranks, 4);
    assert_int_equal(data.series[3].count, 1);
}

#define COLUMNS "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
/* 100 kB in 100 us are 1 GB/s. */
#define GATHERED(count, half) \
#count "00000 16 float none -1 100 " #count ".0 " #half ".0 0 100 " #count ".0 " #half ".0 0\n"

/* busbw is half of algbw, which fits an all-gather, an all-to-all, and others of two ranks. */
static void commands_name_their_tables(void **state DL_UNUSED)
{
    static const struct {
        const char *text, *names[3];
    } cases[] = {
        {"me@box:~$ ./build/all_gather_perf -g 2\n" COLUMNS GATHERED(64, 32) GATHERED(
             128,
             64) "me@box:~$ mpirun -np 2 --bind-to none ./build/alltoall_perf -b 8 -g 1\n" COLUMNS
             GATHERED(64, 32),
         {"allgather", "alltoall"}},
        /* A failed command precedes. */
        {"$ ./alltoall_perf -g 4\nInvalid number of GPUs\n$ ./all_gather_perf -g 2\n" COLUMNS
             GATHERED(64, 32),
         {"allgather"}},
        /* A list of files is not a command; commands of a script run in order. */
        {"all_gather_perf alltoall_perf\nsrun -n 2 /opt/alltoall_perf -b 8\n"
         "srun -n 2 /opt/all_gather_perf -b 8\n" COLUMNS GATHERED(64, 32) COLUMNS GATHERED(64, 32),
         {"alltoall", "allgather"}},
        /* A command that runs twice. */
        {"+ ./alltoall_perf -g 2\n# nThread 1 nGpus 2\n" COLUMNS GATHERED(
             64, 32) "# nThread 1 nGpus 4\n" COLUMNS
                     "6400000 16 float none -1 100 64.0 48.0 0 N/A N/A N/A N/A\n",
         {"alltoall", "alltoall"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_SCOPED(dl_link_data) data = read_text("x.log", cases[i].text);
        for (size_t k = 0; cases[i].names[k] != NULL; k++) {
            assert_true(2 * k < data.series_count);
            assert_string_equal(data.series[2 * k].name, cases[i].names[k]);
            assert_int_equal(data.series[2 * k].ranks, i == 3 && k == 1 ? 4 : 2);
        }
    }
}

/* 0.33 us is not a call: 8 bytes are too few to be divided among the ranks. */
static void rows_of_no_bytes_are_no_calls(void **state DL_UNUSED)
{
    DL_SCOPED(dl_link_data) data = read_text(
        "x.log", "# Collective test starting: all_gather_perf\n# nThread 1 nGpus 2\n" COLUMNS
                 "0 0 float none -1 0.33 0 0 0 0.33 0 0 0\n" GATHERED(32, 16));
    assert_int_equal(data.series_count, 2);
    assert_int_equal(data.series[0].count, 1);
    assert_true(data.series[0].points[0].bytes == 3.2e6);
}

/* algbw with few digits, 0.01 GB/s of 8 bytes in 0.6 us; and of an old version, without a rank's
 * own part: 4 MB in 2 ms are 2 GB/s, of which 3/4 belong to the other three. */
static void rates_agree_within_their_digits(void **state DL_UNUSED)
{
    static const char *const texts[] = {
        "# Collective test starting: all_reduce_perf\n# size count time algbw\n 8 2 0.6 0.01\n",
        "# Collective test starting: all_gather_perf\n# nThread 1 nGpus 4\n"
        "# size count time algbw busbw\n 4000000 250000 2000 1.5 1.5\n"};
    for (size_t i = 0; i < DL_LENGTH(texts); i++) {
        DL_SCOPED(dl_link_data) data = read_text("x.log", texts[i]);
        assert_int_equal(data.series_count, 1);
    }
}

/* Heads of NCCL 1 and of partial copies. Bytes over 2 GB/s; busbw of an all-reduce of 4 ranks is 2
 * x 3 / 4 of algbw; NCCL 1 prints milliseconds. */
static void tables_may_lack_columns(void **state DL_UNUSED)
{
    static const struct {
        const char *columns, *row;
        double time_ns;
        dl_link_place place;
    } cases[] = {
        {"size time algbw busbw", "4000000 2000 2.0 3.0", 2e6, DL_LINK_ANYWHERE},
        {"size(B) algbw(GB/s) busbw(GB/s)", "4000000 2.0 3.0", 2e6, DL_LINK_ANYWHERE},
        {"size count busbw #wrong", "4000000 1000000 3.0 0", 2e6, DL_LINK_ANYWHERE},
        {"size busbw busbw", "4000000 3.0 6.0", 2e6, DL_LINK_OUT_OF_PLACE},
        {"size time(ms) busbw", "4000000 2.0 3.0", 2e6, DL_LINK_ANYWHERE},
        {"size count type redop root cputime algbw busbw #wrong timestamp",
         "4000000 1000000 float sum -1 9.0 2.0 3.0 0 2026-01-01 10:00:00", 2e6, DL_LINK_ANYWHERE},
        {"bytes N type op time algbw busbw res time algbw busbw res",
         "4000000 1000000 float sum 2.0 2.0 3.0 0e+00 2.0 2.0 3.0 0e+00", 2e6,
         DL_LINK_OUT_OF_PLACE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "$ ./all_reduce_perf -t 2 -g 2\n# %s\n  %s\n#bytes #iterations\n 9 9 9\n",
                 cases[i].columns, cases[i].row);
        DL_SCOPED(dl_link_data) data = read_text("x.log", text);
        assert_true(data.series_count >= 1);
        assert_string_equal(data.series[0].name, "allreduce");
        assert_int_equal(data.series[0].ranks, 4);
        assert_int_equal(data.series[0].place, cases[i].place);
        assert_true(fabs(data.series[0].points[0].time_ns - cases[i].time_ns) < 1);
    }
}

/* Other names of columns, units and collectives. */
static void tables_of_other_tools_are_read(void **state DL_UNUSED)
{
    dl_link_data data = read_text("t.csv", "# mine\nOp,World_Size,nodes,size,dtype,time_ms\n"
                                           "all_reduce,16,2,4096,f16,0.25\n"
                                           "all_gather_perf,16,2,4096,f16,0.5\n");
    assert_int_equal(data.series_count, 2);
    assert_string_equal(data.series[0].name, "allreduce");
    assert_int_equal(data.series[0].ranks, 16);
    assert_int_equal(data.series[0].nodes, 2);
    assert_true(data.series[0].points[0].bytes == 4096);
    assert_true(data.series[0].points[0].time_ns == 250000);
    assert_string_equal(data.series[1].name, "allgather");
    dl_link_data_free(&data);
}

static dl_status read_wrong(const char *text, dl_error *err)
{
    DL_SCOPED(dl_link_data) data = {0};
    return dl_link_data_read_text(&data, "x.log", text, strlen(text), err);
}

static void faults_are_named_with_their_line(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {"# Collective test starting: all_reduse_perf\n", DL_ERR_NAME, 1,
         "did you mean 'all_reduce'?"},
        {OLD_RUN "#  size  count type redop time algbw busbw error time algbw busbw error\n"
                 " 8 2 float sum 100 4.0\n",
         DL_ERR_PARSE, 4, "6 columns where the head has 12"},
        {OLD_RUN "#  size  count type time algbw busbw error time algbw busbw error\n"
                 " 8 2 float 100 4.0 3.5 N/A 100 4.0 3.5 N/A\n",
         DL_ERR_DATA, 4, "cannot determine which collective"},
        {"# Collective test starting: broadcast_perf\n"
         "#  size  count type time algbw busbw error time algbw busbw error\n"
         " 8 2 float 1x0 4.0 3.5 N/A 100 4.0 3.5 N/A\n",
         DL_ERR_PARSE, 3, "'1x0' is not a number"},
        {"# Collective test starting: all_reduce_perf\n# size count time algbw busbw\n"
         " 8 2 9.31 0.00 0.00\n 536870912 134217728 21.15 253.81 444.16\n",
         DL_ERR_DATA, 4,
         "size, time and algbw contradict one another: 536870912 bytes in 21.1 us are 2.538e+04 "
         "GB/s, not 253.81"},
        {"# Collective test starting: all_gather_perf\n# size count time algbw busbw\n"
         " 4000000 1000000 2000 4.0 3.0\n",
         DL_ERR_DATA, 3, "contradict one another"},
        {"# Collective test starting: all_reduce_perf\n#  size  count busbw\n 8 2 0.5\n",
         DL_ERR_DATA, 3, "without the number of ranks"},
        {"[ ID] Interval  Transfer  Bitrate  Jitter  Lost/Total Datagrams\n", DL_ERR_DATA, 1,
         "iperf3 -u sends datagrams at the rate of its option -b"},
        {"{\n \"protocol\":\t\"UDP\",\n", DL_ERR_DATA, 2, "measure without -u"},
        {"bandwidthTest-H2D-Pinned, Bandwidth = 1 GB/s, Size = 5 bytes\n", DL_ERR_PARSE, 1,
         "expected Bandwidth"},
        {"Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
         " 0 1\n 0 5.0\n",
         DL_ERR_PARSE, 4, "1 cells where the matrix has 2"},
        {"Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth "
         "(GB/s)\n 0 1\n 0 N/A 276.07\n",
         DL_ERR_DATA, 4, "the matrix ends after 1 of 2 rows: the log is cut off"},
        {"Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n D\\D 0 1\n 0 801.28 22.23\n\n",
         DL_ERR_DATA, 4, "the matrix ends after 1 of 2 rows"},
        {"{\"results\": {\n\"MsgSize\": 65536,\n\"BW_average\": 194.00\n}}\n", DL_ERR_DATA, 0,
         "perftest's JSON does not give its units"},
        {"{\"nvbandwidth\": {\"bandwidth_matrix\": [[\"55.1\"]]}}\n", DL_ERR_DATA, 0, "without -j"},
        {"Client connecting to 10.0.0.2, TCP port 5001\n"
         "[  3]  0.0-10.0 sec  1.10 GBytes   941 Mbits/sec\n",
         DL_ERR_DATA, 0, "measure with iperf3"},
        {"nothing\n", DL_ERR_DATA, 0, "there is no table"},
    };
    assert_all_refused(cases, "x.log", read_wrong);
}

static void both_forms_of_bandwidth_test_are_read(void **state DL_UNUSED)
{
    DL_SCOPED(dl_link_data) data = read_text(
        "bw.log", " Device 0: Tesla V100-PCIE-32GB\n"
                  "bandwidthTest-H2D-Pinned, Bandwidth = 12.0 GB/s, Time = 0.00050 s, Size = "
                  "6000000 bytes, NumDevsUsed = 1\n"
                  "bandwidthTest-H2D-Pinned, Bandwidth = 12.0 GB/s, Time = 0.00100 s, Size = "
                  "12000000 bytes, NumDevsUsed = 1\n"
                  " Device to Host Bandwidth, 1 Device(s)\n PAGEABLE Memory Transfers\n"
                  "   Transfer Size (Bytes)\tBandwidth(MB/s)\n   32000000\t\t6400.0\n"
                  "   64000000\t\t6400.0\n"
                  " Host to Device Bandwidth, 1 Device(s)\n PAGEABLE Memory Transfers\n"
                  "   Transfer Size (Bytes)\tBandwidth(GB/s)\n   32000000\t\t6.2\n");
    assert_int_equal(data.series_count, 2);
    assert_int_equal(data.rate_count, 1); /* measured at one size */
    assert_string_equal(data.rates[0].name, "h2d pageable");
    assert_true(fabs(data.rates[0].value - 6.2e9) < 1);
    assert_string_equal(data.series[0].name, "h2d");
    assert_string_equal(data.series[0].device, "Tesla V100-PCIE-32GB");
    assert_true(fabs(data.series[0].points[0].time_ns - 500e3) < 1);
    /* 0.05 of 12.0 is less than 0.000005 of 0.00050. */
    assert_true(fabs(data.series[0].points[0].error_frac - 0.05 / 12 / sqrt(3)) < 1e-6);
    assert_string_equal(data.series[1].name, "d2h pageable");
    assert_true(fabs(data.series[1].points[0].time_ns - 5e6) < 1);
}

static void matrices_and_single_rates_are_read(void **state DL_UNUSED)
{
    dl_link_data data = read_text(
        "nv.log", "nvbandwidth Version: v0.4\nRunning device_to_device_memcpy_read_ce.\n"
                  "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
                  "           0         1\n 0       N/A    276.07\n 1    275.90       N/A\n\n"
                  "SUM device_to_device_memcpy_read_ce 551.97\n\n"
                  "Running device_to_device_latency_sm.\n"
                  "Device to Device Latency SM GPU(row) <- GPU(column) latency (ns)\n"
                  "           0         1\n 0       N/A    600.5\n 1    601.5       N/A\n");
    assert_int_equal(data.rate_count, 4);
    assert_string_equal(data.rates[0].name, "device_to_device_memcpy_read_ce");
    assert_string_equal(data.rates[0].pair, "0 1");
    assert_true(data.rates[1].value == 275.90e9 && !data.rates[1].is_latency);
    assert_true(data.rates[3].value == 601.5 && data.rates[3].is_latency);
    dl_link_data_free(&data);
    data = read_text("copy.log", "cpu_to_gpu0_by_dma_under_numa0 26.2387\n"
                                 "cpu_to_gpu1_by_dma_under_numa0 26.2392\n");
    assert_int_equal(data.rate_count, 2);
    assert_string_equal(data.rates[1].name, "cpu_to_gpuN_by_dma_under_numaN");
    assert_true(data.rates[1].value == 26.2392e9);
    dl_link_data_free(&data);
}

/* Two RTX 6000 Ada in one box (published log of p2pBandwidthLatencyTest), shortened; the diagonal
 * is not a link, and times of the host are not latencies. */
static void matrices_of_peers_are_read(void **state DL_UNUSED)
{
    DL_SCOPED(dl_link_data) data = read_text(
        "p2p.log", "Device=0 CAN Access Peer Device=1\nDevice=1 CANNOT Access Peer Device=0\n"
                   "P2P Connectivity Matrix\n     D\\D     0     1\n     0       1     1\n"
                   "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n"
                   "     0 801.28  22.23 \n     1  22.32 813.80 \n"
                   "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n"
                   "   D\\D     0      1\n     0 800.15  26.32\n     1  26.32 831.12\n"
                   "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n"
                   "   D\\D     0      1\n     0 802.94  52.11\n     1  52.11 801.9\n"
                   "P2P=Disabled Latency Matrix (us)\n   GPU     0      1\n     0   1.39  10.90\n  "
                   "   1  10.91   1.39\n\n"
                   "   CPU     0      1\n     0   1.62   4.74\n     1   4.74   1.62\n");
    assert_int_equal(data.peers, 1);
    assert_int_equal(data.peerless, 1);
    assert_int_equal(data.rate_count, 16);
    assert_string_equal(data.rates[0].name, "copy within a GPU's memory");
    assert_string_equal(data.rates[1].name, "GPU to GPU, P2P=Disabled");
    assert_string_equal(data.rates[1].pair, "0 1");
    assert_true(data.rates[1].value == 22.23e9);
    assert_string_equal(data.rates[5].name, "GPU to GPU, P2P=Enabled");
    assert_string_equal(data.rates[9].name, "GPU and GPU, P2P=Enabled");
    assert_true(data.rates[13].is_latency && data.rates[13].value == 10900);
}

/* MB of perftest are 2^20 bytes: 65536 x 0.044127e6 per second are 2892e6 bytes, or 2757.93 MB. */
static void messages_are_read(void **state DL_UNUSED)
{
    DL_SCOPED(dl_link_data) data = read_text(
        "ib.log",
        "   RDMA_Write BW Test\n"
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        " 65536      1000             2757.96            2757.93\t\t   0.044127\n"
        "   RDMA_Write Bidirectional BW Test\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]\n"
        " 65536      5000             194.04              194.00\n"
        " RDMA_Read Latency Test\n"
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n"
        " 2       1000          0.81           5.85               0.93\n"
        "$ mpirun -np 4 ./osu_allgather\n# OSU MPI-CUDA Allgather Latency Test v5.9\n"
        "# Size       Avg Latency(us)\n1024   20.50\n2048  21.00\n"
        "# OSU MPI Bandwidth Test v5.3\n# Size      Bandwidth (MB/s)\n1  0\n4096  6009.90\n"
        "# OSU MPI Multiple Bandwidth / Message Rate Test v5.6.3\n# [ pairs: 2 ] [ window size: 64 "
        "]\n"
        "# Size    MB/s   Messages/s\n4096  12019.00  2934326\n"
        "[  5]   0.00-10.00  sec  31.9 GBytes  27.4 Gbits/sec    0             sender\n"
        "[  5]   0.00-10.00  sec  31.9 GBytes  27.3 Gbits/sec                  receiver\n"
        "iperf Done.\n"
        "[  5]   0.00-10.00  sec  7.9 GBytes  6.8 Gbits/sec                  receiver\n"
        "[  7]   0.00-10.00  sec  7.9 GBytes  6.9 Gbits/sec                  receiver\n"
        "[SUM]   0.00-10.00  sec  15.9 GBytes  13.7 Gbits/sec                  receiver\n");
    assert_int_equal(data.rate_count, 6);
    assert_string_equal(data.rates[5].name, "mpi messages of all pairs");
    assert_true(fabs(data.rates[5].value - 12019e6) < 1);
    assert_true(fabs(data.rates[1].value - 13.7e9 / 8) < 1); /* not of each stream */

    assert_string_equal(data.rates[0].name, "iperf3, received");
    assert_true(fabs(data.rates[0].value - 27.3e9 / 8) < 1);
    assert_string_equal(data.rates[2].name, "rdma write");
    assert_true(fabs(data.rates[2].value - 65536 * 0.044127e6) < 1e5);
    assert_string_equal(data.rates[3].name, "rdma write both ways");
    assert_true(fabs(data.rates[3].value - 194e9 / 8) < 1);
    assert_true(fabs(data.rates[4].value - 6009.9e6) < 1);
    assert_int_equal(data.series_count, 2);
    assert_string_equal(data.series[0].name, "rdma read latency");
    assert_true(data.series[0].points[0].time_ns == 930);
    assert_string_equal(data.series[1].name, "allgather");
    assert_int_equal(data.series[1].ranks, 4);
    assert_true(data.series[1].points[1].bytes == 8192); /* 4 ranks */
}

/* The first column of a non-blocking collective includes computation. */
static void time_of_non_blocking_collectives_is_pure(void **state DL_UNUSED)
{
    dl_link_data data =
        read_text("osu.log", "$ mpirun -np 8 ./osu_iallreduce\n"
                             "# OSU MPI Non-blocking Allreduce Latency Test v5.9\n"
                             "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n"
                             "# Size  Overall(us)  Compute(us)  Pure Comm.(us)  Overlap(%)\n"
                             "1024  100.5  60.25  61.75  34.2\n2048  110.5  70.25  71.75  43.9\n");
    assert_string_equal(data.series[0].name, "allreduce");
    assert_true(data.series[0].points[0].time_ns == 61750);
    dl_link_data_free(&data);
    data = read_text(
        "osu7.log", "$ mpirun -np 8 ./osu_iallreduce\n"
                    "# OSU MPI Non-blocking Allreduce Latency Test v7.4\n"
                    "# Size  Overall(us)  Compute(us)  Coll. Init(us)  MPI_Test(us)  MPI_Wait(us)  "
                    "Pure Comm.(us)  Min Comm.(us)  Max Comm.(us)  Overlap(%)\n"
                    "1024  100.5  60.25  1.5  2.5  3.5  61.75  58.5  63.5  34.2\n");
    assert_true(data.series[0].points[0].time_ns == 61750);
    dl_link_data_free(&data);
}

/* A server's log of two runs of two streams each: a sum of each. */
static void a_sum_replaces_the_streams_of_its_run(void **state DL_UNUSED)
{
    dl_link_data data =
        read_text("server.log", "Accepted connection from 10.0.0.2, port 1\n"
                                "[  5]   0.00-10.00  sec  5 GBytes  4 Gbits/sec   receiver\n"
                                "[  8]   0.00-10.00  sec  5 GBytes  4 Gbits/sec   receiver\n"
                                "[SUM]   0.00-10.00  sec  10 GBytes  8 Gbits/sec   receiver\n"
                                "Accepted connection from 10.0.0.2, port 2\n"
                                "[  5]   0.00-10.00  sec  5 GBytes  2 Gbits/sec   receiver\n"
                                "[SUM][RX-S] 0.00-10.00  sec  10 GBytes  4 Gbits/sec   receiver\n");
    assert_int_equal(data.rate_count, 2);
    assert_true(fabs(data.rates[0].value - 1e9) < 1 && fabs(data.rates[1].value - 0.5e9) < 1);
    dl_link_data_free(&data);
}

/* The times of calls with wrong results are counted, out of place and in place. */
static void wrong_results_are_counted(void **state DL_UNUSED)
{
    DL_SCOPED(dl_link_data) data = read_text(
        "bad.log", "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 4\n"
                   "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
                   " 1024 256 float sum -1 20.5 0.05 0.07 N/A 21.5 0.05 0.07 0\n"
                   " 2048 512 float sum -1 22.0 0.09 0.14 3 23.0 0.09 0.13 12\n");
    assert_int_equal(data.wrong, 2);
    assert_string_equal(data.first_wrong, "bad.log:5");
}

/* Terminals, launchers and services add text around each line; e-mail wraps long ones. */
static void lines_are_read_as_people_paste_them(void **state DL_UNUSED)
{
    static const struct {
        const char *before, *after;
    } cases[] = {
        {"[1,0]<stdout>:", ""},
        {"> > ", "\r"},
        {"\033[32m", "\033[0m"},
        {"2026-01-09T04:57:13.123456789Z stdout F ", ""},
        {"2026-01-09 04:57:13,123 ", ""},
        {"[2026-01-09 04:57:13] ", ""},
        {"[pod/nccl-launcher/main] ", ""},
        {"[default0]:", ""},
        {"worker-0-1  | ", ""},
        {"node-17: ", ""},
        {"(Worker pid=41, ip=10.0.0.1) ", ""},
        {"| ", " |"},
        {"\xc2\xa0\t", ""},
    };
    static const char *const lines[] = {
        "```",
        "# Collective test starting: all_reduce_perf",
        "# nThread 1 nGpus 4",
        "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
        " 1024 256 float sum -1 20.5 0.05 0.05 0 21.5 0.05 0.05 0",
        " 2048 512 float sum -1 22.0 0.09 0.09",
        " 0 23.0 0.09 0.09 0",
        "# Out of bounds values : 0 OK",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048] = "";
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
            const size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%s%s\n", cases[i].before, lines[k],
                     cases[i].after);
        }
        DL_SCOPED(dl_link_data) data = read_text("x.log", text);
        assert_int_equal(data.series_count, 2);
        assert_string_equal(data.series[1].name, "allreduce");
        assert_int_equal(data.series[1].ranks, 4);
        assert_int_equal(data.series[1].count, 2);
        assert_true(data.series[1].points[1].time_ns == 23000);
    }
}

/* 4096 sizes on a line, 10 us + 1 ns per byte, become 512 on the same line. */
static void many_sizes_are_joined(void **state DL_UNUSED)
{
    size_t used = 0;
    const size_t room = 4200 * 64;
    DL_AUTOFREE char *text = malloc(room);
    assert_non_null(text);
    used += (size_t)snprintf(text, room, "collective,ranks,bytes,time_us\n");
    for (int i = 1; i <= 4096; i++)
        used += (size_t)snprintf(text + used, room - used, "allreduce,2,%d,%d\n", 1000 * i, 10 + i);
    DL_SCOPED(dl_link_data) data = read_text("many.csv", text);
    assert_int_equal(data.series[0].count, 512);
    for (size_t i = 0; i < 512; i++) {
        const dl_link_point *p = &data.series[0].points[i];
        assert_int_equal(p->count, 8);
        assert_true(fabs(p->time_ns - 10000 - p->bytes) < 1e-3);
    }
}

/* A script that runs several programs produces one log. */
static void one_log_may_hold_several_programs(void **state DL_UNUSED)
{
    dl_link_data data =
        read_text("all.log", "bandwidthTest-H2D-Pinned, Bandwidth = 12.0 GB/s, Time = 0.00050 s, "
                             "Size = 6000000 bytes, NumDevsUsed = 1\n"
                             "Running device_to_device_memcpy_read_ce.\n"
                             "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
                             "     0    1\n 0  N/A  276.07\n 1  276.1  N/A\n\n"
                             "cpu_to_gpu0_by_dma_under_numa0 26.2387\n");
    assert_int_equal(data.series_count, 0);
    assert_int_equal(data.rate_count, 4);
    assert_true(data.rates[0].value == 276.07e9 && data.rates[2].value == 26.2387e9);
    assert_string_equal(data.rates[3].name, "h2d");
    dl_link_data_free(&data);
}

/* Three copies of one size: their median, with an error from their spread. */
static void traces_of_bench_are_read(void **state DL_UNUSED)
{
    const char *path = "links_bench.dlt";
    dl_error err = {0};
    dl_trace_writer *writer = NULL;
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_trace_writer_meta(writer, "device", "GPU of a test");
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    for (int i = 0; i < 3; i++) {
        dl_record r = {.kind = DL_RECORD_BENCH,
                       .name = dl_trace_writer_intern(writer, "h2d"),
                       .bytes = 4096,
                       .threads = 1,
                       .staleness = DL_NO_STALENESS,
                       .start_ns = 100 * i,
                       .duration_ns = 1000 + 100 * i};
        dl_trace_stream_append(stream, &r);
        r.name = dl_trace_writer_intern(writer, "launch");
        dl_trace_stream_append(stream, &r);
    }
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
    DL_SCOPED(dl_link_data) data = {0};
    assert_int_equal(dl_link_data_read(&data, path, &err), DL_OK);
    dl_link_data_finish(&data);
    assert_int_equal(data.series_count, 1);
    assert_string_equal(data.series[0].name, "h2d");
    assert_int_equal(data.series[0].count, 1);
    assert_int_equal(data.series[0].points[0].count, 3);
    assert_true(data.series[0].points[0].time_ns == 1100);
    assert_true(data.series[0].points[0].error_frac > 0);
    unlink(path);
}

/* Two sizes in two starts. Medians are 110 and 210 us, and both starts' sums are 320, so both
 * factors are 1; the residual is 10 for each time, which with (2 - 1) (2 - 1) degrees of freedom
 * gives a standard deviation of 20, and 14.14 for the mean of two.
 *
 * Three starts that take exp(0.3), exp(-0.3) and 1 times the medians leave no residual; the
 * standard error of their median is 0.3 sqrt(pi / 6). One start gives no error. */
static void starts_and_scatter_are_told_apart(void **state DL_UNUSED)
{
    dl_link_data data = read_text("two.csv", "collective,ranks,bytes,time_us,start\n"
                                             "allreduce,2,1000,100,1\nallreduce,2,5000,220,1\n"
                                             "allreduce,2,1000,120,2\nallreduce,2,5000,200,2\n");
    assert_int_equal(data.series_count, 1);
    const dl_link_series *s = &data.series[0];
    assert_int_equal(s->start_count, 2);
    assert_true(s->starts[0] == 1 && s->starts[1] == 1 && s->start_error_frac == 0);
    assert_true(fabs(s->points[0].error_frac - 20 / sqrt(2) / 110) < 1e-12);
    assert_true(fabs(s->points[1].error_frac - 20 / sqrt(2) / 210) < 1e-12);
    assert_false(s->one_start);
    dl_link_data_free(&data);

    data =
        read_text("three.csv",
                  "collective,ranks,bytes,time_us,start\n"
                  "allreduce,2,1000,134.98588075760032,4\nallreduce,2,5000,269.97176151520064,4\n"
                  "allreduce,2,1000,74.081822068171788,6\nallreduce,2,5000,148.16364413634358,6\n"
                  "allreduce,2,1000,100,5\nallreduce,2,5000,200,5\n"
                  "allreduce,4,1000,100,5\nallreduce,4,5000,200,5\n");
    s = &data.series[0];
    assert_int_equal(s->start_count, 3);
    assert_true(fabs(s->starts[0] - exp(0.3)) < 1e-12);
    assert_true(fabs(s->starts[1] - 1) < 1e-12);
    assert_true(fabs(s->starts[2] - exp(-0.3)) < 1e-12);
    assert_true(fabs(s->start_error_frac - 0.3 * sqrt(acos(-1) / 6)) < 1e-9);
    assert_true(s->points[0].time_ns == 100000 && s->points[0].error_frac < 1e-9);
    assert_int_equal(data.series[1].start_count, 0);
    assert_true(data.series[1].one_start && !s->one_start);
    dl_link_data_free(&data);
}

static void files_in_order(dl_link_data *data, const char *folder, const char *file)
{
    char path[512];
    dl_error err = {0};
    snprintf(path, sizeof path, "%s/links/%s", folder, file);
    if (dl_link_data_read(data, path, &err) != DL_OK)
        fail_msg("%s:%d: %s", file, err.line, err.text);
    dl_link_data_finish(data);
}

/* Expected values were counted in the files by hand. */
static void real_logs_are_read(void **state DL_UNUSED)
{
    const char *folder = getenv("DL_DATA");
    char probe[512];
    if (folder == NULL) folder = "./data";
    snprintf(probe, sizeof probe, "%s/links", folder);
    if (access(probe, R_OK) != 0) skip();
    dl_link_data data = {0};
    files_in_order(&data, folder, "h100_8gpu_nccl_tests.log");
    assert_int_equal(data.series_count, 10);
    for (size_t i = 0; i < data.series_count; i++) {
        assert_int_equal(data.series[i].count, 10);
        assert_int_equal(data.series[i].ranks, 8);
    }
    assert_string_equal(data.series[0].device, "NVIDIA H100 80GB HBM3");
    dl_link_data_free(&data);
    files_in_order(&data, folder, "a100_8gpu_nvswitch_allgather.log");
    assert_string_equal(data.series[0].name, "allgather");
    assert_int_equal(data.series[0].count, 29); /* 34 rows, five of them of 0 bytes */
    assert_int_equal(data.series[0].points[0].count, 1);
    dl_link_data_free(&data);
    files_in_order(&data, folder, "cuda_memory_h2d_bw.log");
    assert_int_equal(data.series[0].count, 81);
    dl_link_data_free(&data);
    files_in_order(&data, folder, "a100_gpu_copy_bw.log");
    assert_int_equal(data.rate_count, 57);
    dl_link_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_and_missing_hashes_do_not_matter),
        cmocka_unit_test(rows_alone_are_a_table),
        cmocka_unit_test(commands_name_their_tables),
        cmocka_unit_test(rows_of_no_bytes_are_no_calls),
        cmocka_unit_test(rates_agree_within_their_digits),
        cmocka_unit_test(tables_may_lack_columns),
        cmocka_unit_test(tables_of_other_tools_are_read),
        cmocka_unit_test(its_json_is_read_as_its_table),
        cmocka_unit_test(several_tables_of_new_nccl_tests_are_read),
        cmocka_unit_test(old_tables_tell_their_collective),
        cmocka_unit_test(faults_are_named_with_their_line),
        cmocka_unit_test(both_forms_of_bandwidth_test_are_read),
        cmocka_unit_test(matrices_and_single_rates_are_read),
        cmocka_unit_test(matrices_of_peers_are_read),
        cmocka_unit_test(messages_are_read),
        cmocka_unit_test(time_of_non_blocking_collectives_is_pure),
        cmocka_unit_test(a_sum_replaces_the_streams_of_its_run),
        cmocka_unit_test(wrong_results_are_counted),
        cmocka_unit_test(lines_are_read_as_people_paste_them),
        cmocka_unit_test(many_sizes_are_joined),
        cmocka_unit_test(one_log_may_hold_several_programs),
        cmocka_unit_test(traces_of_bench_are_read),
        cmocka_unit_test(starts_and_scatter_are_told_apart),
        cmocka_unit_test(real_logs_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
