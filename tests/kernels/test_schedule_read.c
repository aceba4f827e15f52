/* Schedules: reading and refusing them. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/refused.h"

#include "kernels/train/schedule.h"

#define HEAD "# dlscale schedule\n# schema: 1\n# mode: softsync\n# workers: 2\n# batch: 12\n"
#define COLUMNS "time_s,event,update,worker,read,batch\n"
#define WEIGHT "time_s,event,update,worker,read,batch,weight\n"
#define FRAGMENT "time_s,event,update,worker,read,batch,fragment\n"
#define UPLOAD "0,local,,0,,0,\n0,upload,,0,0,,\n"

static void gradients_are_grouped_by_update(void **state DL_UNUSED)
{
    static const char rows[] = HEAD COLUMNS "0.5,gradient,1,0,0,0\n"
                                            "0.5,gradient,1,1,0,1\n"
                                            "0.75,gradient,2,0,0,2\n"
                                            "1,gradient,3,1,1,3\n"
                                            "1,gradient,3,0,2,4\n";
    DL_SCOPED(dl_schedule) s = {0};
    dl_error err = {0};
    assert_int_equal(dl_schedule_read_text(&s, "s.csv", rows, strlen(rows), &err), DL_OK);
    assert_string_equal(s.mode, "softsync");
    assert_int_equal(s.workers, 2);
    assert_int_equal(s.batch, 12);
    assert_int_equal(s.count, 5);
    assert_int_equal(s.gradients, 5);
    assert_int_equal(s.updates, 3);
    assert_int_equal(s.staleness_max, 1);
    assert_true(s.staleness_mean == 0.4);
    /* Events that must be done before: none for version 0, events 0 and 1 for version 1, event 2
     * for version 2. */
    static const size_t after[] = {0, 0, 0, 2, 3};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(s.events[i].after, after[i]);
        assert_int_equal(s.events[i].kind, DL_SCHEDULE_GRADIENT);
        assert_int_equal(s.events[i].batch, i);
    }
    assert_true(s.events[2].time_s == 0.75);
}

static void local_steps_follow_their_worker(void **state DL_UNUSED)
{
    static const char rows[] = HEAD COLUMNS "0,local,,0,,0\n"
                                            "0,local,,1,,1\n"
                                            "0,local,,1,,3\n"
                                            "1,average,1,,,\n"
                                            "2,local,,0,,2\n";
    DL_SCOPED(dl_schedule) s = {0};
    dl_error err = {0};
    assert_int_equal(dl_schedule_read_text(&s, "s.csv", rows, strlen(rows), &err), DL_OK);
    static const size_t after[] = {0, 0, 2, 3, 4};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(s.events[i].after, after[i]);
    assert_int_equal(s.gradients, 4);
    assert_int_equal(s.updates, 1);
}

/* Bytes after the text in memory are not part of it. */
static void only_its_own_bytes_are_read(void **state DL_UNUSED)
{
    static const char text[] = HEAD COLUMNS "0,gradient,1,0,0,0\n";
    dl_error err = {0};
    for (size_t bytes = 0; bytes < strlen(HEAD); bytes++) {
        dl_schedule s = {0};
        DL_AUTOFREE char *part = dl_realloc(NULL, bytes, 1, "text");
        memcpy(part, text, bytes);
        assert_int_not_equal(dl_schedule_read_text(&s, "s.csv", part, bytes, &err), DL_OK);
        /* The error is the same if the rest of the text follows. */
        dl_error again = {0};
        assert_int_not_equal(dl_schedule_read_text(&s, "s.csv", text, bytes, &again), DL_OK);
        assert_int_equal(again.line, err.line);
        assert_string_equal(again.text, err.text);
    }
}

static void lines_may_end_as_on_windows(void **state DL_UNUSED)
{
    static const char rows[] =
        "# dlscale schedule\r\n# schema: 1\r\n# mode: async\r\n# workers: 2\r\n# batch: 12\r\n"
        "time_s,event,update,worker,read,batch\r\n0,gradient,1,0,0,0\r\n";
    DL_SCOPED(dl_schedule) s = {0};
    dl_error err = {0};
    assert_int_equal(dl_schedule_read_text(&s, "s.csv", rows, strlen(rows), &err), DL_OK);
    assert_string_equal(s.mode, "async");
    assert_int_equal(s.batch, 12);
    assert_int_equal(s.count, 1);
}

