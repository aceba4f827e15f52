/* dlcal links: fits times of copies and collectives by size. */
#ifndef DL_CALIBRATE_CMD_LINKS_H
#define DL_CALIBRATE_CMD_LINKS_H

/* The sub-command; argv[0] is "dlcal links". Returns the exit status. */
int dl_calibrate_links(int argc, char **argv);

#endif
