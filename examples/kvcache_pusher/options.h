/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "pusher.h"

/* 0; 1: help was printed; -1: what is wrong. */
int options_parse(int argc, char **argv, struct options *o, struct problem *p);

#endif