static dl_status read_wrong(const char *text, dl_error *err)
{
    dl_schedule s = {.workers = 99};
    /* A block of exactly this size, for AddressSanitizer. */
    const size_t bytes = strlen(text);
    DL_AUTOFREE char *copy = dl_realloc(NULL, bytes, 1, "text");
    memcpy(copy, text, bytes);
    const dl_status status = dl_schedule_read_text(&s, "s.csv", copy, bytes, err);
    if (status != DL_OK) assert_int_equal(s.workers, 99);
    return status;
}

static void what_is_no_schedule_is_refused_with_its_line(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {"", DL_ERR_PARSE, 1, "is not a schedule"},
        {"workers,batch\n1,2\n", DL_ERR_PARSE, 1, "is not a schedule"},
        {"# dlscale schedule\n# schema: 2\n", DL_ERR_RANGE, 2, "schema is '2'"},
        {"# dlscale schedule\n", DL_ERR_DATA, 1, "lacks '# schema: ...'"},
        {"# dlscale schedule", DL_ERR_PARSE, 1, "is not a schedule"},
        {"# dlscale schedule\r", DL_ERR_PARSE, 1, "is not a schedule"},
        {"# dlscale schedule\n#", DL_ERR_DATA, 1, "lacks '# schema: ...'"},
        {"# dlscale schedule\n# schema", DL_ERR_DATA, 1, "lacks '# schema: ...'"},
        {"# dlscale schedule\n# schema:", DL_ERR_RANGE, 2, "schema is ''"},
        {"# dlscale schedule\r\n# schema:\r\n", DL_ERR_RANGE, 2, "schema is ''"},
        {"# dlscale schedule\r\n# schema: \r\n", DL_ERR_RANGE, 2, "schema is ''"},
        {"# dlscale schedule\r\n# schema: 1\r\n# workers:\r\n", DL_ERR_RANGE, 3, "workers is ''"},
        {"# dlscale schedule\r\n# schema: 1\r\n# workers: 2\r\n# batch:\r\n", DL_ERR_RANGE, 4,
         "batch is ''"},
        {"# dlscale schedule\r\n# schema: 1\r\n# workers: 2\r\n# batch: 4\r\n# mode:\r\n",
         DL_ERR_RANGE, 5, "mode is ''"},
        {"# dlscale schedule\n# schema: 1\n# batch: 12\n", DL_ERR_DATA, 1,
         "lacks '# workers: ...'"},
        {"# dlscale schedule\n# schema: 1\n# workers: 0\n", DL_ERR_RANGE, 3, "workers is '0'"},
        {"# dlscale schedule\n# schema: 1\n# workers: 2x\n", DL_ERR_RANGE, 3, "workers is '2x'"},
        {"# dlscale schedule\n# schema: 1\n# workers: 2\n# batch: 13\n", DL_ERR_RANGE, 1,
         "cannot be shared"},
        {HEAD, DL_ERR_PARSE, 0, "no column names"},
        {HEAD "time_s,event,update,worker,read\n1,gradient,1,0,0\n", DL_ERR_DATA, 0,
         "lacks the column batch"},
        {HEAD COLUMNS, DL_ERR_DATA, 0, "has no gradient"},
        {HEAD COLUMNS "0,average,1,,,\n", DL_ERR_DATA, 0, "has no gradient"},
        {HEAD COLUMNS "0,gradient,1,0,0\n", DL_ERR_PARSE, 7, "cells"},
        {HEAD COLUMNS "0,gradiant,1,0,0,0\n", DL_ERR_NAME, 7, "did you mean 'gradient'"},
        {HEAD COLUMNS "0,gradient,2,0,0,0\n", DL_ERR_RANGE, 7,
         "update is '2'; must be a whole number from 1"},
        {HEAD COLUMNS "0,gradient,1,0,0,0\n0,gradient,3,0,0,0\n", DL_ERR_RANGE, 8, "update is '3'"},
        {HEAD COLUMNS "0,gradient,1,0,0,0\n0,gradient,2,0,0,0\n0,gradient,1,0,0,0\n", DL_ERR_RANGE,
         9, "update is '1'"},
        {HEAD COLUMNS "0,gradient,1,2,0,0\n", DL_ERR_RANGE, 7,
         "worker is '2'; must be a whole number from 0"},
        {HEAD COLUMNS "0,gradient,1,-1,0,0\n", DL_ERR_RANGE, 7, "worker is '-1'"},
        {HEAD COLUMNS "0,gradient,1,0,1,0\n", DL_ERR_RANGE, 7, "read is '1'"},
        {HEAD COLUMNS "0,gradient,1,0,0,\n", DL_ERR_RANGE, 7, "batch is ''"},
        {HEAD COLUMNS "0,gradient,1,0,0,0.5\n", DL_ERR_RANGE, 7, "batch is '0.5'"},
        {HEAD COLUMNS "0,gradient,1,0,0,1e18\n", DL_ERR_RANGE, 7, "batch is '1e18'"},
        {HEAD COLUMNS "0,gradient,one,0,0,0\n", DL_ERR_PARSE, 7, "one"},
        {HEAD COLUMNS "x,gradient,1,0,0,0\n", DL_ERR_PARSE, 7, "x"},
        {HEAD COLUMNS ",gradient,1,0,0,0\n", DL_ERR_RANGE, 7, "time_s is ''"},
        {HEAD COLUMNS "inf,gradient,1,0,0,0\n", DL_ERR_RANGE, 7, "time_s is 'inf'"},
        {HEAD COLUMNS "2,gradient,1,0,0,0\n1,gradient,2,0,0,0\n", DL_ERR_RANGE, 8,
         "must be 2 or more: events must be in order of time"},
        {HEAD COLUMNS "0,gradient,1,0,0,0\n0,local,,0,,0\n", DL_ERR_DATA, 8,
         "a server applies the gradients or the workers do"},
        {HEAD COLUMNS "0,local,,0,,0\n0,gradient,1,0,0,0\n", DL_ERR_DATA, 8,
         "a server applies the gradients or the workers do"},
        {HEAD COLUMNS "0,local,,0,,0\n0,average,2,,,\n", DL_ERR_RANGE, 8, "update is '2'"},
        {HEAD COLUMNS "0,local,,5,,0\n", DL_ERR_RANGE, 7, "worker is '5'"},
    };
    assert_all_refused(cases, "s.csv", read_wrong);
}

