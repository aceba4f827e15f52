/* dlcal info: summarises traces of other profilers. */
#ifndef DL_CALIBRATE_CMD_INFO_H
#define DL_CALIBRATE_CMD_INFO_H

/* The sub-command; argv[0] is "dlcal info". Returns the exit status. */
int dl_calibrate_info(int argc, char **argv);

#endif
