/* Passes a log to every reader; each processes only the lines of its own program. */
#include <stdbool.h>
#include <string.h>

#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "common/file.h"

static const dl_link_reader *const readers[] = {
    &dl_link_nccl_tests,  &dl_link_bandwidth_test, &dl_link_nvbandwidth, &dl_link_p2p_test,
    &dl_link_gpu_copy_bw, &dl_link_perftest,       &dl_link_osu,         &dl_link_iperf3};

/* Texts of other forms of these programs' output. */
static const char *const others[][2] = {
    {"\"BW_average\"", "perftest's JSON does not give its units: take the table that it prints"},
    {"\"bandwidth_matrix\"", "nvbandwidth's JSON is not read: take its text, without -j"},
    {"Client connecting to ", "iperf 2 prints intervals and totals alike: measure with iperf3"},
    {"Server listening on UDP ", "iperf 2 prints intervals and totals alike: measure with iperf3"},
    {"Server listening on TCP ", "iperf 2 prints intervals and totals alike: measure with iperf3"},
};

dl_status dl_link_data_read_text(dl_link_data *data, const char *name, const char *text,
                                 size_t bytes, dl_error *err)
{
    size_t tables = 0;
    dl_status status = DL_OK;
    DL_AUTOFREE char *names = NULL;
    if (dl_link_table_recognized(text, bytes))
        return dl_link_table_read(data, name, text, bytes, err);
    DL_AUTOFREE char *made = dl_nccl_json_table(text, bytes);
    if (made != NULL) {
        text = made;
        bytes = strlen(made);
    }
    for (size_t i = 0; i < DL_LENGTH(readers) && status == DL_OK; i++) {
        dl_link_log log = {.path = name, .at = text, .end = text + bytes};
        status = readers[i]->read(data, &log, &tables, err);
        dl_join(&names, ", ", readers[i]->name);
    }
    for (size_t i = 0; i < DL_LENGTH(others) && status == DL_OK && tables == 0; i++)
        if (memmem(text, bytes, others[i][0], strlen(others[i][0])) != NULL)
            status = dl_error_set_at(err, DL_ERR_DATA, name, 0, "%s", others[i][1]);
    if (status == DL_OK && tables == 0) {
        status = dl_error_set_at(err, DL_ERR_DATA, name, 0,
                                 "there is no table of %s in it, nor columns "
                                 "collective,ranks,bytes,time_us",
                                 names);
    }
    return status;
}

dl_status dl_link_data_read(dl_link_data *data, const char *path, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    const bool is_trace = bytes >= 8 && memcmp(text, "DLTRACE\n", 8) == 0;
    if (!is_trace) status = dl_link_data_read_text(data, path, text, bytes, err);
    return is_trace ? dl_link_bench_read(data, path, err) : status;
}