static void averages_of_what_was_not_sent_are_refused(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {HEAD COLUMNS "0,local,,0,,0\n0,upload,,0,0,\n1,merge,1,0,0,\n", DL_ERR_DATA, 0,
         "lacks the column weight"},
        {HEAD WEIGHT "0,local,,0,,0,\n1,merge,1,0,0,,1\n", DL_ERR_DATA, 8,
         "worker 0 has no unmerged upload"},
        {HEAD WEIGHT UPLOAD "1,merge,1,0,0,,1\n1,merge,1,0,0,,1\n", DL_ERR_DATA, 10,
         "no unmerged upload"},
        {HEAD WEIGHT UPLOAD "1,merge,2,0,0,,1\n", DL_ERR_RANGE, 9, "update is '2'"},
        {HEAD WEIGHT UPLOAD "1,merge,1,0,1,,1\n", DL_ERR_RANGE, 9, "read is '1'"},
        {HEAD WEIGHT UPLOAD "1,merge,1,0,0,,1.5\n", DL_ERR_RANGE, 9, "weight is '1.5'"},
        {HEAD WEIGHT UPLOAD "1,replace,,0,1,,\n", DL_ERR_RANGE, 9, "read is '1'"},
        {HEAD WEIGHT "0,local,,0,,0,\n1,upload,,0,1,,\n", DL_ERR_RANGE, 8, "read is '1'"},
        {HEAD WEIGHT UPLOAD "1,average,1,,,,\n", DL_ERR_DATA, 9, "averages or merges, not both"},
        {HEAD "# fragments: 0\n" COLUMNS "0,local,,0,,0\n", DL_ERR_RANGE, 6, "fragments is '0'"},
        {HEAD COLUMNS "0,local,,0,,0\n1,average,1,,,\n1,send,,0,,\n", DL_ERR_DATA, 9,
         "after an average without 'send' events"},
        {HEAD COLUMNS "0,local,,0,,0\n1,send,,0,,\n1,average,1,,,\n", DL_ERR_DATA, 9,
         "worker 1 has not sent fragment 0"},
        {HEAD COLUMNS "0,local,,0,,0\n1,send,,0,,\n1,send,,0,,\n", DL_ERR_DATA, 9,
         "worker 0 sends fragment 0 again"},
        {HEAD COLUMNS "0,local,,0,,0\n0,local,,1,,0\n1,send,,1,,\n1,receive,,1,,\n", DL_ERR_DATA,
         10, "worker 1 has already received every average of fragment 0"},
        {HEAD "# fragments: 2\n" FRAGMENT "0,local,,0,,0,\n1,average,1,,,,2\n", DL_ERR_RANGE, 9,
         "fragment is '2'"},
        {HEAD "# sites: 3\n" COLUMNS "0,local,,0,,0\n", DL_ERR_RANGE, 6, "sites is '3'"},
        {HEAD "# sites: 1\n" COLUMNS "0,local,,0,,0\n1,local,,0,,1\n", DL_ERR_DATA, 9,
         "worker 0 continues before worker 1 of its site"},
        {HEAD "# sites: 1\n" COLUMNS "0,local,,1,,0\n1,average,1,,,\n", DL_ERR_DATA, 9,
         "worker 1 continues before worker 0 of its site"},
        {HEAD "# sites: 1\n" COLUMNS "0,gradient,1,0,0,0\n", DL_ERR_DATA, 8,
         "'gradient' cannot occur in a schedule with sites"},
    };
    assert_all_refused(cases, "s.csv", read_wrong);
}

/* 1024 versions are kept; the first one is dropped after 1024 updates. */
static void a_version_that_is_gone_is_refused(void **state DL_UNUSED)
{
    for (int last = 1024; last <= 1025; last++) {
        DL_AUTOFREE char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        fputs(HEAD COLUMNS, out);
        for (int u = 1; u < last; u++)
            fprintf(out, "0,gradient,%d,0,%d,0\n", u, u - 1);
        fprintf(out, "0,gradient,%d,1,0,0\n", last);
        fclose(out);
        dl_schedule s = {0};
        dl_error err = {0};
        const dl_status status = dl_schedule_read_text(&s, "s.csv", text, bytes, &err);
        if (last == 1024) {
            assert_int_equal(status, DL_OK);
            assert_int_equal(s.staleness_max, 1023);
            dl_schedule_free(&s);
        } else {
            assert_int_equal(status, DL_ERR_RANGE);
            assert_int_equal(err.line, 6 + last);
            assert_contains(err.text, "reads version 0 after update");
        }
    }
}

static void a_file_that_is_not_there_is_an_error(void **state DL_UNUSED)
{
    dl_schedule s = {0};
    dl_error err = {0};
    assert_int_equal(dl_schedule_read(&s, "no/such/file.csv", &err), DL_ERR_IO);
    assert_contains(err.file, "no/such/file.csv");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_grouped_by_update),
        cmocka_unit_test(local_steps_follow_their_worker),
        cmocka_unit_test(only_its_own_bytes_are_read),
        cmocka_unit_test(lines_may_end_as_on_windows),
        cmocka_unit_test(what_is_no_schedule_is_refused_with_its_line),
        cmocka_unit_test(averages_of_what_was_not_sent_are_refused),
        cmocka_unit_test(a_version_that_is_gone_is_refused),
        cmocka_unit_test(a_file_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
